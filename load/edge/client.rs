//! A client that asks once on each connection, plain or over TLS.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A connection that has had its answer.
pub trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

/// Believes this certificate, and takes no session up again.
pub fn tls(file: &str) -> Result<Arc<ClientConfig>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file)?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Connects, with TLS as `localhost`, and asks with these further lines of a header.
pub fn ask(
    address: &str,
    tls: Option<&Arc<ClientConfig>>,
    further: &str,
) -> Result<Box<dyn Connection>, Box<dyn Error>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut connection: Box<dyn Connection> = match tls {
        None => Box::new(stream),
        Some(config) => {
            let name = ServerName::try_from("localhost")?;
            let session = ClientConnection::new(Arc::clone(config), name)?;
            Box::new(StreamOwned::new(session, stream))
        }
    };
    let request =
        format!("GET /x HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: shop-a\r\n{further}\r\n");
    connection.write_all(request.as_bytes())?;
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
