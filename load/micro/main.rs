//! What the parts of a decision cost, one by one. See `README.md` beside this.
#![allow(clippy::unwrap_used)]

#[path = "../at_once.rs"]
mod at_once;
mod decisions;
mod maps;
#[path = "../measure.rs"]
mod measure;
#[path = "../plot.rs"]
mod plot;
mod report;
mod request;

use std::path::Path;
use std::time::Duration;

use criterion::Criterion;

/// The gateway's own.
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` may come by too, and has no minutes to spare.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("see load/micro/README.md");
    }
    let measured = Path::new(env!("CARGO_TARGET_TMPDIR")).join("micro");
    // Part of a run is no result.
    let whole = arguments.len() == 1;
    if whole && measured.exists() {
        std::fs::remove_dir_all(&measured).unwrap();
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .nresamples(10_000)
        .output_directory(&measured)
        .configure_from_args();
    decisions::decisions(&mut criterion);
    decisions::parts(&mut criterion);
    request::request(&mut criterion);
    maps::maps(&mut criterion);
    if whole {
        report::write(&measured);
    }
}
