//! Two regions, one limit: a simulated day, and gateways for real. See `README.md` beside this.
#![allow(clippy::unwrap_used)]

mod day;
#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../kit/mod.rs"]
mod kit;
mod live;
#[path = "../plot.rs"]
mod plot;

use kit::{Report, flag};

fn main() {
    // `cargo test` may come by too, and has no minutes to spare.
    if !flag("--bench") {
        return println!("see load/regions/README.md");
    }
    let command = "cargo bench --bench regions --profile dev";
    let mut report = Report::new("regions", command, flag("--quick"));
    day::run(&mut report);
    live::run(&mut report, flag("--quick"));
    report.finish();
}
