//! Connections that have asked once and are silent since: how much resident memory each of them
//! costs the process that they are connected to.
//!
//! `idle ADDRESS PID CONNECTIONS [CERTIFICATE]`; with a certificate over TLS, as `localhost`.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const REQUEST: &[u8] = b"GET /x HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: shop-a\r\n\r\n";

/// Connections before the first measurement: the process has made its own buffers then.
const WARM_UP: usize = 100;

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, process, number, certificate @ ..] = &arguments[..] else {
        return Err("usage: idle ADDRESS PID CONNECTIONS [CERTIFICATE]".into());
    };
    let number: usize = number.parse()?;
    let tls = certificate.first().map(|file| client(file)).transpose()?;
    let connect = || connect(address, tls.as_ref());
    let mut connections = Vec::new();
    for _ in 0..WARM_UP {
        connections.push(connect()?);
    }
    let before = resident(process)?;
    for _ in 0..number {
        connections.push(connect()?);
    }
    // What it frees after an answer it has freed then.
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident(process)?.saturating_sub(before);
    println!("{:.2}", grown as f64 / number as f64);
    Ok(())
}

fn client(file: &str) -> Result<Arc<ClientConfig>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn connect(
    address: &str,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn Connection>, Box<dyn Error>> {
    let stream = TcpStream::connect(address)?;
    let mut connection: Box<dyn Connection> = match tls {
        None => Box::new(stream),
        Some(config) => {
            let name = ServerName::try_from("localhost")?;
            let session = ClientConnection::new(Arc::clone(config), name)?;
            Box::new(StreamOwned::new(session, stream))
        }
    };
    connection.write_all(REQUEST)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok\n") {
        let mut part = [0; 4096];
        match connection.read(&mut part)? {
            0 => return Err("closed without an answer".into()),
            read => answer.extend_from_slice(&part[..read]),
        }
    }
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&answer).into());
    }
    Ok(connection)
}

/// The resident memory of a process, in KiB.
fn resident(process: &str) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(kibibytes.parse()?)
}
