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
    /// Who asks clients for a certificate. None: they are not asked.
    pub clients: Option<ClientCertificates>,
}

/// Which certificates of clients are believed, and whether one is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Certificates of authorities, PEM: one that is shown must be of one of them.
    pub ca: PathBuf,
    /// What becomes of a client that shows none.
    pub need: Need,
}

/// Whether a client must show a certificate. One that is shown is checked in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// A client that shows none is turned away. The default.
    #[default]
    Required,
    /// A client that shows none is served.
    Optional,
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
