//! Connections that have asked once and are silent since: how much resident memory each of them
//! costs the process that they are connected to.
//!
//! `idle ADDRESS PID CONNECTIONS [CERTIFICATE]`; with a certificate over TLS, as `localhost`.

use std::error::Error;
use std::fs;
use std::time::Duration;

mod client;

/// Connections before the first measurement: the process has made its own buffers then.
const WARM_UP: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, process, number, certificate @ ..] = &arguments[..] else {
        return Err("usage: idle ADDRESS PID CONNECTIONS [CERTIFICATE]".into());
    };
    let number: usize = number.parse()?;
    let tls = certificate
        .first()
        .map(|file| client::tls(file))
        .transpose()?;
    let connect = || client::ask(address, tls.as_ref(), "");
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

/// The resident memory of a process, in KiB.
fn resident(process: &str) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(kibibytes.parse()?)
}
