//! What a valid configuration says, in types that the other modules use as they are.
//!
//! Everything here is checked and complete: defaults are filled in, names are compared, addresses are resolved.
//! How the file writes it is the business of `raw`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::header::HeaderName;
use serde::Deserialize;

mod limits;
mod listener;
mod shared;

pub use limits::{Headers, Limits, Mode, OnStoreFailure, Rule, RuleLimits};
pub use listener::{Certificate, ClientCertificates, Listener, Need, Tls, TlsVersion};
pub use shared::{
    Breaker, Cluster, Instances, Postgres, Redis, Region, RulesSource, Secret, Store,
};

/// A whole configuration. One of these serves a request from its start to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The version of the file's format; 1 is the only one there is.
    pub version: u32,
    /// Pingora's server settings.
    pub server: Server,
    /// Where clients are listened for; at least one.
    pub listeners: Vec<Listener>,
    /// Where operators are listened for. There always is one, at its default address where the file says nothing.
    pub admin: Admin,
    /// What is logged, and how.
    pub log: Log,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// Whose `X-Forwarded-For` is believed, as written. Empty: nobody's.
    pub trusted_proxies: Vec<String>,
    /// How a request's tenant is found.
    pub tenant: Tenant,
    /// Where requests are forwarded to, by name.
    pub upstreams: BTreeMap<String, Upstream>,
    /// What is forwarded, in the file's order; at least one.
    pub routes: Vec<Route>,
    /// How much each tenant may ask for.
    pub limits: Limits,
    /// Where buckets live. None: in this process.
    pub store: Option<Store>,
    /// Where rules come from beside the file. None: nowhere.
    pub rules: Option<RulesSource>,
    /// The gateways that share the store. None: this one is alone.
    pub cluster: Option<Cluster>,
    /// This gateway's region. None: there is one region only.
    pub region: Option<Region>,
}

/// Pingora's server settings. All of them need a new process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Worker threads of the proxy, at least 1; by default as many as the process may use cores.
    pub threads: usize,
    /// The longest that requests in flight may go on after SIGTERM.
    pub grace_period: Duration,
    /// How long `/readyz` says 503 before the listeners close, so that load balancers turn away first.
    pub drain_delay: Duration,
    /// The socket over which a new process takes the listeners over. None: no such upgrade.
    pub upgrade_sock: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            // One where the system does not say: that runs anywhere.
            threads: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            grace_period: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
            upgrade_sock: None,
        }
    }
}

/// The listener for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// IP address and port; `127.0.0.1:9090` unless the file says otherwise.
    pub address: SocketAddr,
    /// What the API and the dashboard ask for. None (also when the file's is empty): they may be read from loopback
    /// and change nothing.
    pub token: Option<Secret>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090),
            token: None,
        }
    }
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// The least severe messages that are written.
    pub level: Level,
    /// How a line looks. Needs a new process.
    pub format: Format,
    /// One line for each request; off unless the file asks for it, since it costs as much as the rest of a request.
    pub access: bool,
    /// How tenants appear in the log.
    pub tenant: TenantInLog,
}

/// How severe a message must be to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Failures that need somebody.
    Error,
    /// Also what may need somebody soon.
    Warn,
    /// Also changes of state. The default.
    #[default]
    Info,
    /// Also details for developers.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// The level as the file writes it, which is also what `tracing` reads.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people. The default.
    #[default]
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// How tenants appear in the log: with open keys a name may be personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TenantInLog {
    /// As they are. The default.
    #[default]
    Plain,
    /// As a hash: lines of one tenant still belong together.
    Hash,
    /// Not at all.
    Off,
}

/// How long clients may take. Each is more than zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its headers.
    pub header: Duration,
    /// Between two requests on one connection.
    pub idle: Duration,
    /// Between two reads of a request's body.
    pub body: Duration,
    /// For the TLS handshake.
    pub tls: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body: Duration::from_secs(30),
            tls: Duration::from_secs(10),
        }
    }
}

/// How a request's tenant is found, and what the upstream hears of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// The header that holds the key.
    pub header: HeaderName,
    /// What a key is.
    pub keys: Keys,
    /// The header that tells the upstream the tenant; a client's own is always removed. None: it is not told.
    pub forward: Option<HeaderName>,
    /// Whether the key is hidden from the upstream.
    pub strip_key: bool,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            header: HeaderName::from_static("x-api-key"),
            keys: Keys::Open,
            forward: None,
            strip_key: false,
        }
    }
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// The tenant's name, no secret; anybody can invent one. The default.
    #[default]
    Open,
    /// A secret that the table `api_key` knows.
    Registry,
}

/// Where requests are forwarded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The servers that share the requests; at least one, each address once.
    pub servers: Vec<UpstreamServer>,
    /// How long connecting to a server may take; more than zero.
    pub connect_timeout: Duration,
    /// How long a server may stay silent while a response is awaited; more than zero.
    pub read_timeout: Duration,
    /// How long an unused connection is kept; more than zero.
    pub idle_timeout: Duration,
    /// How often a request whose connection failed is tried again.
    pub retries: u32,
    /// What is spoken with its servers.
    pub protocol: Protocol,
}

/// What is spoken with the servers of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1. The default.
    #[default]
    Http1,
    /// HTTP/2 without TLS and without asking first (RFC 9113, 3.3), which gRPC needs.
    H2c,
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamServer {
    /// Its address. A name is resolved once, when the file is read: the first address counts.
    pub address: SocketAddr,
    /// Its share of the requests beside the others', 1 to 1000.
    pub weight: u32,
}

/// Which requests are forwarded where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its name, unique; 1 to 64 visible ASCII characters.
    pub id: String,
    /// The methods that it takes. Empty: all.
    pub methods: Vec<http::Method>,
    /// The host that it is for, in lower case, without port and trailing dot; `*.example.com` is any host below
    /// `example.com`. None: all hosts.
    pub host: Option<String>,
    /// The path in its normal form. A last segment `*` stands for everything below, `{name}` for one segment.
    pub path: String,
    /// The name of an upstream that exists.
    pub upstream: String,
    /// Tokens that one request takes; at least 1, and never more than a rule for it can hold.
    pub cost: u32,
}
