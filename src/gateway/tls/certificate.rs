//! One certificate with its key, read from files, and what can be said of it before any client
//! sees it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as RustlsError, InconsistentKeys};
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::config;

/// A certificate that clients can be shown.
#[derive(Debug)]
pub struct Certificate {
    /// With its chain and key.
    pub certified: Arc<CertifiedKey>,
    /// The hosts that it is for, as it has them, in lower case: `*.example.com` is a wildcard.
    pub names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum Unusable {
    /// A file cannot be read.
    #[error("{file} cannot be read: {cause}", file = .0.file.display(), cause = .1)]
    Unreadable(Of, io::Error),
    /// A file holds nothing of the kind.
    #[error("{file} holds no {what} in PEM", file = .0.file.display(), what = .0.what())]
    Missing(Of),
    /// A file holds something else.
    #[error("{file} is no {what}: {reason}", file = .0.file.display(), what = .0.what(), reason = .1)]
    Malformed(Of, String),
    /// Certificate and key do not belong together.
    #[error("{} is not the key of the first certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        cert: PathBuf,
    },
}

/// A file, and what it should hold.
#[derive(Debug)]
pub struct Of {
    file: PathBuf,
    is_key: bool,
}

impl Of {
    fn certificate(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            is_key: false,
        }
    }

    fn key(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            is_key: true,
        }
    }

    fn what(&self) -> &'static str {
        if self.is_key {
            "private key"
        } else {
            "certificate"
        }
    }
}

impl Unusable {
    /// Whether it is the key's file that is wrong.
    pub fn is_of_key(&self) -> bool {
        match self {
            Self::Unreadable(of, _) | Self::Missing(of) | Self::Malformed(of, _) => of.is_key,
            Self::Mismatch { .. } => true,
        }
    }

    /// What is wrong, where the file was named already.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreadable(_, cause) => format!("cannot be read: {cause}"),
            Self::Missing(of) => format!("holds no {} in PEM", of.what()),
            Self::Malformed(of, reason) => format!("is no {}: {reason}", of.what()),
            Self::Mismatch { .. } => self.to_string(),
        }
    }
}

impl Certificate {
    /// Reads a certificate, its chain and its key.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read or holds something else, and where the two do not belong
    /// together.
    pub fn read(files: &config::Certificate, provider: &CryptoProvider) -> Result<Self, Unusable> {
        let of_cert = || Of::certificate(&files.cert);
        let of_key = || Of::key(&files.key);
        let chain = chain(&files.cert)?;
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| not_pem(of_key(), error))?;
        let (names, not_before, not_after) =
            described(&chain[0]).map_err(|reason| Unusable::Malformed(of_cert(), reason))?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| Unusable::Malformed(of_key(), error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // Unknown: a kind of key that does not tell its public half, which no file's is.
            Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(RustlsError::InconsistentKeys(_)) => {
                return Err(Unusable::Mismatch {
                    key: files.key.clone(),
                    cert: files.cert.clone(),
                });
            }
            Err(error) => return Err(Unusable::Malformed(of_cert(), error.to_string())),
        }
        Ok(Self {
            certified: Arc::new(certified),
            names,
            not_before,
            not_after,
        })
    }

    /// What is wrong with its time, if anything.
    pub fn out_of_time(&self, now: SystemTime) -> Option<String> {
        let away = |from: SystemTime, to: SystemTime| {
            let seconds = to.duration_since(from).unwrap_or_default().as_secs();
            match (seconds / 86_400, seconds / 3_600) {
                (0, 0) => "less than an hour".to_owned(),
                (0, 1) => "1 hour".to_owned(),
                (0, hours) => format!("{hours} hours"),
                (1, _) => "1 day".to_owned(),
                (days, _) => format!("{days} days"),
            }
        };
        if now > self.not_after {
            let ago = away(self.not_after, now);
            return Some(format!("expired {ago} ago, clients will not believe it"));
        }
        (now < self.not_before).then(|| {
            let ahead = away(now, self.not_before);
            format!("is not valid before {ahead} from now, clients will not believe it")
        })
    }
}

/// All certificates of a file, at least one.
pub fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let of = || Of::certificate(file);
    let chain: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| not_pem(of(), error))?;
    if chain.is_empty() {
        return Err(Unusable::Missing(of()));
    }
    Ok(chain)
}

fn not_pem(of: Of, error: PemError) -> Unusable {
    match error {
        PemError::Io(cause) => Unusable::Unreadable(of, cause),
        PemError::NoItemsFound => Unusable::Missing(of),
        error => Unusable::Malformed(of, error.to_string()),
    }
}

/// The names of a certificate, and from when until when it is valid.
fn described(der: &CertificateDer<'_>) -> Result<(Vec<String>, SystemTime, SystemTime), String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| error.to_string())?
        .map(|names| names.value.general_names.iter())
        .into_iter()
        .flatten()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    let validity = certificate.validity();
    Ok((
        names,
        at(validity.not_before.timestamp()),
        at(validity.not_after.timestamp()),
    ))
}

fn at(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    // Only a certificate of before the system's first second has none.
    moment.unwrap_or(UNIX_EPOCH)
}
