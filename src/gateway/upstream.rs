//! The services behind the gateway: which server of an upstream takes a request, and how long it
//! may take.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pingora::lb::Backend;
use pingora::lb::selection::{BackendIter, BackendSelection, RoundRobin};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use tracing::warn;

use super::reject::Reason;
use crate::config;
use crate::metrics::{Metrics, UpstreamMetrics};

/// How often the log says that exchanges with one upstream fail.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Exchanges at once on one connection of HTTP/2, which is what servers usually allow.
const STREAMS: usize = 100;

/// An upstream, ready to be asked.
pub struct Upstream {
    name: String,
    /// Its servers, each as often as its weight says. This is the selection alone of Pingora's
    /// load balancer, whose own `select` allocates on each call.
    servers: Arc<RoundRobin>,
    connect_timeout: Duration,
    read_timeout: Duration,
    idle_timeout: Duration,
    protocol: config::Protocol,
    /// How many further servers are tried where a connection cannot be made.
    pub retries: u32,
    /// Its metrics.
    pub metrics: UpstreamMetrics,
    failures: Mutex<Failures>,
}

/// Failures that the log has not told of yet.
#[derive(Default)]
struct Failures {
    untold: u64,
    told_at: Option<Instant>,
}

impl Upstream {
    /// The upstream `name` of the configuration.
    pub fn new(name: &str, config: &config::Upstream, metrics: &Metrics) -> Self {
        let servers: BTreeSet<Backend> = config
            .servers
            .iter()
            .map(|server| Backend {
                addr: server.address.into(),
                weight: server.weight as usize,
                ext: http::Extensions::new(),
            })
            .collect();
        Self {
            name: name.to_owned(),
            servers: Arc::new(RoundRobin::build(&servers)),
            connect_timeout: config.connect_timeout,
            read_timeout: config.read_timeout,
            idle_timeout: config.idle_timeout,
            protocol: config.protocol,
            retries: config.retries,
            metrics: metrics.upstream(name),
            failures: Mutex::default(),
        }
    }

    /// The next server by turn, preferably one that is not among `tried`. `None` only where the
    /// upstream has no server, which no valid configuration has.
    pub fn next_server(&self, tried: &[SocketAddr]) -> Option<SocketAddr> {
        let mut turn = self.servers.iter(&[]);
        let mut next = || turn.next()?.addr.as_inet().copied();
        let first = next()?;
        if tried.is_empty() {
            return Some(first);
        }
        // After its first choice the turn goes round all servers; as many steps as were tried
        // reach another one if there is one.
        std::iter::once(first)
            .chain(std::iter::from_fn(next).take(2 * tried.len()))
            .find(|server| !tried.contains(server))
            .or(Some(first))
    }

    /// How to reach one of its servers.
    pub fn peer(&self, server: SocketAddr) -> Box<HttpPeer> {
        let mut peer = HttpPeer::new(server, false, String::new());
        let options = &mut peer.options;
        options.connection_timeout = Some(self.connect_timeout);
        options.total_connection_timeout = Some(self.connect_timeout);
        options.read_timeout = Some(self.read_timeout);
        options.write_timeout = Some(self.read_timeout);
        options.idle_timeout = Some(self.idle_timeout);
        if self.protocol == config::Protocol::H2c {
            options.set_http_version(2, 2);
            options.max_h2_streams = STREAMS;
        }
        Box::new(peer)
    }

    /// Counts a failed exchange, and tells the log of it, though not of each one: an upstream that
    /// is down would flood it.
    pub fn failed(&self, error: &Error) {
        use ErrorType::{ConnectError, ConnectNoRoute, ConnectRefused};
        match error.etype() {
            etype if is_timeout(etype) => self.metrics.timeouts.inc(),
            ConnectRefused | ConnectNoRoute | ConnectError => self.metrics.connect_errors.inc(),
            _ => self.metrics.resets.inc(),
        }
        let mut failures = self.failures.lock();
        failures.untold += 1;
        if failures
            .told_at
            .is_none_or(|at| at.elapsed() >= REPORT_EVERY)
        {
            warn!(
                upstream = self.name,
                failed = failures.untold,
                "exchange failed: {error}"
            );
            *failures = Failures {
                untold: 0,
                told_at: Some(Instant::now()),
            };
        }
    }
}

fn is_timeout(etype: &ErrorType) -> bool {
    use ErrorType::{ConnectTimedout, ReadTimedout, TLSHandshakeTimedout, WriteTimedout};
    matches!(
        etype,
        ConnectTimedout | TLSHandshakeTimedout | ReadTimedout | WriteTimedout
    )
}

/// What to tell a client of a failed exchange; `None` where it is the client that has gone.
pub fn reason_of(error: &Error) -> Option<Reason> {
    use ErrorType::{ConnectionClosed, ReadError, ReadTimedout, WriteError, WriteTimedout};
    match (error.esource(), error.etype()) {
        (ErrorSource::Upstream, etype) if is_timeout(etype) => Some(Reason::GatewayTimeout),
        (ErrorSource::Upstream, _) => Some(Reason::BadGateway),
        (ErrorSource::Downstream, ReadTimedout) => Some(Reason::RequestTimeout),
        (ErrorSource::Downstream, WriteError | WriteTimedout | ReadError | ConnectionClosed) => {
            None
        }
        (ErrorSource::Downstream, _) => Some(Reason::BadRequest),
        (ErrorSource::Internal | ErrorSource::Unset, _) => Some(Reason::Internal),
    }
}
