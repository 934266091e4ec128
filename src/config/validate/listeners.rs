//! The listeners: their addresses, and what TLS is made of. The files that they name are read by whoever serves them.

use std::net::SocketAddr;

use crate::config::error::Problems;
use crate::config::model::{Certificate, ClientCertificates, Listener, Tls};
use crate::config::raw;

/// The listeners, None where the address is wrong: the index of each is still that of the file.
pub(super) fn listeners(raw: Vec<raw::Listener>, problems: &mut Problems) -> Vec<Option<Listener>> {
    if raw.is_empty() {
        problems.add(
            "listeners",
            "at least one is needed, such as `- address: 0.0.0.0:8080`",
        );
    }
    let mut listeners: Vec<Option<Listener>> = Vec::with_capacity(raw.len());
    for (index, listener) in raw.into_iter().enumerate() {
        let path = format!("listeners[{index}].address");
        let address = address(&listener.address, &path, problems);
        if let Some(address) = address {
            taken(address, &listeners, &path, problems);
        }
        let h2c = listener.h2c.unwrap_or_default();
        if h2c && listener.tls.is_some() {
            problems.add(
                format!("listeners[{index}].h2c"),
                "is for a listener without tls, which speaks HTTP/2 anyway; leave it out",
            );
        }
        let tls = listener
            .tls
            .map(|raw| tls(raw, &format!("listeners[{index}].tls"), problems));
        listeners.push(address.map(|address| Listener { address, tls, h2c }));
    }
    listeners
}

fn tls(raw: raw::Tls, path: &str, problems: &mut Problems) -> Tls {
    let first = Certificate {
        cert: raw.cert,
        key: raw.key,
    };
    let further = raw.certificates.unwrap_or_default().into_iter();
    let further = further.map(|raw::Certificate { cert, key }| Certificate { cert, key });
    if raw.client_cert.is_some() && raw.client_ca.is_none() {
        problems.add(
            format!("{path}.client_cert"),
            "needs client_ca, the authorities whose certificates are believed",
        );
    }
    let clients = raw.client_ca.map(|ca| ClientCertificates {
        ca,
        need: raw.client_cert.unwrap_or_default(),
    });
    Tls {
        certificates: std::iter::once(first).chain(further).collect(),
        min_version: raw.min_version.unwrap_or_default(),
        clients,
    }
}

pub(super) fn address(text: &str, path: &str, problems: &mut Problems) -> Option<SocketAddr> {
    let address: Option<SocketAddr> = text.parse().ok();
    match address {
        Some(address) if address.port() == 0 => {
            problems.add(
                path,
                format!("`{text}` has port 0, which nobody could find"),
            );
            None
        }
        Some(address) => Some(address),
        None => {
            problems.add(
                path,
                format!(
                    "`{text}` is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080"
                ),
            );
            None
        }
    }
}

/// Notes an address that one of these listeners already takes, itself or as a part of all addresses.
pub(super) fn taken(
    address: SocketAddr,
    listeners: &[Option<Listener>],
    path: &str,
    problems: &mut Problems,
) {
    let other = listeners.iter().enumerate().find_map(|(index, listener)| {
        let other = listener.as_ref()?.address;
        let same_ip = address.ip() == other.ip();
        let same_kind = address.is_ipv4() == other.is_ipv4();
        let any = address.ip().is_unspecified() || other.ip().is_unspecified();
        // [::] takes the port of every IPv4 address too.
        let all = [address, other]
            .iter()
            .any(|one| one.is_ipv6() && one.ip().is_unspecified());
        let clash = address.port() == other.port() && (same_ip || same_kind && any || all);
        clash.then_some((index, other))
    });
    if let Some((index, other)) = other {
        problems.add(
            path,
            format!(
                "{address} is taken by listeners[{index}] ({other}), each listener needs its own"
            ),
        );
    }
}
