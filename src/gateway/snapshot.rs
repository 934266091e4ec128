//! The configuration as requests read it: compiled once, immutable, swapped whole.
//!
//! A request holds on to the snapshot that it began with, so that it is served by one
//! configuration and one set of rules from start to end. The two change apart from each other, and
//! what did not change is shared by the next snapshot: see [`publisher`](super::publisher).

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use thiserror::Error;

use super::policy::Mode;
use super::routes::{RouteError, RouteSpec, Router};
use super::tenant;
use super::upstream::Upstream;
use crate::config::{self, Config};
use crate::limit::RuleError;
use crate::metrics::{Metrics, RouteMetrics};
use crate::rules::{self, RuleSet};

/// All that a request is served by. What is not a rule is read through it, as if it were its own.
pub struct Snapshot {
    /// The configuration, compiled.
    pub site: Arc<Site>,
    /// The rules in force.
    pub rules: RuleSet,
}

impl Deref for Snapshot {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// A compiled configuration.
pub struct Site {
    /// Finds the place of a route in `routes`.
    pub router: Router,
    /// The routes of the configuration, in its order.
    pub routes: Vec<Route>,
    /// The most that is done about a limit, whatever rule and policy say.
    pub mode: Mode,
    /// Which rate headers are sent.
    pub headers: config::Headers,
    /// Where the key is, and what the upstream is told.
    pub tenant: config::Tenant,
    /// Names that an upstream may take for that of `tenant.forward`: a client's headers of these
    /// names are removed.
    pub forward_spellings: Vec<HeaderName>,
    /// The answer to a request without a key: how to send one.
    pub challenge: String,
    /// How long a client's connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long a client may pause within its request's body.
    pub body_timeout: Duration,
    /// How long a TLS handshake may take.
    pub tls_timeout: Duration,
    /// Whether each request is logged.
    pub access_log: bool,
}

/// A route, ready to be served.
pub struct Route {
    /// Its `id`: names its buckets and metrics.
    pub id: String,
    /// Tokens that one request takes.
    pub cost: u32,
    /// Who serves it.
    pub upstream: Arc<Upstream>,
    /// Its metrics.
    pub metrics: RouteMetrics,
}

/// Why a configuration that reads well cannot be served.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The routes contradict each other.
    #[error("routes: {0}")]
    Routes(#[from] RouteError),
    /// A rule's numbers are out of range.
    #[error("limits: {0}")]
    Rule(#[from] RuleError),
    /// A route names an upstream that is not there.
    #[error("routes: {route:?} names the upstream {upstream:?}, which is not there")]
    Upstream {
        /// The route's id.
        route: String,
        /// The name that it gives.
        upstream: String,
    },
}

impl Snapshot {
    /// Compiles `config`, with its own rules alone.
    ///
    /// # Errors
    ///
    /// Where routes contradict each other, and where `config` was not validated.
    pub fn build(config: &Config, metrics: &Metrics) -> Result<Self, SnapshotError> {
        let router = Router::build(config.routes.iter().map(|route| RouteSpec {
            id: &route.id,
            methods: &route.methods,
            host: route.host.as_deref(),
            path: &route.path,
        }))?;
        let upstreams: HashMap<&str, Arc<Upstream>> = config
            .upstreams
            .iter()
            .map(|(name, upstream)| {
                let upstream = Upstream::new(name, upstream, metrics);
                (name.as_str(), Arc::new(upstream))
            })
            .collect();
        let route = |route: &config::Route| {
            let upstream = upstreams.get(route.upstream.as_str());
            Ok(Route {
                id: route.id.clone(),
                cost: route.cost,
                upstream: upstream.cloned().ok_or_else(|| SnapshotError::Upstream {
                    route: route.id.clone(),
                    upstream: route.upstream.clone(),
                })?,
                metrics: metrics.route(&route.id),
            })
        };
        let site = Site {
            router,
            routes: config
                .routes
                .iter()
                .map(route)
                .collect::<Result<_, SnapshotError>>()?,
            mode: match config.limits.mode {
                config::Mode::Off => Mode::Exempt,
                config::Mode::Shadow => Mode::Shadow,
                config::Mode::Enforce => Mode::Enforce,
            },
            headers: config.limits.headers,
            challenge: tenant::challenge(&config.tenant.header),
            forward_spellings: config.tenant.forward.iter().flat_map(spellings).collect(),
            tenant: config.tenant.clone(),
            idle_timeout: config.timeouts.idle,
            body_timeout: config.timeouts.body,
            tls_timeout: config.timeouts.tls,
            access_log: config.log.access,
        };
        Ok(Self {
            site: Arc::new(site),
            rules: rules::file::rules(&config.limits)?,
        })
    }
}

impl Snapshot {
    /// Whether anybody is told the tenant's name.
    pub fn tells_tenant(&self) -> bool {
        self.access_log || self.tenant.forward.is_some()
    }
}

/// A header's name, and the names that differ from it by underscores: gateways to CGI and the like
/// make one variable of all of them.
fn spellings(name: &HeaderName) -> Vec<HeaderName> {
    let mut spellings = vec![String::new()];
    for letter in name.as_str().chars() {
        let other = match letter {
            '-' => Some('_'),
            '_' => Some('-'),
            _ => None,
        };
        // A name with very many dashes is spelled in the usual ways alone.
        let with_other: Vec<String> = match other {
            Some(other) if spellings.len() < 64 => spellings
                .iter()
                .map(|begun| format!("{begun}{other}"))
                .collect(),
            _ => Vec::new(),
        };
        spellings.iter_mut().for_each(|begun| begun.push(letter));
        spellings.extend(with_other);
    }
    spellings
        .iter()
        .filter_map(|spelling| HeaderName::from_bytes(spelling.as_bytes()).ok())
        .collect()
}
