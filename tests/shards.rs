//! One tenant's bucket in ten parts over three real nodes: every node has its part of the work, and
//! together they are one limit.
//!
//! At the true rate, with a budget that no reply of a busy machine exceeds: what is judged is who
//! counts right, not how fast this machine is. A slow one sends what is due late, and the ideal bucket
//! sees the same requests. `tests/redis_failover.rs` runs with the usual one.
#![allow(clippy::unwrap_used)]

mod fleet;
mod harness;

use std::sync::Arc;
use std::time::Duration;

use aforo::limit::Rule;
use fleet::{Fleet, Flow};
use harness::Cluster;

const WARM: Duration = Duration::from_millis(1_500);
const TIME: Duration = Duration::from_secs(4);
const PATIENT: Duration = Duration::from_secs(5);

#[test]
fn twenty_thousand_a_second_in_ten_parts_over_three_nodes() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let cluster = Cluster::without_replicas();
    let fleet = Arc::new(runtime.block_on(Fleet::start(&cluster.url(), PATIENT, 10_000)));
    for (shape, hot) in [("even", fleet::GATEWAYS), ("two-hot", 2)] {
        for times in [0.95, 2.0] {
            let flow = Flow {
                tenant: format!("{shape}-{}", (times * 100.0) as u32),
                rule: Rule::new(40_000, 20_000.0).unwrap().with_shards(10),
                times,
                hot,
            };
            let flow = flow.spread();
            let empty = times > 1.0;
            if empty {
                for key in flow.keys() {
                    cluster.nodes[cluster.first_holder(&key)].set_bucket(&key, 0.0, 0);
                }
            }
            let before: Vec<u64> = cluster.nodes.iter().map(|n| n.script_calls()).collect();
            let judged = fleet.run(
                &runtime,
                std::slice::from_ref(&flow),
                (WARM, TIME),
                empty,
                |_| {},
            );
            let judged = &judged[0];
            let calls = cluster
                .nodes
                .iter()
                .zip(&before)
                .map(|(n, b)| n.script_calls() - b);
            let calls: Vec<u64> = calls.collect();
            let what = format!(
                "{shape} × {times}: {:+.4}, beyond {:.0}, {calls:?} calls for {:?} parts",
                judged.error(),
                judged.beyond,
                flow.on_nodes()
            );
            println!("{what}");
            assert_eq!(judged.fallback, 0, "{what}");
            assert!(judged.error().abs() <= 0.01, "{what}");
            // Redis counts whole milliseconds.
            assert!(judged.beyond <= judged.held + 20.0, "{what}");
            let all: u64 = calls.iter().sum();
            for (calls, parts) in calls.iter().zip(flow.on_nodes()) {
                let fair = all as f64 * parts as f64 / 10.0;
                let part = *calls as f64 / fair;
                assert!(
                    (0.8..=1.2).contains(&part),
                    "{part:.2} of a fair part: {what}"
                );
            }
        }
    }
    runtime.block_on(fleet.close());
}
