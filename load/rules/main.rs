//! What 300,000 rules cost, and what requests see of their changes. See `README.md` beside this.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/harness/mod.rs"]
mod harness;

use arc_swap::ArcSwap;

use aforo::limit::Rule;
use aforo::rules::{Layer, RuleSet};
use harness::{Client, Config, Gateway, Postgres, Upstream, eventually};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TENANTS: usize = 100_000;
const ROUTES: [&str; 3] = ["r", "s", "t"];
const PHASE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
const LOADS: usize = 5;
const CHANGES: usize = 200;
const SWAPS: Duration = Duration::from_secs(5);
/// What a request may be slower by.
const SLOW: Duration = Duration::from_millis(2);

fn main() {
    // `cargo test` may come by too, and has no minutes to spare.
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("see load/rules/README.md");
    }
    in_this_process();

    let upstream = Upstream::start();
    let postgres = Postgres::migrated();
    postgres.yield_to_others();
    let config = Config::new(&upstream).postgres(&postgres, "refresh: 30s");
    let empty = {
        let mut gateway = Gateway::start(&config);
        warm(&gateway);
        resident_kib(&mut gateway)
    };
    postgres.sql(&format!(
        "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second)
         select 'tenant-' || n, route, 1000000, 1000000
         from generate_series(1, {TENANTS}) as n, regexp_split_to_table('{}', ' ') as route",
        ROUTES.join(" ")
    ));
    postgres.sql("analyze rate_limit_rule");

    let mut loads = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..LOADS {
        let start = Instant::now();
        let gateway = Gateway::start(&config);
        starts.push(start.elapsed());
        loads.extend(loaded(&gateway));
    }
    row("load of 300,000 rules", &mut loads);
    row("start of a gateway until it is ready", &mut starts);

    let mut gateway = Gateway::start(&config);
    warm(&gateway);
    let full = resident_kib(&mut gateway);
    println!(
        "memory: {} MiB with the rules, {} MiB without, {} B a rule",
        full / 1024,
        empty / 1024,
        (full - empty) * 1024 / (TENANTS * ROUTES.len()) as u64
    );

    requests(&postgres, &gateway);
    println!(
        "memory after all that: {} MiB",
        resident_kib(&mut gateway) / 1024
    );
    changes(&postgres, &gateway);
}

/// What a client sees in each phase.
fn requests(postgres: &Postgres, gateway: &Gateway) {
    phase("requests, nothing changes", gateway, |_| {});
    phase("requests, single rules change", gateway, |stop| {
        let mut session = postgres.session();
        let mut n = 0;
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            session.sql(&format!(
                "update rate_limit_rule set capacity = 1000000 + {n} where tenant_id = 'tenant-{n}'"
            ));
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let before = loaded(gateway).len();
    phase("requests, all rules are loaded again", gateway, |stop| {
        while !stop.load(Ordering::Relaxed) {
            let loads = loaded(gateway).len();
            postgres.sql("notify rule_changed, '*'");
            eventually("all are loaded", || loaded(gateway).len() > loads);
        }
    });
    println!("  {} times", loaded(gateway).len() - before);
    phase("requests, somebody else reads the table", gateway, |stop| {
        while !stop.load(Ordering::Relaxed) {
            postgres.sql("select * from rate_limit_rule");
            std::thread::sleep(Duration::from_millis(250));
        }
    });
}

fn phase(what: &str, gateway: &Gateway, meanwhile: impl FnOnce(&AtomicBool) + Send) {
    let stop = AtomicBool::new(false);
    let mut took = std::thread::scope(|scope| {
        let other = scope.spawn(|| meanwhile(&stop));
        let mut client = gateway.connect();
        let mut took = Vec::new();
        let start = Instant::now();
        for n in 0.. {
            if start.elapsed() >= PHASE {
                break;
            }
            let tenant = format!("tenant-{}", n * 7_919 % TENANTS + 1);
            let asked = Instant::now();
            let response = client.get(&tenant, "/x").unwrap();
            took.push(asked.elapsed());
            assert_eq!(response.status, 200);
            std::thread::sleep(PAUSE);
        }
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap();
        took
    });
    row(what, &mut took);
    let slow = took.iter().filter(|time| **time >= SLOW).count();
    println!("  {slow} of {} took 2 ms or more", took.len());
}

/// From COMMIT until a request is decided by the new rule.
fn changes(postgres: &Postgres, gateway: &Gateway) {
    let mut session = postgres.session();
    let mut client = gateway.connect();
    let mut took = Vec::new();
    for n in 1..=CHANGES {
        let capacity = 2_000_000 + n as u64;
        let tenant = format!("tenant-{}", n * 499);
        session.sql(&format!(
            "update rate_limit_rule set capacity = {capacity}
             where tenant_id = '{tenant}' and route_id = 'r'"
        ));
        let committed = Instant::now();
        while limit(&mut client, &tenant) != capacity {
            assert!(committed.elapsed() < harness::PATIENCE, "never in force");
        }
        took.push(committed.elapsed());
        // Not in step with anything.
        std::thread::sleep(Duration::from_micros(7_000 + n as u64 * 97));
    }
    row("from COMMIT to force, 200 changes", &mut took);
}

/// The parts by themselves.
fn in_this_process() {
    let rule = |capacity| Rule::new(capacity, 1.0).unwrap();
    let names: Vec<String> = (0..TENANTS).map(|n| format!("tenant-{n}")).collect();
    let (layer, built) = timed(|| {
        names
            .iter()
            .flat_map(|name| ROUTES.map(|route| (name.as_str(), route, rule(10))))
            .collect::<Layer>()
    });
    println!("building a layer of {}: {built:?}", layer.len());
    let mut changed: Vec<Duration> = (0..1_000)
        .map(|n| timed(|| layer.with([(names[n * 97].as_str(), "r", Some(rule(11)))])).1)
        .collect();
    row("changing one rule of it", &mut changed);

    let mut set = RuleSet::new(rule(1), Layer::default());
    set.database = Arc::new(layer);
    let (sum, found) = timed(|| {
        let tenants = (0..1_000_000).map(|n| &names[n * 7_919 % TENANTS]);
        let rules = tenants.map(|name| set.find(black_box(name), "s", 1).capacity);
        rules.sum::<f64>()
    });
    black_box(sum);
    println!("looking one up: {} ns", found.as_nanos() / 1_000_000);
    let layer = copied(&set.database);
    let ((), dropped) = timed(|| drop(set));
    println!("dropping it: {dropped:?}");
    swaps(&layer, &names);
}

fn copied(layer: &Layer) -> Layer {
    let rules = layer.iter();
    rules
        .map(|(tenant, route, rule)| (tenant, route, *rule))
        .collect()
}

/// What looking a rule up takes while the whole layer is built anew, swapped and dropped over and
/// over by another thread: the swap by itself, without a database that takes the core.
fn swaps(layer: &Layer, names: &[String]) {
    let with = |layer: Layer| {
        let mut set = RuleSet::new(Rule::new(1, 1.0).unwrap(), Layer::default());
        set.database = Arc::new(layer);
        Arc::new(set)
    };
    for swapping in [false, true] {
        let current = ArcSwap::from(with(copied(layer)));
        let stop = AtomicBool::new(false);
        let mut took = Vec::with_capacity(4_000_000);
        let swapped = std::thread::scope(|scope| {
            let swapper = scope.spawn(|| {
                let mut swapped = 0;
                while swapping && !stop.load(Ordering::Relaxed) {
                    let old = current.swap(with(copied(layer)));
                    while Arc::strong_count(&old) > 1 {
                        std::thread::yield_now();
                    }
                    drop(old);
                    swapped += 1;
                }
                swapped
            });
            let start = Instant::now();
            for n in 0.. {
                if start.elapsed() >= SWAPS {
                    break;
                }
                let asked = Instant::now();
                let rules = current.load_full();
                black_box(rules.find(&names[n * 7_919 % TENANTS], "s", 1));
                drop(rules);
                took.push(asked.elapsed());
            }
            stop.store(true, Ordering::Relaxed);
            swapper.join().unwrap()
        });
        row(
            &format!("looking one up, {swapped} swaps of all meanwhile"),
            &mut took,
        );
        let slow = took.iter().filter(|time| **time >= SLOW).count();
        println!("  {slow} of {} took 2 ms or more", took.len());
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = what();
    (result, start.elapsed())
}

fn warm(gateway: &Gateway) {
    let mut client = gateway.connect();
    for _ in 0..500 {
        limit(&mut client, "tenant-1");
    }
}

fn limit(client: &mut Client, tenant: &str) -> u64 {
    client
        .get(tenant, "/x")
        .unwrap()
        .number("X-RateLimit-Limit")
}

/// How long each load of all rules took, as the gateway says.
fn loaded(gateway: &Gateway) -> Vec<Duration> {
    gateway
        .log()
        .lines()
        .filter(|line| line.contains("rules loaded from PostgreSQL"))
        .filter_map(|line| line.split_once("milliseconds=")?.1.trim().parse().ok())
        .map(Duration::from_millis)
        .collect()
}

fn resident_kib(gateway: &mut Gateway) -> u64 {
    let field = gateway.process().proc_status("VmRSS");
    field.trim_end_matches(" kB").parse().unwrap()
}

fn row(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let part = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{what}: median {:.2?}, p99 {:.2?}, worst {:.2?}",
        part(0.5),
        part(0.99),
        part(1.0)
    );
}
