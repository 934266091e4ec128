//! The operators' listener: metrics and health.
//!
//! Open to whoever reaches it, so it belongs on loopback or a management network. Nothing here
//! changes anything.

pub mod serve;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;

#[derive(Clone)]
struct Admin {
    metrics: &'static Metrics,
    lifecycle: Arc<Lifecycle>,
}

/// `/metrics`, `/healthz` and `/readyz`.
pub fn router(metrics: &'static Metrics, lifecycle: Arc<Lifecycle>) -> Router {
    Router::new()
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(Admin { metrics, lifecycle })
}

async fn show_metrics(State(admin): State<Admin>) -> Response {
    match admin.metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("rendering the metrics: {error}\n"),
        )
            .into_response(),
    }
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    let lifecycle = &admin.lifecycle;
    if lifecycle.is_ready() {
        (StatusCode::OK, "ready\n")
    } else if lifecycle.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
    }
}
