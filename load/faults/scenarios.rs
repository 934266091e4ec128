//! The faults, one function each.

use std::time::{Duration, Instant as Now};

use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, Flow, ask};
use crate::judge::{self, Fault};
use crate::proxy::{Mode, Proxy};
use crate::server::Server;

/// All faults, in the order of the table.
pub const NAMES: [&str; 22] = [
    "none",
    "kill-restart",
    "stop-7ms",
    "stop-34ms",
    "stop-150ms",
    "stop",
    "refuse",
    "reset",
    "black-hole",
    "script-flush",
    "flushall",
    "slow-replies",
    "tenth-late",
    "noeviction",
    "volatile-ttl",
    "no-room",
    "replica",
    "wrong-type",
    "flapping",
    "absent",
    "bgsave",
    "million-keys",
];

/// Load before the fault, so that buckets are known and the hungry ones empty.
const BEFORE: Duration = Duration::from_secs(4);
/// And after it.
const AFTER: Duration = Duration::from_secs(4);
const GATEWAYS: usize = 3;

const fn flow(tenant: &'static str, capacity: u32, refill: f64, rate: f64) -> Flow {
    Flow {
        tenant,
        capacity,
        refill,
        rate,
        one_gateway: false,
    }
}

/// Three times the limit, and four fifths of it; the last is a client with one connection.
const MIXED: [Flow; 6] = [
    flow("hungry-large", 1_000, 500.0, 1_500.0),
    flow("hungry-small", 100, 50.0, 150.0),
    flow("calm-large", 1_000, 500.0, 400.0),
    flow("calm-small", 100, 50.0, 40.0),
    flow("calm-tiny", 20, 10.0, 8.0),
    Flow {
        one_gateway: true,
        ..flow("calm-single", 100, 50.0, 40.0)
    },
];

/// Legal load of one gateway, which no stall may reject.
const LEGAL: [Flow; 3] = [
    flow("calm-large", 1_000, 500.0, 450.0),
    flow("calm-small", 200, 100.0, 90.0),
    flow("calm-tiny", 20, 10.0, 8.0),
];

/// Five times the limit.
const GREEDY: [Flow; 2] = [
    flow("hungry-large", 1_000, 500.0, 2_500.0),
    flow("hungry-small", 100, 50.0, 250.0),
];

/// Runs one fault and prints its row.
pub async fn run(name: &str, outage: Duration) {
    match name {
        "stop-7ms" => stalls(name, Duration::from_millis(7)).await,
        "stop-34ms" => stalls(name, Duration::from_millis(34)).await,
        "million-keys" => million_keys(name, outage).await,
        "absent" => absent(name, outage).await,
        _ => usual(name, outage).await,
    }
}

/// A fleet under load at a server behind a proxy, and one fault.
async fn usual(name: &str, outage: Duration) {
    let mut server = Server::start();
    if name == "bgsave" {
        // Half a gigabyte.
        server.query::<()>(&["DEBUG", "POPULATE", "500000", "filler", "1000"]);
    }
    let proxy = Proxy::start(server.address).await;
    let mut fleet = Fleet::start(GATEWAYS, &format!("redis://{}", proxy.address), 100_000).await;
    let flows: &[Flow] = if name == "tenth-late" {
        &GREEDY
    } else {
        &MIXED
    };
    for flow in flows {
        fleet.load(*flow);
    }
    sleep(BEFORE).await;
    let began = Instant::now();
    match name {
        "none" => sleep(outage).await,
        "kill-restart" => {
            server.kill();
            sleep(outage).await;
            blocking(|| server.restart());
        }
        "stop-150ms" => {
            server.signal("STOP");
            sleep(Duration::from_millis(150)).await;
            server.signal("CONT");
        }
        "stop" => {
            server.signal("STOP");
            sleep(outage).await;
            server.signal("CONT");
        }
        "refuse" => during(&proxy, Mode::Refuse, outage).await,
        "reset" => during(&proxy, Mode::Reset, outage).await,
        "black-hole" => during(&proxy, Mode::BlackHole, outage).await,
        "slow-replies" => {
            during(&proxy, Mode::Delay(Duration::from_millis(20)), outage).await;
        }
        "tenth-late" => {
            // Calls of the first 20 ms of each hiccup wait for longer than the budget.
            let hiccup = Mode::Hiccup {
                part: Duration::from_millis(25),
                period: Duration::from_millis(200),
            };
            during(&proxy, hiccup, outage).await;
        }
        "script-flush" | "flushall" => {
            let words: &[&str] = match name {
                "flushall" => &["FLUSHALL"],
                _ => &["SCRIPT", "FLUSH"],
            };
            while began.elapsed() < outage {
                blocking(|| server.query::<()>(words));
                sleep(Duration::from_secs(1)).await;
            }
        }
        "volatile-ttl" => {
            // Full of buckets, and more arrive all the time: of as many keys as are there, one in
            // a hundred is new each second.
            let limit = blocking(|| {
                fill(&server, "old", 50_000, 60_000);
                server.query::<()>(&["CONFIG", "SET", "maxmemory-policy", name]);
                let used: String = server.query(&["INFO", "memory"]);
                let used = used
                    .lines()
                    .find_map(|line| line.strip_prefix("used_memory:"));
                used.map(str::to_owned).unwrap_or_default()
            });
            blocking(|| server.query::<()>(&["CONFIG", "SET", "maxmemory", &limit]));
            let end = Instant::now() + outage;
            let mut batch = 0;
            while Instant::now() < end {
                blocking(|| fill(&server, &format!("new-{batch}"), 50, 4_000));
                batch += 1;
                sleep(Duration::from_millis(100)).await;
            }
            let stats: String = blocking(|| server.query(&["INFO", "stats"]));
            for line in stats
                .lines()
                .filter(|line| line.starts_with("evicted_keys"))
            {
                eprintln!("{name}: {line}");
            }
            blocking(|| server.query::<()>(&["CONFIG", "SET", "maxmemory", "0"]));
        }
        "noeviction" | "no-room" => {
            // Not a byte to spare: under noeviction it grows, under volatile-ttl each bucket is
            // thrown away before the next command, whichever it is.
            let policy = if name == "no-room" {
                "volatile-ttl"
            } else {
                name
            };
            blocking(|| {
                server.query::<()>(&["CONFIG", "SET", "maxmemory-policy", policy]);
                server.query::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
            });
            sleep(outage).await;
            blocking(|| server.query::<()>(&["CONFIG", "SET", "maxmemory", "0"]));
        }
        "replica" => {
            blocking(|| server.query::<()>(&["REPLICAOF", "127.0.0.1", "1"]));
            sleep(outage).await;
            blocking(|| server.query::<()>(&["REPLICAOF", "NO", "ONE"]));
        }
        "wrong-type" => {
            // Again and again, for a bucket in its place would heal it.
            let key = "rl:{hungry-small}:r";
            blocking(|| server.query::<()>(&["SET", key, "no bucket"]));
            sleep(outage).await;
            blocking(|| server.query::<()>(&["DEL", key]));
        }
        "flapping" => {
            for _ in 0..15 {
                during(&proxy, Mode::Refuse, Duration::from_secs(1)).await;
                sleep(Duration::from_secs(1)).await;
            }
        }
        "bgsave" => {
            blocking(|| server.query::<()>(&["BGSAVE"]));
            sleep(outage).await;
        }
        other => panic!("no fault is called {other}"),
    }
    finish(name, fleet, began).await;
}

/// Twenty short stalls under a load that is within the limits, on one gateway.
async fn stalls(name: &str, stall: Duration) {
    let mut server = Server::start();
    let mut fleet = Fleet::start(1, &format!("redis://{}", server.address), 100_000).await;
    for flow in LEGAL {
        fleet.load(flow);
    }
    sleep(BEFORE).await;
    let began = Instant::now();
    for _ in 0..20 {
        server.signal("STOP");
        // Not the timer of tokio, which counts in whole milliseconds.
        blocking(|| std::thread::sleep(stall));
        server.signal("CONT");
        sleep(Duration::from_millis(483)).await;
    }
    finish(name, fleet, began).await;
}

/// No server at the start; it comes later.
async fn absent(name: &str, outage: Duration) {
    let mut server = Server::absent();
    let began = Instant::now();
    let mut fleet = Fleet::start(GATEWAYS, &format!("redis://{}", server.address), 100_000).await;
    for flow in MIXED {
        fleet.load(flow);
    }
    sleep(outage).await;
    blocking(|| server.restart());
    finish(name, fleet, began).await;
}

/// A million tenants that nobody knows, in an outage, beside those that were there before.
async fn million_keys(name: &str, outage: Duration) {
    let server = Server::start();
    let proxy = Proxy::start(server.address).await;
    let bound = 200_000;
    let mut fleet = Fleet::start(GATEWAYS, &format!("redis://{}", proxy.address), bound).await;
    for flow in MIXED {
        fleet.load(flow);
    }
    sleep(BEFORE).await;
    let before = resident_mib();
    let began = Instant::now();
    proxy.set(Mode::Refuse);
    sleep(Duration::from_millis(500)).await;
    let flood = Now::now();
    let mut passed = 0_u32;
    for n in 0..1_000_000_u32 {
        let tenant = format!("stranger-{n}");
        let gateway = &fleet.gateways[n as usize % GATEWAYS];
        passed += u32::from(ask(gateway, &tenant, 20, 10.0).await.allowed);
        if n % 500 == 0 {
            // Over about the time of the outage.
            let due = outage.mul_f64(f64::from(n) / 1e6);
            sleep(due.saturating_sub(flood.elapsed())).await;
        }
    }
    let after = resident_mib();
    let held: Vec<usize> = fleet.gateways.iter().map(|g| g.local_buckets()).collect();
    proxy.set(Mode::Pass);
    finish(name, fleet, began).await;
    eprintln!(
        "a million strangers in {:.1} s: {passed} passed; accounts held {held:?} of {bound} each; \
         resident memory {before} MiB before, {after} MiB after",
        flood.elapsed().as_secs_f64()
    );
}

async fn during(proxy: &Proxy, mode: Mode, time: Duration) {
    proxy.set(mode);
    sleep(time).await;
    proxy.set(Mode::Pass);
}

async fn finish(name: &str, fleet: Fleet, began: Instant) {
    let ended = Instant::now();
    sleep(AFTER).await;
    let (records, transitions) = fleet.stop().await;
    let fault = Fault { began, ended };
    println!("{}", judge::row(name, &records, &transitions, fault));
}

/// Runs what waits without tokio knowing it.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

/// Writes so many buckets that live for `ttl` milliseconds.
fn fill(server: &Server, name: &str, keys: u32, ttl: u32) {
    const SCRIPT: &str = "for i = 1, tonumber(ARGV[2]) do \
        local key = 'rl:{' .. ARGV[1] .. '-' .. i .. '}:r' \
        redis.call('HSET', key, 'tokens', '19.000000000000000', 'ts', '1796101390764') \
        redis.call('PEXPIRE', key, ARGV[3]) end";
    let (keys, ttl) = (keys.to_string(), ttl.to_string());
    server.query::<()>(&["EVAL", SCRIPT, "0", name, &keys, &ttl]);
}
