//! Serves an axum router on a listener of Pingora's, so that it is bound, handed over and closed
//! together with the others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::server::ShutdownWatch;
use tokio::sync::Notify;
use tracing::debug;

use crate::lifecycle::{ARRIVE_WITHIN, Lifecycle};

/// How long a client may take to send its request's header.
const HEADER_WITHIN: Duration = Duration::from_secs(10);

/// A router as an application of Pingora's.
pub struct RouterApp {
    /// What answers.
    pub router: Router,
    /// Told of connections and requests, which a process that ends waits for.
    pub lifecycle: Arc<Lifecycle>,
}

#[async_trait]
impl ServerApp for RouterApp {
    async fn process_new(
        self: &Arc<Self>,
        stream: Stream,
        shutdown: &ShutdownWatch,
    ) -> Option<Stream> {
        let router = TowerToHyperService::new(self.router.clone());
        let arriving = Mutex::new(Some(self.lifecycle.arriving()));
        let begun = Notify::new();
        let service = service_fn(|request: Request<Incoming>| {
            let in_hand = self.lifecycle.request();
            arriving.lock().take();
            begun.notify_one();
            let answer = router.call(request);
            async move {
                let answer = answer.await;
                drop(in_hand);
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut shutdown = shutdown.clone();
        let result = tokio::select! {
            result = connection.as_mut() => result,
            _ = shutdown.changed() => {
                // hyper would close a connection that has just been accepted, whose request is on
                // its way.
                let first = tokio::time::timeout(ARRIVE_WITHIN, begun.notified());
                tokio::select! {
                    result = connection.as_mut() => result,
                    _ = first => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                }
            }
        };
        if let Err(error) = result {
            debug!("a client of the admin listener went away: {error}");
        }
        None
    }
}
