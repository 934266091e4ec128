//! What keys cost as they grow in number, and what they cost in Redis. See `README.md` beside this.
#![allow(clippy::unwrap_used)]

#[path = "../at_once.rs"]
mod at_once;
#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../measure.rs"]
mod measure;
#[path = "../plot.rs"]
mod plot;
mod process;
mod redis_memory;
mod report;

use process::{Kind, Measured};

/// The gateway's own: how much memory a key takes is the allocator's affair too.
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: [usize; 7] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, kind, keys, threads] = arguments.as_slice()
        && command == process::COMMAND
    {
        return process::run(
            Kind::named(kind).unwrap(),
            keys.parse().unwrap(),
            threads.parse().unwrap(),
        );
    }
    // `cargo test` may come by too, and has no minutes to spare.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("see load/growth/README.md");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut measured: Vec<Measured> = Vec::new();
    for kind in Kind::ALL {
        for keys in KEYS {
            measured.push(process::measure(kind, keys, 1));
        }
        for threads in powers_of_two_to(cores) {
            measured.push(process::measure(kind, process::OF_THREADS, threads));
        }
    }
    report::write(&measured, &redis_memory::measure());
}

/// 2, 4, 8 and so on, and the number itself.
fn powers_of_two_to(cores: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(2), |threads| Some(threads * 2));
    powers
        .take_while(move |threads| *threads < cores)
        .chain((cores > 1).then_some(cores))
}
