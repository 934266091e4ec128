//! Where clients are listened for, and what is spoken there.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// One address at which clients are listened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// IP address and port.
    pub address: SocketAddr,
    /// What TLS needs, HTTP/1.1 and HTTP/2 over it. None: plain.
    pub tls: Option<Tls>,
    /// Whether plain connections may begin with HTTP/2 (RFC 9113, 3.3). Never together with TLS,
    /// where the handshake agrees on the protocol.
    pub h2c: bool,
}

impl Listener {
    /// Whether a running process may go from this to `new` without listening anew.
    pub(in crate::config) fn listens_like(&self, new: &Self) -> bool {
        let Self { address, tls, h2c } = self;
        (*address, tls.is_some(), *h2c) == (new.address, new.tls.is_some(), new.h2c)
    }
}

/// What a TLS listener shows and asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates, at least one. The first is for clients that name no host, or an unknown one.
    pub certificates: Vec<Certificate>,
    /// The oldest version that is spoken.
    pub min_version: TlsVersion,
    /// Certificates of authorities, PEM: a client must show a certificate of one of them. None:
    /// clients are not asked.
    pub client_ca: Option<PathBuf>,
}

/// The files of one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, and those that lead from it to an authority, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum TlsVersion {
    /// RFC 5246. The default.
    #[default]
    #[serde(rename = "TLSv1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "TLSv1.3")]
    Tls13,
}
