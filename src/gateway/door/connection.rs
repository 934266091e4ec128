//! One connection as Pingora drives it: which HTTP it may speak, until when it counts as one that has
//! just arrived, and how long it may be silent before its first request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora::server::ShutdownWatch;
use tokio::time::Instant;

use crate::gateway::whole_seconds;
use crate::lifecycle::Arriving;

/// Streams that a client may have open at once on one connection.
const STREAMS: u32 = 100;

/// A connection of a client.
pub struct Connection<A> {
    proxy: Arc<A>,
    options: HttpServerOptions,
    /// How long it may be silent.
    idle: Duration,
    /// Whether there was a request.
    begun: AtomicBool,
    /// Taken by the first request of HTTP/1; with HTTP/2 it stays as long as the connection, which
    /// may bring requests until both sides have said that it ends.
    arriving: Mutex<Option<Arriving>>,
}

impl<A> Connection<A> {
    /// A connection whose requests go to `proxy`.
    pub fn new(proxy: Arc<A>, h2c: bool, idle: Duration, arriving: Arriving) -> Self {
        let mut options = HttpServerOptions::default();
        options.h2c = h2c;
        options.h2_idle_timeout = Some(idle);
        Self {
            proxy,
            options,
            idle,
            begun: AtomicBool::new(false),
            arriving: Mutex::new(Some(arriving)),
        }
    }

    /// Returns at this time, unless there was a request by then. Pingora waits for the beginning of
    /// HTTP/2 for as long as the client likes, and only then for requests.
    pub async fn brings_nothing_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
        if self.begun.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> HttpServerApp for Connection<A> {
    // Written out rather than left to async_trait, which would put the proxy's future, that is in
    // a box, into another one for each request.
    fn process_new_http<'life0, 'life1, 'async_trait>(
        self: &'life0 Arc<Self>,
        mut session: ServerSession,
        shutdown: &'life1 ShutdownWatch,
    ) -> Pin<Box<dyn Future<Output = Option<ReusedHttpStream>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        self.begun.store(true, Ordering::Relaxed);
        if !session.is_http2()
            && let Some(arriving) = self.arriving.lock().take()
        {
            // Pingora's own is a minute. Without one it keeps no connection, for the process ends.
            if session.get_keepalive().is_some() {
                session.set_keepalive(Some(whole_seconds(self.idle)));
            }
            // Dropped by the proxy as soon as the request's header is complete, or will never be.
            session.set_connection_user_context(Some(Box::new(arriving)));
        }
        self.proxy.process_new_http(session, shutdown)
    }

    fn h2_options(&self) -> Option<H2Options> {
        let mut options = default_h2_options();
        options.max_concurrent_streams(STREAMS);
        Some(options)
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }
}
