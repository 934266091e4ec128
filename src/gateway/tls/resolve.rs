//! Which of several certificates a client is shown: the one for the host that it names (SNI,
//! RFC 6066), or the first.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// Certificates by the names that they are for.
#[derive(Debug)]
pub struct ByName {
    /// By host, and by what follows the first dot of a wildcard with that dot: `.example.com`.
    /// Several of one name in the order of the file, for an RSA key beside one that is shorter.
    names: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// For clients that name no host, or one that no certificate is for.
    first: Arc<CertifiedKey>,
}

impl ByName {
    /// Certificates, the first for whoever names no host. None where there is none.
    pub fn new(certificates: Vec<Certificate>) -> Option<Self> {
        let first = Arc::clone(&certificates.first()?.certified);
        let mut names = HashMap::<String, Vec<_>>::new();
        for certificate in &certificates {
            for name in &certificate.names {
                let name = name.strip_prefix('*').unwrap_or(name);
                let certified = Arc::clone(&certificate.certified);
                names.entry(name.to_owned()).or_default().push(certified);
            }
        }
        Some(Self { names, first })
    }

    /// The certificates for a host. A wildcard stands for one label, and an exact name goes before
    /// it (RFC 9525, 6.3).
    fn of(&self, host: &str) -> &[Arc<CertifiedKey>] {
        let of = |host: &str| {
            let wildcard = || host.find('.').and_then(|dot| self.names.get(&host[dot..]));
            self.names.get(host).or_else(wildcard)
        };
        let found = if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            of(&host.to_ascii_lowercase())
        } else {
            of(host)
        };
        found.map_or(&[], Vec::as_slice)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().map_or(&[][..], |host| self.of(host));
        let can_read = |certified: &&Arc<CertifiedKey>| {
            let schemes = hello.signature_schemes();
            certified.key.choose_scheme(schemes).is_some()
        };
        let chosen = named.iter().find(can_read).or(named.first());
        Some(Arc::clone(chosen.unwrap_or(&self.first)))
    }
}

#[cfg(test)]
impl ByName {
    /// The certificate that a host is shown, whatever the client can read.
    pub fn first_of(&self, host: &str) -> &Arc<CertifiedKey> {
        self.of(host).first().unwrap_or(&self.first)
    }
}
