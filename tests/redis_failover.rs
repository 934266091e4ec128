//! A primary of a cluster fails while requests run on the usual budget of 5 ms, with leases and with a
//! bucket in parts.
#![allow(clippy::unwrap_used)]

mod fleet;
mod harness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aforo::limit::Rule;
use fleet::{Fleet, Flow};
use harness::{
    Cluster, Config, Gateway, Load, ONE_A_DAY, Redis, Upstream, bucket_key, eventually, within,
};

const BUDGET: Duration = Duration::from_millis(5);

fn key(tenant: &str) -> String {
    bucket_key(tenant, "r")
}

fn state(gateway: &Gateway, node: usize) -> f64 {
    gateway.metric(&format!("aforo_breaker_state{{node=\"{node}\"}}"))
}

#[test]
fn nobody_waits_beyond_the_usual_budget_for_a_primary_that_is_frozen_or_killed() {
    let upstream = Upstream::start();
    let mut cluster = Cluster::start();
    let config = Config::new(&upstream)
        .default_rule(1_000_000, ONE_A_DAY)
        .limits("prefetch: { batch: 0 }")
        .redis_url(&cluster.url(), 1, "");
    let gateway = Gateway::start(&config);
    let frozen = |node: &mut Redis| node.pause();
    for (node, fail) in [(0, frozen as fn(&mut Redis)), (1, Redis::kill)] {
        let tenant = cluster.name_on(node, "dying", key);
        let name = tenant.clone();
        let load = Load::start(&gateway, 8, "/x", move |_| name.clone());
        load.wait_for(100);
        eventually("all nodes are connected", || state(&gateway, node) == 0.0);
        let (all, slow) = gateway.decisions_over("0.025");
        fail(&mut cluster.nodes[node]);
        let failed = Instant::now();
        eventually("the breaker opens", || state(&gateway, node) == 2.0);
        within(Duration::from_secs(20), "the replica decides", || {
            std::thread::sleep(Duration::from_millis(20));
            state(&gateway, node) == 0.0 && cluster.nodes[3 + node].exists(&key(&tenant))
        });
        let (all_after, slow_after) = gateway.decisions_over("0.025");
        let (all, slow) = (all_after - all, slow_after - slow);
        let took = failed.elapsed();
        println!("node {node}: {slow} of {all} decisions took more than 25 ms, away for {took:?}");
        // Whoever waited for the node would have waited for seconds, all eight each time: these few are
        // those of whom a busy machine made a budget of 5 ms 25.
        assert!(all > 500.0 && slow <= all / 100.0, "{slow} of {all}");
        let report = load.stop();
        report.assert_only(&[200]);
        assert!(
            report.slowest < Duration::from_millis(1_500),
            "{:?}",
            report.slowest
        );
        if node == 0 {
            cluster.nodes[0].resume();
        }
    }
}

#[test]
fn leases_and_parts_go_on_through_a_fail_over_and_lose_little() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut cluster = Cluster::start();
    let fleet = Arc::new(runtime.block_on(Fleet::start(&cluster.url(), BUDGET, 256)));
    let whole = Flow {
        tenant: cluster.name_on(0, "whole", key),
        rule: Rule::new(2_000, 1_000.0).unwrap(),
        times: 2.0,
        hot: fleet::GATEWAYS,
    };
    let split = Flow {
        tenant: "split".to_owned(),
        rule: Rule::new(4_000, 2_000.0).unwrap().with_shards(10),
        times: 2.0,
        hot: fleet::GATEWAYS,
    };
    let flows = [whole, split.spread()];
    let dying = &mut cluster.nodes[0];
    let time = (Duration::from_secs(3), Duration::from_secs(9));
    let judged = fleet.run(&runtime, &flows, time, false, |began| {
        // When both buckets are empty.
        let at = began + Duration::from_millis(3_500);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        dying.kill();
    });
    for (flow, judged) in flows.iter().zip(&judged) {
        let capacity = flow.rule.capacity;
        let what = format!(
            "{}: {:+.4}, {:.0} beyond C, leases may be {:.0}, {} of {} without Redis",
            flow.tenant,
            judged.error(),
            judged.beyond,
            judged.held,
            judged.fallback,
            judged.requests
        );
        println!("{what}");
        // What the replica had not got, and what the shares let through beside it.
        assert!(judged.beyond <= judged.held + 0.1 * capacity, "{what}");
        assert!(judged.error() > -0.3, "{what}");
    }
    assert!(judged[0].fallback > 0, "the primary was away");
    runtime.block_on(fleet.close());
}
