//! Twenty gateways' limiters, 50,000 decisions a second, 100,000 tenants, one Redis. See
//! `README.md` beside this.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fleet;
mod judge;
#[path = "../kit/mod.rs"]
mod kit;
#[path = "../plot.rs"]
mod plot;
#[allow(dead_code)]
#[path = "../faults/server.rs"]
mod server;
mod traffic;
#[path = "../../tests/windows/mod.rs"]
mod windows;

use std::sync::Arc;
use std::time::Duration;

use fleet::{Fleet, Run};
use kit::{Report, argument, flag, machine};
use server::Server;
use traffic::Traffic;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let quick = flag("--quick");
    let rate = argument("--rate", 50_000.0);
    let tenants = argument("--tenants", 100_000.0) as usize;
    let exponent = argument("--zipf", 1.0);
    let batch = argument("--batch", 50.0) as u32;
    let seconds = argument("--seconds", if quick { 3.0 } else { 18.0 });
    let time = Duration::from_secs_f64(seconds);
    let warm = Duration::from_secs_f64((seconds / 4.0).min(3.0));

    let command = "cargo run --profile thin --example cluster";
    let mut report = Report::new("cluster", command, quick);
    report.line(&format!(
        "{} limiters at one Redis, all on this machine; {rate} decisions/s for {seconds} s after {} s that \
         are not counted; {tenants} tenants (Zipf, exponent {exponent}); batch {batch}.",
        traffic::GATEWAYS,
        warm.as_secs_f64()
    ));
    let server = Server::start();
    machine::let_redis_go_first();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(machine::cores())
        .enable_all()
        .build()
        .unwrap();
    let url = format!("redis://{}", server.address);
    let fleet = Arc::new(runtime.block_on(Fleet::start(&url, batch)));

    let mut runs: Vec<Run> = Vec::new();
    for (name, traffic) in [
        (
            "driver alone",
            Traffic::field(rate, tenants, exponent, flag("--sticky"), time / 4),
        ),
        (
            "field",
            Traffic::field(rate, tenants, exponent, flag("--sticky"), time + warm),
        ),
        ("overload", Traffic::overload(rate, time + warm)),
    ] {
        eprintln!("{name}: {} decisions", traffic.moments.len());
        let warm = if name == "driver alone" {
            Duration::ZERO
        } else {
            warm
        };
        let decide = name != "driver alone";
        traffic.prepare(&server);
        runs.push(fleet.run(&runtime, &server, name, traffic, warm, decide));
    }
    judge::latencies(&mut report, &runs);
    judge::costs(&mut report, &runs);
    judge::errors(&mut report, &runs[2]);
    judge::limited_tenants(&mut report, &runs[1]);
    report.finish();
}
