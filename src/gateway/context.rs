//! What the gateway remembers of one request, from its header to its log line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderValue;

use super::headers::RateHeaders;
use super::snapshot::{Route, Snapshot};
use crate::lifecycle::RequestGuard;
use crate::metrics::RouteMetrics;

/// How a request ended, as `requests_total` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Passed on, whatever the upstream then did.
    Allowed,
    /// Over the limit.
    Limited,
    /// Over the limit, and passed on all the same.
    ShadowLimited,
    /// Without a tenant.
    Unauthorized,
    /// No such path or method.
    NoRoute,
    /// Answered without a decision.
    #[default]
    Error,
}

/// The state of one request.
pub struct Context {
    /// What it is served by, from start to end.
    pub snapshot: Arc<Snapshot>,
    /// When its header was complete.
    pub started: Instant,
    /// The place of its route among the snapshot's.
    pub route: Option<usize>,
    /// Who asks, where upstream or log are told.
    pub tenant: Option<HeaderValue>,
    /// The id by which the request is known to the upstream, once it is on its way there, where it
    /// is logged.
    pub request_id: Option<HeaderValue>,
    /// What the response says of the limit.
    pub rate: Option<RateHeaders>,
    /// How it ended.
    pub outcome: Outcome,
    /// The normal form of path and query, where the client spelled it otherwise.
    pub rewritten: Option<Vec<u8>>,
    /// Servers to which no connection could be made.
    pub tried: Vec<SocketAddr>,
    /// When a server was chosen.
    pub upstream_started: Option<Instant>,
    /// Counts it among those in hand, until the end.
    _in_hand: RequestGuard,
}

impl Context {
    /// The context of a request that begins now.
    pub fn new(snapshot: Arc<Snapshot>, in_hand: RequestGuard) -> Self {
        Self {
            snapshot,
            started: Instant::now(),
            route: None,
            tenant: None,
            request_id: None,
            rate: None,
            outcome: Outcome::default(),
            rewritten: None,
            tried: Vec::new(),
            upstream_started: None,
            _in_hand: in_hand,
        }
    }

    /// The route that the request matched.
    pub fn route(&self) -> Option<&Route> {
        self.snapshot.routes.get(self.route?)
    }
}

impl Outcome {
    /// Counts a request that ended this way.
    pub fn count(self, metrics: &RouteMetrics) {
        match self {
            Self::Allowed => metrics.allowed.inc(),
            Self::Limited => metrics.limited.inc(),
            Self::ShadowLimited => metrics.shadow_limited.inc(),
            Self::Unauthorized => metrics.unauthorized.inc(),
            Self::NoRoute => metrics.no_route.inc(),
            Self::Error => metrics.error.inc(),
        }
    }

    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Limited => "limited",
            Self::ShadowLimited => "shadow_limited",
            Self::Unauthorized => "unauthorized",
            Self::NoRoute => "no_route",
            Self::Error => "error",
        }
    }
}
