//! HTTP: where a request meets its limit.
//!
//! A connection comes in through the [`door`], with [`tls`] or without. [`Gateway`] is what Pingora
//! calls at each stage of an exchange, and only delegates. A request's way: [`judge`] finds its
//! route ([`routes`], on the one normal form of its [`path`]), its tenant ([`policy`], [`tenant`])
//! and its rule ([`snapshot`]), and asks the limiter; [`headers`] says what the client sees; then
//! [`forward`] and [`upstream`] pass it on, or [`reject`] answers.

pub mod context;
pub mod door;
pub mod forward;
pub mod headers;
pub mod judge;
pub mod leases;
pub mod path;
pub mod policy;
pub mod publisher;
pub mod reject;
pub mod routes;
pub mod service;
pub mod snapshot;
pub mod tenant;
mod text;
pub mod tls;
pub mod upstream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::{HeaderValue, StatusCode, Version, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::l4::socket::SocketAddr;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use tracing::{debug, info};

use self::context::Context;
use self::forward::{Came, peer_of};
use self::policy::Policy;
use self::reject::Rejection;
use self::snapshot::Snapshot;
use crate::lifecycle::Lifecycle;
use crate::limit::Limiter;
use crate::metrics::Metrics;
use crate::store::Store;

/// The proxy: one for all listeners.
pub struct Gateway<P> {
    policy: P,
    limiter: Arc<Limiter<Store>>,
    /// Swapped whole when the configuration is read again.
    snapshot: Arc<ArcSwap<Snapshot>>,
    lifecycle: Arc<Lifecycle>,
    metrics: &'static Metrics,
}

impl<P: Policy> Gateway<P> {
    /// A gateway that serves what is in `snapshot` at the time.
    pub fn new(
        policy: P,
        limiter: Arc<Limiter<Store>>,
        snapshot: Arc<ArcSwap<Snapshot>>,
        lifecycle: Arc<Lifecycle>,
        metrics: &'static Metrics,
    ) -> Self {
        Self {
            policy,
            limiter,
            snapshot,
            lifecycle,
            metrics,
        }
    }
}

#[async_trait]
impl<P: Policy> ProxyHttp for Gateway<P> {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::new(self.snapshot.load_full(), self.lifecycle.request())
    }

    async fn early_request_filter(
        &self,
        session: &mut Session,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        // Pingora's own are infinite from the second request of a connection on. Where the client
        // wants the connection closed, closed it stays.
        if self.lifecycle.is_draining() {
            session.set_keepalive(None);
        } else if session.get_keepalive().is_some() {
            session.set_keepalive(Some(whole_seconds(ctx.snapshot.idle_timeout)));
        }
        // Else what a client sends before it has its answer would be dropped without one.
        session.set_pipelining_enabled(true);
        session.set_read_timeout(Some(ctx.snapshot.body_timeout));
        session.set_write_timeout(Some(ctx.snapshot.body_timeout));
        Ok(())
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut Context,
    ) -> pingora::Result<bool> {
        let snapshot: &Snapshot = &ctx.snapshot;
        let peer = peer_of(session);
        let request = session.req_header();
        let verdict = judge::judge(&self.policy, &self.limiter, snapshot, request, peer).await;
        ctx.route = verdict.route;
        ctx.tenant = verdict.tenant;
        ctx.rate = verdict.rate;
        ctx.outcome = verdict.outcome;
        ctx.rewritten = verdict.rewritten;
        let metrics = ctx.route().map(|route| &route.metrics);
        ctx.outcome.count(metrics.unwrap_or(&self.metrics.no_route));
        let Some(rejection) = verdict.rejection else {
            return Ok(false);
        };
        // Apart, so that requests which pass do not carry the room that this needs.
        Box::pin(rejection.write(session, &snapshot.headers)).await?;
        Ok(true)
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        ctx: &mut Context,
    ) -> pingora::Result<Box<HttpPeer>> {
        let upstream = ctx.route().map(|route| &route.upstream);
        let chosen = upstream.and_then(|upstream| {
            let server = upstream.next_server(&ctx.tried)?;
            Some(upstream.peer(server))
        });
        ctx.upstream_started = Some(Instant::now());
        chosen.ok_or_else(|| Error::explain(ErrorType::InternalError, "choosing a server"))
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        forward::prepare(request, ctx, &Came::of(session))
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        if response.status.is_informational() && response.status != 101 {
            return Ok(());
        }
        if let (Some(route), Some(started)) = (ctx.route(), ctx.upstream_started) {
            let seconds = started.elapsed().as_secs_f64();
            route.upstream.metrics.seconds.observe(seconds);
        }
        if let Some(rate) = &ctx.rate {
            rate.write(&ctx.snapshot.headers, response)?;
        }
        if self.lifecycle.is_draining() {
            session.set_keepalive(None);
        }
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            // A WebSocket is no body that has to arrive: clients that only listen are silent. A
            // dead one is found out when the upstream sends, or is silent for its own time.
            session.set_read_timeout(None);
        }
        // Pingora sends what has no length in chunks, which a client of HTTP/1.0 cannot read: for
        // it the end of the connection is the end of the body (RFC 9112, section 6.1).
        if session.req_header().version < Version::HTTP_11
            && response.remove_header(&header::TRANSFER_ENCODING).is_some()
        {
            session.set_keepalive(None);
        }
        Ok(())
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        peer: &HttpPeer,
        ctx: &mut Context,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let SocketAddr::Inet(server) = peer._address {
            ctx.tried.push(server);
        }
        let tries = ctx.tried.len() as u32;
        if let Some(route) = ctx.route() {
            route.upstream.failed(&error);
            // Nothing was sent, so that a retry is safe whatever the method is.
            error.set_retry(tries <= route.upstream.retries);
        }
        error
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        ctx: &mut Context,
    ) -> FailToProxy {
        if let (ErrorSource::Upstream, true, Some(route)) =
            (error.esource(), !is_connect_error(error), ctx.route())
        {
            route.upstream.failed(error);
        }
        let reason = upstream::reason_of(error);
        let begun = session
            .response_written()
            .is_some_and(|response| !response.status.is_informational());
        let mut error_code = 0;
        // After an error nobody knows what is left of the request on this connection.
        session.set_keepalive(None);
        if let (Some(reason), false) = (reason, begun) {
            error_code = reason.status().as_u16();
            let mut rejection = Rejection::new(reason);
            rejection.rate = ctx.rate.filter(|_| reason.is_upstreams());
            if let Err(error) = rejection.write(session, &ctx.snapshot.headers).await {
                debug!("the client was gone before its error was written: {error}");
            }
        }
        FailToProxy {
            error_code,
            can_reuse_downstream: false,
        }
    }

    fn suppress_error_log(&self, _session: &Session, _ctx: &Context, error: &Error) -> bool {
        // Clients come and go; that is no error of ours.
        *error.esource() == ErrorSource::Downstream
    }

    fn request_summary(&self, session: &Session, ctx: &Context) -> String {
        let route = ctx.route().map_or("none", |route| &route.id);
        format!("{} on route {route}", session.req_header().method)
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut Context) {
        let took = ctx.started.elapsed();
        let route = ctx.route();
        route
            .map_or(&self.metrics.no_route, |route| &route.metrics)
            .seconds
            .observe(took.as_secs_f64());
        if !ctx.snapshot.access_log {
            return;
        }
        let request = session.req_header();
        info!(
            target: "aforo::access",
            method = request.method.as_str(),
            path = request.uri.path(),
            status = session.response_written().map_or(0, |response| response.status.as_u16()),
            route = route.map_or("none", |route| &route.id),
            tenant = shown(ctx.tenant.as_ref()),
            request_id = shown(ctx.request_id.as_ref()),
            outcome = ctx.outcome.as_str(),
            micros = took.as_micros() as u64,
            aborted = error.is_some_and(|error| *error.esource() == ErrorSource::Downstream),
        );
    }
}

/// A header's value for the log.
fn shown(value: Option<&HeaderValue>) -> &str {
    value
        .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
        .unwrap_or_default()
}

/// Whether no connection to the upstream was made.
fn is_connect_error(error: &Error) -> bool {
    use ErrorType::{ConnectError, ConnectNoRoute, ConnectRefused, ConnectTimedout};
    matches!(
        error.etype(),
        ConnectError | ConnectNoRoute | ConnectRefused | ConnectTimedout
    )
}

/// A timeout in the whole seconds that Pingora counts in, rounded up: 0 would mean none at all.
fn whole_seconds(timeout: Duration) -> u64 {
    timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)
}
