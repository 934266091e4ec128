//! Twenty gateway processes over HTTP, with limits on and off in turns. See `README.md` beside this.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod client;
#[path = "../kit/mod.rs"]
mod kit;
#[path = "../plot.rs"]
mod plot;
#[allow(dead_code)]
#[path = "../faults/server.rs"]
mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::Client;
use kit::process::{self, Program};
use kit::{Report, argument, flag, machine, median, quantile, sorted};
use plot::number;
use server::Server;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GATEWAYS: usize = 20;
/// Connections to each of them.
const CONNECTIONS: usize = 8;
const TENANTS: usize = 100_000;
/// Of what the machine carries at most, this much is asked of it, unless `--rate` says otherwise:
/// with 23 processes on its cores a request that comes alone costs some three times what one of a
/// flood does.
const PART: f64 = 0.2;

struct Gateway {
    program: Program,
    file: PathBuf,
    text: String,
    listen: SocketAddr,
    admin: SocketAddr,
}

/// One turn of one mode.
struct Turn {
    mode: &'static str,
    /// Sorted, ms from the moment at which each request was due.
    took: Vec<f64>,
    cpu: f64,
}

fn main() {
    let quick = flag("--quick");
    let rounds = argument("--rounds", if quick { 1.0 } else { 12.0 }) as usize;
    let seconds = argument("--seconds", if quick { 2.0 } else { 5.0 });
    process::build(&["origin"]);
    let command = "cargo run --release --example cluster-http";
    let mut report = Report::new("cluster-http", command, quick);

    let folder = tempfile::tempdir().unwrap();
    let redis = Server::start();
    machine::let_redis_go_first();
    let origin = process::free_address();
    let _origin = Program::start(None, &process::example("origin"), &[&origin.to_string()]);
    process::await_listener(origin);
    let gateways: Vec<Gateway> = (0..GATEWAYS)
        .map(|_| Gateway::start(folder.path(), origin, redis.address))
        .collect();
    for gateway in &gateways {
        process::await_listener(gateway.listen);
        process::eventually("the gateway is ready", || {
            process::page(gateway.admin, "/readyz").is_ok_and(|page| page.contains(" 200 "))
        });
    }
    let addresses: Vec<SocketAddr> = gateways.iter().map(|gateway| gateway.listen).collect();
    let client = Client::connect(&addresses, CONNECTIONS, TENANTS);

    switch(&gateways, "enforce");
    let (count, time) = if quick { (10_000, 1.0) } else { (60_000, 4.0) };
    let most = client.flood(count);
    eprintln!("the machine carries {most:.0} requests/s at most");
    let rate = argument("--rate", (most * PART).floor());
    let mut random = fastrand::Rng::with_seed(20);
    let mut turns = Vec::new();
    for round in 0..rounds {
        // Each mode goes first as often as the other.
        let modes = if round % 2 == 0 {
            ["off", "enforce"]
        } else {
            ["enforce", "off"]
        };
        for mode in modes {
            switch(&gateways, mode);
            client.send(&mut random, rate, Duration::from_secs_f64(time / 4.0));
            let before = cpu_of(&gateways);
            let took = client.send(&mut random, rate, Duration::from_secs_f64(seconds));
            let cpu = (cpu_of(&gateways) - before) * 1e6 / took.len().max(1) as f64;
            let took = sorted(took);
            eprintln!(
                "{mode}: p50 {:.3}, p99 {:.3} ms",
                quantile(&took, 0.5),
                quantile(&took, 0.99)
            );
            turns.push(Turn { mode, took, cpu });
        }
    }
    write(&mut report, &gateways, &turns, rate, most, seconds);
    report.finish();
}

fn write(
    report: &mut Report,
    gateways: &[Gateway],
    turns: &[Turn],
    rate: f64,
    most: f64,
    seconds: f64,
) {
    report.line(&format!(
        "{GATEWAYS} gateway processes, one Redis, an upstream and the client on this machine; {} connections, \
         {TENANTS} tenants (Zipf, exponent 1), each within its limit of 4,000/2,000. The machine carries {} \
         requests/s at most with limits on; {} are asked, by chance, in {} turns of {seconds} s. ms from the \
         moment at which a request was due to the end of its answer.\n",
        GATEWAYS * CONNECTIONS,
        number(most),
        number(rate),
        turns.len(),
    ));
    let of = |mode: &str, value: &dyn Fn(&Turn) -> f64| -> Vec<f64> {
        let mine = turns.iter().filter(|turn| turn.mode == mode);
        mine.map(value).collect()
    };
    let mut rows = Vec::new();
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let at = |turn: &Turn| quantile(&turn.took, share);
        let (off, on) = (of("off", &at), of("enforce", &at));
        let differences: Vec<f64> = on.iter().zip(&off).map(|(on, off)| on - off).collect();
        let differences = sorted(differences);
        rows.push(vec![
            name.to_owned(),
            format!("{:.3}", median(&off)),
            format!("{:.3}", median(&on)),
            format!("{:+.3}", median(&differences)),
            format!(
                "{:+.3} to {:+.3}",
                differences[0],
                differences[differences.len() - 1]
            ),
        ]);
    }
    let (off, on) = (of("off", &|turn| turn.cpu), of("enforce", &|turn| turn.cpu));
    report.table(
        &[
            "",
            "off",
            "enforce",
            "difference, median of rounds",
            "of single rounds",
        ],
        &rows,
    );
    report.line(&format!(
        "CPU of the gateways: {:.1} µs a request with limits, {:.1} without.",
        median(&on),
        median(&off)
    ));
    let counted = |series: &str| -> f64 {
        gateways
            .iter()
            .map(|gateway| process::metric(gateway.admin, series))
            .sum()
    };
    let decisions = counted("aforo_decisions_total").max(1.0);
    let share = |source: &str| {
        let series = format!("aforo_decisions_total{{source=\"{source}\"}}");
        format!("{source} {:.2} %", 100.0 * counted(&series) / decisions)
    };
    report.line(&format!(
        "Decided by: {}. Redis calls a request: {}.\n",
        ["lease", "denied", "store", "fallback"]
            .map(share)
            .join(", "),
        number(counted("aforo_store_calls_total") / decisions),
    ));
    let pooled = |mode: &str| {
        let mine = turns.iter().filter(|turn| turn.mode == mode);
        sorted(mine.flat_map(|turn| turn.took.iter().copied()).collect())
    };
    let path = report.plot("latency", "Latency with limits on and off");
    let curves = [
        ("limits.mode: off".to_owned(), pooled("off")),
        ("limits.mode: enforce".to_owned(), pooled("enforce")),
    ];
    plot::percentiles(
        &path,
        "HTTP through 20 gateways, limits on and off in turns",
        &[],
        &curves,
    )
    .unwrap();
}

fn cpu_of(gateways: &[Gateway]) -> f64 {
    let each = gateways
        .iter()
        .map(|gateway| machine::cpu_of(gateway.program.pid()));
    each.map(|time| time.as_secs_f64()).sum()
}

/// Switches all gateways as an operator does, by SIGHUP: same processes, same connections.
fn switch(gateways: &[Gateway], mode: &str) {
    let number = if mode == "off" { 0.0 } else { 2.0 };
    for gateway in gateways {
        let new = gateway.file.with_extension("new");
        std::fs::write(&new, gateway.text.replace("MODE", mode)).unwrap();
        std::fs::rename(new, &gateway.file).unwrap();
        gateway.program.signal("HUP");
    }
    for gateway in gateways {
        process::eventually("the mode is in force", || {
            process::metric(gateway.admin, "aforo_limits_mode ") == number
        });
    }
}

impl Gateway {
    fn start(folder: &Path, origin: SocketAddr, redis: SocketAddr) -> Self {
        let (listen, admin) = (process::free_address(), process::free_address());
        let file = folder.join(format!("{}.yaml", listen.port()));
        let text = format!(
            "version: 1\n\
             server: {{ threads: 1 }}\n\
             listeners: [{{ address: \"{listen}\" }}]\n\
             admin: {{ address: \"{admin}\" }}\n\
             log: {{ access: false }}\n\
             upstreams: {{ origin: {{ servers: [\"{origin}\"] }} }}\n\
             routes: [{{ id: all, path: /*, upstream: origin }}]\n\
             limits: {{ mode: MODE, default_rule: {{ capacity: 4000, refill_per_second: 2000 }} }}\n\
             store: {{ redis: {{ url: \"redis://{redis}\" }} }}\n\
             cluster: {{ instances: {GATEWAYS} }}\n"
        );
        std::fs::write(&file, text.replace("MODE", "enforce")).unwrap();
        let path = file.to_string_lossy().into_owned();
        let program = Program::start(None, &process::gateway(), &["run", "-c", &path]);
        Self {
            program,
            file,
            text,
            listen,
            admin,
        }
    }
}
