//! Redis away, slow and wrong, under steady load from several gateways.
//!
//! `cargo run --profile thin --example faults > results.md` runs all faults against servers of its
//! own and prints a table; `-- --list` names them, `-- NAME …` runs some, and
//! `-- --outage SECONDS` sets how long the long ones last (10). Each gateway is a limiter over a
//! Redis store, as in the gateway itself; there is no HTTP in the way. Every decision is recorded,
//! so that what is printed as the worst excess is that of any window of the run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fleet;
mod judge;
mod proxy;
mod scenarios;
// Other load tests use more of it.
#[allow(dead_code)]
mod server;

use std::time::Duration;

fn main() {
    let mut outage = Duration::from_secs(10);
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => {
                for name in scenarios::NAMES {
                    println!("{name}");
                }
                return;
            }
            "--outage" => {
                let seconds = arguments.next().and_then(|text| text.parse().ok());
                outage = Duration::from_secs_f64(seconds.expect("seconds after --outage"));
            }
            name if scenarios::NAMES.contains(&name) => names.push(name.to_owned()),
            other => panic!("no fault is called {other}; see --list"),
        }
    }
    if names.is_empty() {
        names.extend(scenarios::NAMES.iter().map(|name| (*name).to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    println!("{}", judge::HEAD);
    for name in names {
        eprintln!("{name}");
        runtime.block_on(scenarios::run(&name, outage));
    }
}
