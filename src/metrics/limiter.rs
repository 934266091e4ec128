//! What the limiter counts by itself, as metrics: read at each scrape.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto;

use crate::limit::counters::{CallCounters, Counter, Counters, LATENCY_BOUNDS_NANOS, Latencies};
use crate::limit::watch::Watch;
use crate::limit::{BucketStore, Clock, Limiter};

/// What a limiter shows to whoever exports metrics.
pub trait LimiterReadings: Send + Sync {
    /// Its counters.
    fn counters(&self) -> &Counters;
    /// Buckets that it holds in this process.
    fn local_buckets(&self) -> usize;
    /// The store's nodes, in the order of their numbers.
    fn nodes(&self) -> Vec<NodeReadings<'_>>;
    /// Gateways that share the limits.
    fn instances(&self) -> u32;
}

/// What is shown of one node.
pub struct NodeReadings<'l> {
    /// What is known of it.
    pub watch: &'l Watch,
    /// Calls to it under way.
    pub in_flight: usize,
}

/// Reads a limiter's own counters at each scrape.
pub(super) struct LimiterCollector(pub(super) Arc<dyn LimiterReadings>);

impl Collector for LimiterCollector {
    fn desc(&self) -> Vec<&Desc> {
        // What is collected has constant names, checked by the tests of `/metrics`.
        Vec::new()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        use proto::MetricType::{COUNTER, GAUGE, HISTOGRAM};
        let limiter = &self.0;
        let counters = limiter.counters();
        let by_source = |source, counter: &Counter| labelled(&[("source", source)], counter.get());
        let by_event = |event, counter: &Counter| labelled(&[("event", event)], counter.get());
        let nodes = limiter.nodes();
        vec![
            family(
                "decisions_total",
                "Decisions by what made them.",
                COUNTER,
                vec![
                    by_source("lease", &counters.lease),
                    by_source("denied", &counters.denied),
                    by_source("store", &counters.store),
                    by_source("fallback", &counters.fallback),
                    by_source("memory", &counters.memory),
                ],
            ),
            family(
                "decision_seconds",
                "From the question to the limiter's decision.",
                HISTOGRAM,
                vec![histogram(&counters.decision)],
            ),
            family(
                "store_call_seconds",
                "From a call's start to its answer, however late.",
                HISTOGRAM,
                vec![histogram(&counters.store_call)],
            ),
            family(
                "store_calls_total",
                "Calls to the store by result.",
                COUNTER,
                calls(counters, &nodes),
            ),
            family(
                "store_in_flight",
                "Calls to the store under way.",
                GAUGE,
                by_node(&nodes, |number, node| {
                    vec![reading(&[("node", number)], node.in_flight as f64)]
                }),
            ),
            family(
                "store_late_total",
                "Answers of the store after the budget.",
                COUNTER,
                by_node(&nodes, |number, node| {
                    let late = &node.watch.counters().late;
                    vec![labelled(&[("node", number)], late.get())]
                }),
            ),
            family(
                "breaker_state",
                "0 closed, 1 half-open, 2 open: the node is asked, tried, left alone.",
                GAUGE,
                by_node(&nodes, |number, node| {
                    let state = node.watch.state() as u8;
                    vec![reading(&[("node", number)], f64::from(state))]
                }),
            ),
            family(
                "breaker_transitions_total",
                "Changes of the breaker's state.",
                COUNTER,
                by_node(&nodes, |number, node| {
                    let counters = node.watch.counters();
                    let to = |state, counter: &Counter| {
                        labelled(&[("node", number), ("to", state)], counter.get())
                    };
                    vec![
                        to("closed", &counters.closed),
                        to("half_open", &counters.half_opened),
                        to("open", &counters.opened),
                    ]
                }),
            ),
            family(
                "debt_tokens_total",
                "Tokens let through without the store, sent to it later, paid by late answers.",
                COUNTER,
                vec![
                    by_event("recorded", &counters.debt.recorded),
                    by_event("posted", &counters.debt.posted),
                    by_event("cancelled", &counters.debt.cancelled),
                ],
            ),
            family(
                "lease_tokens_total",
                "Tokens taken beforehand: granted, spent, returned to the store, lost.",
                COUNTER,
                vec![
                    by_event("granted", &counters.leased.granted),
                    by_event("spent", &counters.leased.spent),
                    by_event("returned", &counters.leased.returned),
                    by_event("expired", &counters.leased.expired),
                ],
            ),
            family(
                "leased_tokens",
                "Tokens taken beforehand that are still to be spent.",
                GAUGE,
                vec![reading(&[], counters.leased.held() as f64)],
            ),
            family(
                "local_buckets",
                "Buckets held in this process.",
                GAUGE,
                vec![reading(&[], limiter.local_buckets() as f64)],
            ),
            family(
                "instances",
                "Gateways that share the limits.",
                GAUGE,
                vec![reading(&[], f64::from(limiter.instances()))],
            ),
        ]
    }
}

/// One limiter's calls to its store, by what they are and how they ended.
fn calls(counters: &Counters, nodes: &[NodeReadings<'_>]) -> Vec<proto::Metric> {
    let call = |op, result, count| labelled(&[("op", op), ("result", result)], count);
    let mut metrics = Vec::new();
    for (op, of_op) in [
        ("take", &counters.takes),
        ("poll", &counters.polls),
        ("give_back", &counters.give_backs),
        ("heartbeat", &counters.heartbeats),
    ] {
        metrics.push(call(op, "ok", of_op.ok.get()));
        metrics.push(call(op, "short", of_op.short.get()));
        metrics.push(call(op, "error", of_op.error.get()));
        metrics.push(call(op, "timeout", of_op.timeout.get()));
    }
    let probes = |result: fn(&CallCounters) -> &Counter| {
        let of_nodes = nodes
            .iter()
            .map(|node| result(&node.watch.counters().probes).get());
        of_nodes.sum()
    };
    metrics.push(call("probe", "ok", probes(|calls| &calls.ok)));
    metrics.push(call("probe", "short", probes(|calls| &calls.short)));
    metrics.push(call("probe", "error", probes(|calls| &calls.error)));
    metrics.push(call("probe", "timeout", probes(|calls| &calls.timeout)));
    metrics
}

/// The metrics of each node, under its number.
fn by_node(
    nodes: &[NodeReadings<'_>],
    metrics: impl Fn(&str, &NodeReadings<'_>) -> Vec<proto::Metric>,
) -> Vec<proto::Metric> {
    let numbered = nodes.iter().enumerate();
    numbered
        .flat_map(|(number, node)| metrics(&number.to_string(), node))
        .collect()
}

fn family(
    name: &str,
    help: &str,
    kind: proto::MetricType,
    metrics: Vec<proto::Metric>,
) -> proto::MetricFamily {
    let mut family = proto::MetricFamily::default();
    family.set_name(format!("aforo_{name}"));
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn labels(pairs: &[(&str, &str)]) -> proto::Metric {
    let pairs = pairs.iter().map(|(name, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    proto::Metric::from_label(pairs.collect())
}

fn labelled(pairs: &[(&str, &str)], value: u64) -> proto::Metric {
    let mut metric = labels(pairs);
    let mut counter = proto::Counter::default();
    counter.set_value(value as f64);
    metric.set_counter(counter);
    metric
}

fn reading(pairs: &[(&str, &str)], value: f64) -> proto::Metric {
    let mut metric = labels(pairs);
    let mut gauge = proto::Gauge::default();
    gauge.set_value(value);
    metric.set_gauge(gauge);
    metric
}

fn histogram(latencies: &Latencies) -> proto::Metric {
    let counts = latencies.counts();
    let mut cumulative = 0;
    let buckets = LATENCY_BOUNDS_NANOS.iter().zip(counts).map(|(bound, n)| {
        cumulative += n;
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(*bound as f64 / 1e9);
        bucket.set_cumulative_count(cumulative);
        bucket
    });
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(counts.iter().sum());
    histogram.set_sample_sum(latencies.sum().as_secs_f64());
    let mut metric = proto::Metric::default();
    metric.set_histogram(histogram);
    metric
}

impl<S: BucketStore, C: Clock> LimiterReadings for Limiter<S, C> {
    fn counters(&self) -> &Counters {
        self.counters()
    }

    fn local_buckets(&self) -> usize {
        self.local_buckets()
    }

    fn nodes(&self) -> Vec<NodeReadings<'_>> {
        let store = self.store();
        let nodes = if store.is_local() { 0 } else { store.nodes() };
        let reading = |node| NodeReadings {
            watch: &self.watches()[node],
            in_flight: store.in_flight(node),
        };
        (0..nodes).map(reading).collect()
    }

    fn instances(&self) -> u32 {
        self.instances()
    }
}
