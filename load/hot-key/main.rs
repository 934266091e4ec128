//! What limiting costs a proxy: CPU per request and requests a second of the gateway, beside a bare
//! Pingora pass-through, one after the other in each round, the proxy alone on core 0. See
//! `README.md` beside this.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../kit/mod.rs"]
mod kit;
#[path = "../plot.rs"]
mod plot;
#[allow(dead_code)]
#[path = "../faults/server.rs"]
mod server;

use std::net::SocketAddr;
use std::path::Path;

use kit::process::{self, Program};
use kit::{Report, argument, flag, machine, median};
use plot::{Axes, Bars, number};
use server::Server;

/// The proxy has a core of its own; clients, upstream and Redis share the other.
const PROXY: usize = 0;
const OTHERS: usize = 1;

/// A proxy, and what is sent to it.
struct Subject {
    name: &'static str,
    listen: SocketAddr,
    pid: u32,
    /// None: it has no limits.
    admin: Option<SocketAddr>,
    traffic: Traffic,
}

#[derive(Clone, Copy, PartialEq)]
enum Traffic {
    /// All requests are one tenant's, who may do as much.
    Hot,
    /// Each is that of one tenant in 100,000.
    Cold,
    /// All are of a tenant who may do ten a second.
    Limited,
}

/// One round of one subject.
struct Round {
    micros: f64,
    /// Of these, what the proxy itself took and not the kernel for it.
    user: f64,
    rate: f64,
    calls: f64,
    by_lease: f64,
}

struct Gateway {
    program: Program,
    listen: SocketAddr,
    admin: SocketAddr,
}

fn main() {
    let quick = flag("--quick");
    let rounds = argument("--rounds", if quick { 1.0 } else { 7.0 }) as usize;
    let seconds = argument("--seconds", if quick { 1.0 } else { 4.0 });
    assert!(machine::cores() >= 2, "this wants two cores");
    process::build(&["passthrough", "origin"]);
    let command = "cargo run --release --example hot-key";
    let connections = argument("--connections", 64.0) as usize;
    let mut report = Report::new("hot-key", command, quick || connections != 64);

    let folder = tempfile::tempdir().unwrap();
    let origin = process::free_address();
    let origin_at = origin.to_string();
    let upstream = process::example("origin");
    let _origin = Program::start_behind_redis(OTHERS, &upstream, &[&origin_at]);
    process::await_listener(origin);
    let redis = Server::start();
    redis.pin(OTHERS);
    let store = format!(
        "store: {{ redis: {{ url: \"redis://{}\" }} }}\ncluster: {{ instances: 20 }}\n",
        redis.address
    );
    let bare_at = process::free_address();
    let (listen, upstream) = (bare_at.to_string(), origin.to_string());
    let passthrough = process::example("passthrough");
    let bare = Program::start(Some(PROXY), &passthrough, &[&listen, &upstream]);
    process::await_listener(bare_at);
    let off = Gateway::start(folder.path(), origin, "off", &store);
    let memory = Gateway::start(folder.path(), origin, "enforce", "");
    let limits = Gateway::start(folder.path(), origin, "enforce", &store);

    let subject = |name, gateway: &Gateway, traffic| Subject {
        name,
        listen: gateway.listen,
        pid: gateway.program.pid(),
        admin: Some(gateway.admin),
        traffic,
    };
    let subjects = [
        Subject {
            name: "bare",
            listen: bare_at,
            pid: bare.pid(),
            admin: None,
            traffic: Traffic::Hot,
        },
        subject("off", &off, Traffic::Hot),
        subject("hot, in process", &memory, Traffic::Hot),
        subject("hot, Redis", &limits, Traffic::Hot),
        subject("cold, Redis", &limits, Traffic::Cold),
        subject("limited, Redis", &limits, Traffic::Limited),
    ];
    let script = folder.path().join("cold.lua");
    std::fs::write(&script, COLD).unwrap();

    let mut all: Vec<Vec<Round>> = subjects.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (subject, rounds) in subjects.iter().zip(&mut all) {
            let one = subject.measure(&script, connections, seconds);
            eprintln!(
                "round {round}: {}: {:.2} µs, {:.0}/s",
                subject.name, one.micros, one.rate
            );
            rounds.push(one);
        }
    }

    let of = |subject: usize, value: fn(&Round) -> f64| -> Vec<f64> {
        all[subject].iter().map(value).collect()
    };
    let against = |subject: usize| -> Vec<f64> {
        let pairs = all[subject].iter().zip(&all[0]);
        pairs.map(|(one, bare)| one.micros / bare.micros).collect()
    };
    report.line(&format!(
        "{rounds} rounds of {seconds} s for each; wrk with {connections} connections; medians, and what single \
         rounds lay between. Against bare: the median of the rounds' own ratios.\n"
    ));
    let mut rows = Vec::new();
    for (number_of, subject) in subjects.iter().enumerate() {
        let micros = kit::sorted(of(number_of, |round| round.micros));
        let calls = of(number_of, |round| round.calls);
        rows.push(vec![
            subject.name.to_owned(),
            format!("{:.2}", median(&micros)),
            format!("{:.2}–{:.2}", micros[0], micros[micros.len() - 1]),
            format!("{:.2}", median(&of(number_of, |round| round.user))),
            format!("{:.3} ×", median(&against(number_of))),
            number(median(&of(number_of, |round| round.rate))),
            number(median(&calls)),
            format!(
                "{:.1} %",
                100.0 * median(&of(number_of, |round| round.by_lease))
            ),
        ]);
    }
    report.table(
        &[
            "the proxy",
            "CPU per request, µs",
            "rounds",
            "of it in user mode",
            "against bare",
            "requests/s",
            "Redis calls per request",
            "decided by a lease or a remembered rejection",
        ],
        &rows,
    );
    let path = report.plot("cpu", "CPU per request");
    let names = subjects.each_ref().map(|subject| subject.name);
    let mut axes = Axes::new("CPU per request of the proxy, all on one core", "", "µs");
    let bare = median(&of(0, |round| round.micros));
    let goals = [(1.1 * bare, "1.10 × the bare pass-through")];
    axes.goals = &goals;
    let values = (0..subjects.len()).map(|n| median(&of(n, |round| round.micros)));
    let bars = Bars {
        name: "CPU".to_owned(),
        values: values.collect(),
    };
    plot::bars(&path, &axes, &names, &[bars]).unwrap();
    report.finish();
}

/// Any tenant with each request. Their names are made beforehand.
const COLD: &str = "local requests = {}\ninit = function()\n  for n = 1, 100000 do\n    \
    requests[n] = wrk.format('GET', '/x', { ['X-Api-Key'] = 'tenant-' .. n })\n  end\nend\n\
    request = function() return requests[math.random(100000)] end\n";

impl Gateway {
    fn start(folder: &Path, origin: SocketAddr, mode: &str, store: &str) -> Self {
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
             limits:\n  mode: {mode}\n\
             \x20 default_rule: {{ capacity: 2000000000, refill_per_second: 1000000 }}\n\
             \x20 rules: [{{ tenant: limited, route: all, capacity: 10, refill_per_second: 10 }}]\n\
             {store}"
        );
        std::fs::write(&file, text).unwrap();
        let path = file.to_string_lossy().into_owned();
        let program = Program::start(Some(PROXY), &process::gateway(), &["run", "-c", &path]);
        process::await_listener(listen);
        process::eventually("the gateway is ready", || {
            process::page(admin, "/readyz").is_ok_and(|page| page.starts_with("HTTP/1.1 200"))
        });
        Self {
            program,
            listen,
            admin,
        }
    }
}

impl Subject {
    fn measure(&self, script: &Path, connections: usize, seconds: f64) -> Round {
        self.wrk(script, connections, 1.0);
        let before = self.counted();
        let before_cpu = machine::user_and_kernel_of(self.pid);
        let (requests, rate) = self.wrk(script, connections, seconds);
        let (user, kernel) = machine::user_and_kernel_of(self.pid);
        let user = user.saturating_sub(before_cpu.0).as_secs_f64();
        let kernel = kernel.saturating_sub(before_cpu.1).as_secs_f64();
        let after = self.counted();
        Round {
            micros: (user + kernel) * 1e6 / requests,
            user: user * 1e6 / requests,
            rate,
            calls: (after.0 - before.0) / requests,
            by_lease: (after.1 - before.1) / requests,
        }
    }

    /// Calls of the store, and decisions without one.
    fn counted(&self) -> (f64, f64) {
        let Some(admin) = self.admin else {
            return (0.0, 0.0);
        };
        let local = ["lease", "denied"]
            .map(|source| format!("aforo_decisions_total{{source=\"{source}\"}}"))
            .map(|series| process::metric(admin, &series));
        let calls = ["take", "poll", "give_back"]
            .map(|op| format!("aforo_store_calls_total{{op=\"{op}\""))
            .map(|series| process::metric(admin, &series));
        (calls.iter().sum(), local.iter().sum())
    }

    /// Requests, and requests a second.
    fn wrk(&self, script: &Path, connections: usize, seconds: f64) -> (f64, f64) {
        let mut command = process::behind_redis(OTHERS);
        command.args(["wrk", "-t1"]);
        command.arg(format!("-c{connections}"));
        // Whole seconds are all that it knows.
        command.arg(format!("-d{}s", seconds.ceil()));
        match self.traffic {
            Traffic::Hot => command.args(["-H", "X-Api-Key: shop-a"]),
            Traffic::Limited => command.args(["-H", "X-Api-Key: limited"]),
            Traffic::Cold => command.arg("-s").arg(script),
        };
        command.arg(format!("http://{}/x", self.listen));
        let output = command.output().expect("taskset, chrt and wrk");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let bad = text.contains("Non-2xx");
        assert!(!bad || self.traffic == Traffic::Limited, "{text}");
        let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
        let requests = text.lines().find(|line| line.contains(" requests in "));
        let requests = number(requests.and_then(|line| line.trim().split(' ').next()));
        let rate = text
            .lines()
            .find_map(|line| line.strip_prefix("Requests/sec:"));
        (
            requests.expect("wrk's count"),
            number(rate).expect("wrk's rate"),
        )
    }
}
