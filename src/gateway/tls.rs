//! TLS of the listeners: which certificate a client is shown, and how that changes while the
//! process runs.
//!
//! [`Table::load`] reads all files of a configuration anew, and names whatever is wrong with them.
//! A reload puts the result into force as a whole; connections that are there go on as they are.
//! How a connection is shaken hands with is the business of [`door`](super::door).

mod certificate;
mod resolve;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use pingora::listeners::tls::Acceptor;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use self::certificate::Certificate;
use self::resolve::ByName;
use crate::config::{ClientCertificates, Listener, Need, Problem, Tls, TlsVersion};

/// What is agreed on beside TLS (RFC 7301), what we like best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The listeners with TLS, each with what its next client is met by.
#[derive(Default)]
pub struct Table(Vec<(SocketAddr, Arc<Acceptor>)>);

/// What was read.
pub struct Loaded {
    /// Ready to be used.
    pub table: Table,
    /// What is wrong but does not keep anybody from listening: certificates that clients will not
    /// believe, for their time has not come or is over. An old one may be all that there is, and
    /// refusing to start would take away the other listeners too.
    pub warnings: Vec<Problem>,
}

impl Table {
    /// Reads the files of `listeners`. `now` is what certificates are held against.
    ///
    /// # Errors
    ///
    /// All that is wrong, each with its key.
    pub fn load(listeners: &[Listener], now: SystemTime) -> Result<Loaded, Vec<Problem>> {
        let mut table = Vec::new();
        let mut warnings = Vec::new();
        let mut problems = Vec::new();
        let provider = Arc::new(ring::default_provider());
        for (index, listener) in listeners.iter().enumerate() {
            let Some(tls) = &listener.tls else {
                continue;
            };
            let mut notes = Notes {
                section: format!("listeners[{index}].tls"),
                problems: &mut problems,
                warnings: &mut warnings,
            };
            if let Some(config) = server_config(tls, &provider, now, &mut notes) {
                let acceptor = Acceptor::from_server_config(Arc::new(config));
                table.push((listener.address, Arc::new(acceptor)));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Loaded {
            table: Self(table),
            warnings,
        })
    }

    /// What clients of the listener at this address are met by. None: it has no TLS.
    pub fn of(&self, address: SocketAddr) -> Option<&Arc<Acceptor>> {
        let found = self.0.iter().find(|(listens, _)| *listens == address);
        found.map(|(_, acceptor)| acceptor)
    }
}

/// What is found to be wrong with one listener.
struct Notes<'p> {
    section: String,
    problems: &'p mut Vec<Problem>,
    warnings: &'p mut Vec<Problem>,
}

impl Notes<'_> {
    fn problem(&mut self, key: &str, message: String) {
        self.problems.push(self.of(key, message));
    }

    fn warning(&mut self, key: &str, message: String) {
        self.warnings.push(self.of(key, message));
    }

    fn of(&self, key: &str, message: String) -> Problem {
        Problem {
            path: format!("{}.{key}", self.section),
            message,
        }
    }
}

/// The settings of one listener; None where something is wrong, which is noted then.
fn server_config(
    tls: &Tls,
    provider: &Arc<CryptoProvider>,
    now: SystemTime,
    notes: &mut Notes<'_>,
) -> Option<ServerConfig> {
    let mut certificates = Vec::new();
    for (place, files) in tls.certificates.iter().enumerate() {
        // The first stands in the section itself.
        let key = |name: &str| match place {
            0 => name.to_owned(),
            _ => format!("certificates[{}].{name}", place - 1),
        };
        match Certificate::read(files, provider) {
            Ok(certificate) => {
                if let Some(warning) = certificate.out_of_time(now) {
                    let file = files.cert.display();
                    notes.warning(&key("cert"), format!("{file} {warning}"));
                }
                certificates.push(certificate);
            }
            Err(wrong) => {
                let name = if wrong.is_of_key() { "key" } else { "cert" };
                notes.problem(&key(name), wrong.to_string());
            }
        }
    }
    let verifier = match &tls.clients {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(clients) => match verifier(clients, provider) {
            Ok(verifier) => verifier,
            Err(wrong) => {
                notes.problem("client_ca", format!("{} {wrong}", clients.ca.display()));
                return None;
            }
        },
    };
    let resolver = ByName::new(certificates)?;
    let versions: &[&SupportedProtocolVersion] = match tls.min_version {
        TlsVersion::Tls12 => &[&TLS12, &TLS13],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| notes.problem("min_version", error.to_string()))
        .ok()?;
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // Tickets that this process can read, so that it need not remember sessions. Each listener has
    // keys of its own, and new ones after each reload: a session that was begun where no client
    // certificate was asked for, or another one, is never taken up where one is.
    match ring::Ticketer::new() {
        Ok(ticketer) => config.ticketer = ticketer,
        Err(error) => {
            notes.problem("cert", format!("no keys for session tickets: {error}"));
            return None;
        }
    }
    Some(config)
}

/// What checks the certificates of clients. One that is shown must be right also where none is needed.
fn verifier(
    clients: &ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let roots = Arc::new(roots(&clients.ca)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let builder = match clients.need {
        Need::Required => builder,
        Need::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| error.to_string())
}

/// The authorities whose clients are let in.
fn roots(file: &Path) -> Result<RootCertStore, String> {
    let certificates = certificate::chain(file).map_err(|wrong| wrong.reason())?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate)
            .map_err(|error| format!("holds a certificate that is no authority's: {error}"))?;
    }
    Ok(roots)
}
