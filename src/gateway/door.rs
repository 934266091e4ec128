//! What a new connection goes through before its requests are the gateway's: which listener it
//! came to, the TLS handshake, and which HTTP is spoken.
//!
//! Handshakes are made here and not by Pingora's listeners, which wait a minute for one, write an
//! error for each that fails, and keep the certificates that they began with.

mod connection;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use pingora::apps::{HttpServerApp, ServerApp};
use pingora::listeners::tls::Acceptor;
use pingora::protocols::ALPN;
use pingora::protocols::Stream;
use pingora::protocols::l4::socket::SocketAddr as PeerAddr;
use pingora::protocols::l4::stream::Stream as Plain;
use pingora::server::ShutdownWatch;
use tokio::time::Instant;
use tracing::debug;

use self::connection::Connection;
use super::snapshot::Snapshot;
use super::tls::Table;
use crate::config::Listener;
use crate::lifecycle::{Arriving, Lifecycle};
use crate::metrics::Metrics;

/// How often it is looked whether new connections have brought their request.
const ARRIVAL_POLL: Duration = Duration::from_millis(5);

/// What no request of HTTP/1 begins with (RFC 9113, 3.4).
const PREFACE: [u8; 3] = *b"PRI";

/// The listeners, as their connections find them.
pub struct Doors(Vec<Door>);

/// One listener.
struct Door {
    address: SocketAddr,
    /// What its next client is met by; none where it is plain.
    tls: ArcSwapOption<Acceptor>,
    h2c: bool,
}

impl Doors {
    /// The listeners of a configuration, with what was read for those with TLS.
    pub fn new(listeners: &[Listener], table: &Table) -> Self {
        let door = |listener: &Listener| Door {
            address: listener.address,
            tls: ArcSwapOption::new(table.of(listener.address).cloned()),
            h2c: listener.h2c,
        };
        Self(listeners.iter().map(door).collect())
    }

    /// Meets new clients by what was read anew. A listener that the new configuration does not
    /// have, or not with TLS, goes on as it is until there is a new process.
    pub fn publish(&self, table: &Table) {
        for door in &self.0 {
            if let (true, Some(acceptor)) = (door.tls.load().is_some(), table.of(door.address)) {
                door.tls.store(Some(Arc::clone(acceptor)));
            }
        }
    }

    /// The listener to which a connection with this address on our side came.
    fn of(&self, local: SocketAddr) -> Option<&Door> {
        let same_port = || {
            let doors = self.0.iter();
            doors.filter(move |door| door.address.port() == local.port())
        };
        // One that listens everywhere has the port for itself, or shares it with single addresses.
        same_port()
            .find(|door| door.address.ip().to_canonical() == local.ip().to_canonical())
            .or_else(|| same_port().find(|door| door.address.ip().is_unspecified()))
    }
}

/// The gateway as an application that takes connections.
pub struct FrontDoor<A> {
    /// What takes the requests.
    pub proxy: Arc<A>,
    /// The listeners.
    pub doors: Arc<Doors>,
    /// How long clients may take.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Told of connections that have not brought a request yet.
    pub lifecycle: Arc<Lifecycle>,
    /// Where handshakes are counted.
    pub metrics: &'static Metrics,
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> ServerApp for FrontDoor<A> {
    async fn process_new(
        self: &Arc<Self>,
        stream: Stream,
        shutdown: &ShutdownWatch,
    ) -> Option<Stream> {
        let arriving = self.lifecycle.arriving();
        let local = address_of(&stream);
        // Each connection comes to one of our listeners.
        let door = local.and_then(|local| self.doors.of(local))?;
        let (tls_within, idle) = {
            let snapshot = self.snapshot.load();
            (snapshot.tls_timeout, snapshot.idle_timeout)
        };
        let tls = door.tls.load_full();
        let may_be_h2c = door.h2c && tls.is_none();
        let stream = match tls {
            Some(acceptor) => self.shake_hands(&acceptor, stream, tls_within).await?,
            None => stream,
        };
        let deadline = Instant::now() + idle;
        let (stream, h2c) = if may_be_h2c {
            begins_with_http2(stream, deadline).await?
        } else {
            (stream, false)
        };
        let http2 = h2c || matches!(stream.selected_alpn_proto(), Some(ALPN::H2));
        let connection = self.connection(h2c, idle, arriving);
        if !http2 {
            return connection.process_new(stream, shutdown).await;
        }
        tokio::select! {
            biased;
            stream = connection.process_new(stream, shutdown) => stream,
            () = connection.brings_nothing_until(deadline) => None,
        }
    }

    async fn cleanup(&self) {
        // Nothing is accepted any more. Pingora would now close every connection that has no
        // request in hand, also one that came a moment ago and whose first request is on its way.
        self.lifecycle.wait_for_arrivals(ARRIVAL_POLL).await;
        self.proxy.http_cleanup().await;
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> FrontDoor<A> {
    fn connection(&self, h2c: bool, idle: Duration, arriving: Arriving) -> Arc<Connection<A>> {
        Arc::new(Connection::new(
            Arc::clone(&self.proxy),
            h2c,
            idle,
            arriving,
        ))
    }

    async fn shake_hands(
        &self,
        acceptor: &Acceptor,
        stream: Stream,
        within: Duration,
    ) -> Option<Stream> {
        // Listeners give us nothing else.
        let plain = *stream.into_any().downcast::<Plain>().ok()?;
        let peer = pingora::protocols::GetSocketDigest::get_socket_digest(&plain);
        let counters = &self.metrics.tls_handshakes;
        match tokio::time::timeout(within, acceptor.tls_handshake(plain)).await {
            Ok(Ok(stream)) => {
                counters.ok.inc();
                return Some(Box::new(stream));
            }
            Ok(Err(error)) => {
                counters.error.inc();
                debug!(peer = ?peer.and_then(|digest| digest.peer_addr().cloned()), "no TLS handshake: {error}");
            }
            Err(_) => counters.timeout.inc(),
        }
        None
    }
}

/// Whether a plain connection begins as those of HTTP/2 do, once it has begun; None where it has
/// not by then. Pingora looks at the whole preface, and would wait for all of its 24 bytes and
/// forever, also for those that a short request of HTTP/1.0 never has: so that is left to it only
/// where the first three have come.
async fn begins_with_http2(mut stream: Stream, deadline: Instant) -> Option<(Stream, bool)> {
    let begins = async {
        for length in 1..=PREFACE.len() {
            let mut begun = [0; PREFACE.len()];
            let begun = &mut begun[..length];
            stream.try_peek(begun).await.ok()?;
            if *begun != PREFACE[..length] {
                return Some(false);
            }
        }
        Some(true)
    };
    let begins = tokio::time::timeout_at(deadline, begins).await.ok()??;
    Some((stream, begins))
}

fn address_of(stream: &Stream) -> Option<SocketAddr> {
    match stream.get_socket_digest()?.local_addr()? {
        PeerAddr::Inet(address) => Some(*address),
        PeerAddr::Unix(_) => None,
    }
}
