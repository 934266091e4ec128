//! `aforo health`: asks a running gateway whether it is ready, as a container's health check does.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use thiserror::Error;

/// How long each step may take.
const WITHIN: Duration = Duration::from_secs(2);

/// Why the gateway is not known to be ready.
#[derive(Debug, Error)]
pub enum HealthError {
    /// It cannot be asked.
    #[error("cannot ask {0}: {1}")]
    Unreachable(SocketAddr, io::Error),
    /// It says that it is not.
    #[error("not ready: {0}")]
    NotReady(String),
}

/// Asks `/readyz` of the admin listener at `address`.
///
/// # Errors
///
/// Where it cannot be asked or is not ready.
pub fn ask(address: SocketAddr) -> Result<(), HealthError> {
    let address = reachable(address);
    let answer = exchange(address).map_err(|error| HealthError::Unreachable(address, error))?;
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    let said = answer.lines().last().unwrap_or(status);
    Err(HealthError::NotReady(said.to_owned()))
}

/// Who listens everywhere is asked on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn exchange(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    write!(
        stream,
        "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    // More than any answer to this has.
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}
