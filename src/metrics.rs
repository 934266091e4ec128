//! Every metric, declared in one place.
//!
//! Handles are resolved when routes and upstreams are set up, never while a request is served:
//! a look-up by label takes a lock that all threads share. What the limiter counts it counts by
//! itself, in plain atomics; a collector here reads them when metrics are scraped. No label ever
//! holds a tenant, a path or an address.

mod limiter;

use std::sync::Arc;
use std::time::Instant;

use once_cell::sync::Lazy;
use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, Opts, Registry, TextEncoder,
};

use self::limiter::LimiterCollector;
pub use self::limiter::LimiterReadings;

/// Buckets of whole exchanges, in seconds: 1 ms to 10 s.
const EXCHANGE_BUCKETS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The one set of metrics of this process.
pub static METRICS: Lazy<Metrics> = Lazy::new(Metrics::new);

/// Metrics of the whole process.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    upstream_seconds: HistogramVec,
    upstream_errors: IntCounterVec,
    /// Requests that matched no route.
    pub no_route: RouteMetrics,
    /// 0 off, 1 shadow, 2 enforce.
    pub limits_mode: IntGauge,
    /// Rules in force, the default rule not counted.
    pub rules: IntGauge,
    /// Shown at each scrape: how long ago the database's rules were surely those in force.
    rules_age: Gauge,
    rules_confirmed: Mutex<Option<Instant>>,
    /// Loads of rules from the database that took effect.
    pub rules_reload_ok: IntCounter,
    /// Loads that changed nothing, for the database is away or refuses.
    pub rules_reload_error: IntCounter,
    /// TLS handshakes with clients.
    pub tls_handshakes: HandshakeMetrics,
    region_share: Gauge,
    /// What the share is read from at each scrape: it may lapse at any moment.
    region: Mutex<Option<ShareReading>>,
    /// When the configuration in force was read, in seconds since 1970.
    pub config_last_reload: Gauge,
    /// Reloads that took effect.
    pub config_reload_ok: IntCounter,
    /// Reloads that changed nothing, for the file is wrong.
    pub config_reload_error: IntCounter,
}

/// Handles for the handshakes of all listeners.
pub struct HandshakeMetrics {
    /// The two sides agreed.
    pub ok: IntCounter,
    /// They did not, or the client left.
    pub error: IntCounter,
    /// The client took too long.
    pub timeout: IntCounter,
}

/// Reads this region's share of each limit.
pub type ShareReading = Box<dyn Fn() -> f64 + Send>;

/// Handles for one route's requests.
#[derive(Clone)]
pub struct RouteMetrics {
    /// Passed on, whatever the upstream then did.
    pub allowed: IntCounter,
    /// Over the limit.
    pub limited: IntCounter,
    /// Over the limit, and passed on all the same.
    pub shadow_limited: IntCounter,
    /// Without a tenant.
    pub unauthorized: IntCounter,
    /// No such path or method.
    pub no_route: IntCounter,
    /// Answered without a decision.
    pub error: IntCounter,
    /// From the complete request header to the end of the response.
    pub seconds: Histogram,
}

/// Handles for one upstream.
#[derive(Clone)]
pub struct UpstreamMetrics {
    /// From the choice of a server to the head of its response.
    pub seconds: Histogram,
    /// No connection could be made.
    pub connect_errors: IntCounter,
    /// No connection, or no answer, in time.
    pub timeouts: IntCounter,
    /// The connection broke.
    pub resets: IntCounter,
}

impl Metrics {
    fn new() -> Self {
        let registry = Registry::new();
        let requests = IntCounterVec::new(
            opts("requests_total", "Requests by route and outcome."),
            &["route", "outcome"],
        );
        let request_seconds = HistogramVec::new(
            exchange_opts(
                "request_seconds",
                "From the request header to the end of the response.",
            ),
            &["route"],
        );
        let upstream_seconds = HistogramVec::new(
            exchange_opts(
                "upstream_seconds",
                "From the choice of a server to the head of its response.",
            ),
            &["upstream"],
        );
        let upstream_errors = IntCounterVec::new(
            opts("upstream_errors_total", "Failed exchanges with upstreams."),
            &["upstream", "kind"],
        );
        let reloads = IntCounterVec::new(
            opts(
                "config_reload_total",
                "Reloads of the configuration by result.",
            ),
            &["result"],
        );
        let rules_reloads = IntCounterVec::new(
            opts(
                "rules_reload_total",
                "Loads of rules from the database by result.",
            ),
            &["result"],
        );
        let handshakes = IntCounterVec::new(
            opts(
                "tls_handshakes_total",
                "TLS handshakes with clients by result.",
            ),
            &["result"],
        );
        let build_info = GaugeVec::new(
            opts("build_info", "Always 1; the label is the version."),
            &["version"],
        );
        let requests = registered(&registry, requests);
        let request_seconds = registered(&registry, request_seconds);
        let reloads = registered(&registry, reloads);
        let rules_reloads = registered(&registry, rules_reloads);
        let handshakes = registered(&registry, handshakes);
        registered(&registry, build_info)
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1.0);
        // Not on every platform; where it cannot be had, the rest is still served.
        let _ = registry.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ));
        Self {
            no_route: route_metrics(&requests, &request_seconds, "none"),
            upstream_seconds: registered(&registry, upstream_seconds),
            upstream_errors: registered(&registry, upstream_errors),
            limits_mode: gauge(&registry, "limits_mode", "0 off, 1 shadow, 2 enforce."),
            rules: gauge(&registry, "rules", "Rules in force."),
            rules_age: registered(
                &registry,
                Gauge::with_opts(opts(
                    "rules_age_seconds",
                    "Since the database was last known to have these rules; 0 without one.",
                )),
            ),
            rules_confirmed: Mutex::new(None),
            rules_reload_ok: rules_reloads.with_label_values(&["ok"]),
            rules_reload_error: rules_reloads.with_label_values(&["error"]),
            tls_handshakes: HandshakeMetrics {
                ok: handshakes.with_label_values(&["ok"]),
                error: handshakes.with_label_values(&["error"]),
                timeout: handshakes.with_label_values(&["timeout"]),
            },
            region_share: registered(
                &registry,
                Gauge::with_opts(opts(
                    "region_share",
                    "The part of each limit that this region holds; 1 where it is the only one.",
                )),
            ),
            region: Mutex::new(None),
            config_last_reload: registered(
                &registry,
                Gauge::with_opts(opts(
                    "config_last_reload_timestamp_seconds",
                    "When the configuration in force was read.",
                )),
            ),
            config_reload_ok: reloads.with_label_values(&["ok"]),
            config_reload_error: reloads.with_label_values(&["error"]),
            requests,
            request_seconds,
            registry,
        }
    }

    /// The handles of a route. They outlive the route: counters never go back.
    pub fn route(&self, id: &str) -> RouteMetrics {
        route_metrics(&self.requests, &self.request_seconds, id)
    }

    /// The handles of an upstream.
    pub fn upstream(&self, name: &str) -> UpstreamMetrics {
        let errors = |kind| self.upstream_errors.with_label_values(&[name, kind]);
        UpstreamMetrics {
            seconds: self.upstream_seconds.with_label_values(&[name]),
            connect_errors: errors("connect"),
            timeouts: errors("timeout"),
            resets: errors("reset"),
        }
    }

    /// From now on `rules_age_seconds` counts from `when`: then the rules in force were those of
    /// the database.
    pub fn rules_confirmed(&self, when: Instant) {
        *self.rules_confirmed.lock() = Some(when);
    }

    /// From now on `region_share` is what this says.
    pub fn watch_region(&self, share: ShareReading) {
        *self.region.lock() = Some(share);
    }

    /// Exports a limiter's readings from now on. For the one limiter of the process.
    pub fn watch_limiter(&self, limiter: Arc<dyn LimiterReadings>) {
        // A second limiter would be refused as a duplicate; the first stays.
        let _ = self.registry.register(Box::new(LimiterCollector(limiter)));
    }

    /// All metrics in Prometheus's text format.
    ///
    /// # Errors
    ///
    /// Where two metrics collide, which would be a mistake in this file.
    pub fn render(&self) -> prometheus::Result<String> {
        let age = self.rules_confirmed.lock().map(|when| when.elapsed());
        self.rules_age.set(age.unwrap_or_default().as_secs_f64());
        let share = self.region.lock().as_ref().map(|share| share());
        self.region_share.set(share.unwrap_or(1.0));
        let mut text = Vec::with_capacity(16 * 1024);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("aforo")
}

fn exchange_opts(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::from(opts(name, help)).buckets(EXCHANGE_BUCKETS.to_vec())
}

#[expect(
    clippy::expect_used,
    reason = "names and labels are constants of this file, and each is registered once"
)]
fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: prometheus::Result<C>,
) -> C {
    let collector = collector.expect("a metric with a valid name and valid labels");
    registry
        .register(Box::new(collector.clone()))
        .expect("a metric that is registered once");
    collector
}

fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    registered(registry, IntGauge::with_opts(opts(name, help)))
}

fn route_metrics(requests: &IntCounterVec, seconds: &HistogramVec, id: &str) -> RouteMetrics {
    let outcome = |outcome| requests.with_label_values(&[id, outcome]);
    RouteMetrics {
        allowed: outcome("allowed"),
        limited: outcome("limited"),
        shadow_limited: outcome("shadow_limited"),
        unauthorized: outcome("unauthorized"),
        no_route: outcome("no_route"),
        error: outcome("error"),
        seconds: seconds.with_label_values(&[id]),
    }
}
