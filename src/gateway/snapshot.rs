//! The configuration as requests read it: compiled once, immutable, swapped whole.
//!
//! A request holds on to the snapshot that it began with, so that it is served by one
//! configuration and one set of rules from start to end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::policy::Mode;
use super::routes::{RouteError, RouteSpec, Router};
use super::tenant;
use super::upstream::Upstream;
use crate::config::{self, Config};
use crate::limit::{OnStoreFailure, Rule, RuleError};
use crate::metrics::{Metrics, RouteMetrics};
use crate::rules::RuleSet;

/// All that a request is served by.
pub struct Snapshot {
    /// Finds the place of a route in `routes`.
    pub router: Router,
    /// The routes of the configuration, in its order.
    pub routes: Vec<Route>,
    /// The rules in force.
    pub rules: RuleSet,
    /// The most that is done about a limit, whatever rule and policy say.
    pub mode: Mode,
    /// Which rate headers are sent.
    pub headers: config::Headers,
    /// Where the key is, and what the upstream is told.
    pub tenant: config::Tenant,
    /// The answer to a request without a key: how to send one.
    pub challenge: String,
    /// How long a client's connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long a client may pause within its request's body.
    pub body_timeout: Duration,
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
    /// Compiles `config`.
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
        Ok(Self {
            router,
            routes: config
                .routes
                .iter()
                .map(route)
                .collect::<Result<_, SnapshotError>>()?,
            rules: rules_of(&config.limits)?,
            mode: match config.limits.mode {
                config::Mode::Off => Mode::Exempt,
                config::Mode::Shadow => Mode::Shadow,
                config::Mode::Enforce => Mode::Enforce,
            },
            headers: config.limits.headers,
            challenge: tenant::challenge(&config.tenant.header),
            tenant: config.tenant.clone(),
            idle_timeout: config.timeouts.idle,
            body_timeout: config.timeouts.body,
            access_log: config.log.access,
        })
    }
}

/// The rules of the file.
fn rules_of(limits: &config::Limits) -> Result<RuleSet, RuleError> {
    let rule = |limits: &config::RuleLimits| Rule::new(limits.capacity, limits.refill_per_second);
    let default = rule(&limits.default_rule)?;
    let rules = limits
        .rules
        .iter()
        .map(|of_file| {
            let shadow = of_file.shadow;
            let rule = Rule {
                shadow,
                on_store_failure: match of_file.on_store_failure {
                    config::OnStoreFailure::Local => OnStoreFailure::Local,
                    config::OnStoreFailure::Open => OnStoreFailure::Open,
                    config::OnStoreFailure::Closed => OnStoreFailure::Closed,
                },
                ..rule(&of_file.limits)?
            };
            Ok((of_file.tenant.as_str(), of_file.route.as_str(), rule))
        })
        .collect::<Result<Vec<_>, RuleError>>()?;
    Ok(RuleSet::new(default, rules))
}
