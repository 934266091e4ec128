//! Serves an axum router on a listener of Pingora's, so that it is bound, handed over and closed
//! together with the others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::server::ShutdownWatch;
use tracing::debug;

/// How long a client may take to send its request's header.
const HEADER_WITHIN: Duration = Duration::from_secs(10);

/// A router as an application of Pingora's.
pub struct RouterApp(pub Router);

#[async_trait]
impl ServerApp for RouterApp {
    async fn process_new(
        self: &Arc<Self>,
        stream: Stream,
        shutdown: &ShutdownWatch,
    ) -> Option<Stream> {
        let service = TowerToHyperService::new(self.0.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut shutdown = shutdown.clone();
        let result = tokio::select! {
            result = connection.as_mut() => result,
            _ = shutdown.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            debug!("a client of the admin listener went away: {error}");
        }
        None
    }
}
