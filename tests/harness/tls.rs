//! Certificates of an authority of the test's own, and a client that looks at what it is shown.

use super::PATIENCE;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// An authority with a folder for its certificates.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Files {
    /// As the configuration writes them, without braces.
    pub fn yaml(&self) -> String {
        format!(
            "cert: \"{}\", key: \"{}\"",
            self.cert.display(),
            self.key.display()
        )
    }

    /// As words of a Redis server's command line; it believes this authority, and asks clients for
    /// certificates, or not.
    pub fn redis(&self, authority: &Authority, asks: bool) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        let words = [
            ("--tls-cert-file", path(&self.cert)),
            ("--tls-key-file", path(&self.key)),
            ("--tls-ca-cert-file", path(&authority.file())),
            (
                "--tls-auth-clients",
                if asks { "yes" } else { "no" }.to_owned(),
            ),
        ];
        words
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.cert).unwrap()
    }
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "Test Authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    /// Its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A certificate for these hosts, in files of this name. Those that are there are replaced, each
    /// at once.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> Files {
        self.issue_until(name, hosts, 2999)
    }

    /// One that is valid from the year 2000 to the beginning of this one.
    pub fn issue_until(&self, name: &str, hosts: &[&str], year: i32) -> Files {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Files {
            cert: self.write(&format!("{name}.crt"), &cert.pem()),
            key: self.write(&format!("{name}.key"), &key.serialize_pem()),
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &path).unwrap();
        path
    }

    /// A client that believes this authority.
    pub fn client(&self) -> TlsClient {
        TlsClient {
            authority: CertificateDer::from_pem_slice(self.issuer.pem().as_bytes()).unwrap(),
            versions: rustls::ALL_VERSIONS.to_vec(),
            certificate: None,
            protocol: None,
        }
    }
}

/// How a client shakes hands.
pub struct TlsClient {
    authority: CertificateDer<'static>,
    versions: Vec<&'static SupportedProtocolVersion>,
    certificate: Option<Files>,
    protocol: Option<&'static str>,
}

/// A connection over TLS.
pub struct TlsConnection(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Offers this version alone.
    pub fn version(mut self, version: &'static SupportedProtocolVersion) -> Self {
        self.versions = vec![version];
        self
    }

    /// Shows a certificate of its own.
    pub fn certificate(mut self, files: &Files) -> Self {
        self.certificate = Some(files.clone());
        self
    }

    /// Offers this protocol alone (ALPN).
    pub fn protocol(mut self, name: &'static str) -> Self {
        self.protocol = Some(name);
        self
    }

    /// Shakes hands with whoever is at the address, and should be this host.
    pub fn connect(&self, address: &str, host: &str) -> io::Result<TlsConnection> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(files) => builder
                .with_client_auth_cert(
                    vec![files.der()],
                    PrivateKeyDer::from_pem_file(&files.key).unwrap(),
                )
                .unwrap(),
        };
        let protocols = self.protocol.iter().map(|name| name.as_bytes().to_vec());
        config.alpn_protocols = protocols.collect();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(TlsConnection(StreamOwned::new(session, stream)))
    }
}

impl TlsConnection {
    /// The certificate that the other side showed.
    pub fn shown(&self) -> CertificateDer<'static> {
        let shown = self.0.conn.peer_certificates().unwrap();
        shown[0].clone().into_owned()
    }

    pub fn version(&self) -> ProtocolVersion {
        self.0.conn.protocol_version().unwrap()
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, raw: &[u8]) -> io::Result<()> {
        self.0.write_all(raw)
    }

    /// Reads until the other side closes.
    pub fn read_to_the_end(&mut self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            // Closed without saying so first, as a server may whose client is silent.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(all),
            read => read.map(|_| all),
        }
    }

    /// `GET` by HTTP/1.1 as a tenant; the whole answer, which has a length and is small.
    pub fn get(&mut self, tenant: &str, path: &str) -> io::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nX-Api-Key: {tenant}\r\n\r\n");
        self.0.write_all(request.as_bytes())?;
        let mut answer = String::new();
        let mut part = [0; 16 * 1024];
        loop {
            let read = self.0.read(&mut part)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer += &String::from_utf8_lossy(&part[..read]);
            if let Some((head, body)) = answer.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse::<usize>().ok())?
                });
                if Some(body.len()) == length {
                    return Ok(answer);
                }
            }
        }
    }
}
