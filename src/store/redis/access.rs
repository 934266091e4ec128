//! How a server is signed in to: certificates, user and password, one set for all nodes.

use std::fs;
use std::path::{Path, PathBuf};

use ::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
};
use thiserror::Error;

use super::url::{Address, Place};

/// The files of `store.redis.tls`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, in PEM, of the authorities that are believed. None: those of the system.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its key, in PEM, where the server asks for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Why a server cannot be signed in to.
#[derive(Debug, Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// There is no certificate, or no key, in a file.
    #[error("{} holds no {what} in PEM", .path.display())]
    Empty {
        /// Which.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
    },
    /// The files make no TLS client.
    #[error("cannot be used: {0}")]
    Tls(RedisError),
}

/// Certificates, user and password, database.
#[derive(Clone)]
pub struct Access {
    tls: Option<TlsCertificates>,
    redis: RedisConnectionInfo,
}

impl Access {
    /// What `place` and `files` say. Reads the files.
    ///
    /// # Errors
    ///
    /// Where a file is not what it should be.
    pub fn new(place: &Place, files: &TlsFiles) -> Result<Self, AccessError> {
        let mut redis = RedisConnectionInfo::default().set_db(i64::from(place.database));
        if let Some(name) = &place.username {
            redis = redis.set_username(name);
        }
        if let Some(password) = &place.password {
            redis = redis.set_password(password);
        }
        let tls = place.tls.then(|| certificates(files)).transpose()?;
        let access = Self { tls, redis };
        if let Some(host) = place.hosts.first() {
            access.client(host).map_err(AccessError::Tls)?;
        }
        Ok(access)
    }

    /// The same without user, password and database: how a Sentinel is asked first.
    pub(super) fn anonymous(&self) -> Self {
        Self {
            tls: self.tls.clone(),
            redis: RedisConnectionInfo::default(),
        }
    }

    /// The same in the database that there is everywhere.
    pub(super) fn first_database(&self) -> Self {
        Self {
            tls: self.tls.clone(),
            redis: self.redis.clone().set_db(0),
        }
    }

    /// Whether connections are encrypted.
    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether there is something to sign in with.
    pub(super) fn has_password(&self) -> bool {
        self.redis.password().is_some()
    }

    /// What connects to a server.
    pub(super) fn client(&self, address: &Address) -> RedisResult<Client> {
        let Address { host, port } = address.clone();
        let plain = ConnectionAddr::Tcp(host.clone(), port);
        let secret = |host| ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        };
        let info = |addr: ConnectionAddr| -> RedisResult<ConnectionInfo> {
            let info = addr.into_connection_info()?;
            Ok(info.set_redis_settings(self.redis.clone()))
        };
        match &self.tls {
            None => Client::open(info(plain)?),
            Some(tls) if tls.root_cert.is_none() && tls.client_tls.is_none() => {
                Client::open(info(secret(host))?)
            }
            Some(tls) => Client::build_with_tls(info(secret(host))?, tls.clone()),
        }
    }
}

fn certificates(files: &TlsFiles) -> Result<TlsCertificates, AccessError> {
    const CERTIFICATE: &str = "certificate";
    let root_cert = files.ca.as_deref().map(|ca| pem(ca, CERTIFICATE));
    let client_tls = files.client.as_ref().map(|(cert, key)| {
        Ok::<_, AccessError>(ClientTlsConfig {
            client_cert: pem(cert, CERTIFICATE)?,
            client_key: pem(key, "private key")?,
        })
    });
    Ok(TlsCertificates {
        client_tls: client_tls.transpose()?,
        root_cert: root_cert.transpose()?,
    })
}

/// The bytes of a file that holds `what`.
fn pem(path: &Path, what: &'static str) -> Result<Vec<u8>, AccessError> {
    let bytes = fs::read(path).map_err(|error| AccessError::File {
        path: path.to_owned(),
        error,
    })?;
    let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let marked = |line: &str| line.starts_with("-----begin ") && line.contains(what);
    if text.lines().any(marked) {
        return Ok(bytes);
    }
    Err(AccessError::Empty {
        path: path.to_owned(),
        what,
    })
}
