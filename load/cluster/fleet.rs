//! The gateways, and the record of each decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aforo::limit::limiter::Settings;
use aforo::limit::{Limiter, MonotonicClock, Source};
use aforo::store::RedisStore;
use aforo::store::redis;
use tokio::runtime::Runtime;

use crate::kit::{machine, open_loop};
use crate::server::Server;
use crate::traffic::{GATEWAYS, Traffic};

/// What a request may wait for.
const BUDGET: Duration = Duration::from_millis(5);
const IN_FLIGHT: usize = 256;
/// The record's unit of time, in nanoseconds; 2^32 of them are 43 s.
const UNIT: u64 = 10;

pub const SOURCES: [Source; 4] = [
    Source::Lease,
    Source::Denied,
    Source::Store,
    Source::Fallback,
];

pub struct Fleet {
    gateways: Vec<Limiter<RedisStore>>,
    pub batch: u32,
}

/// What became of one request: units since the moment at which it was due.
#[derive(Default)]
struct Slot {
    called: AtomicU32,
    decided: AtomicU32,
    /// 0 while it is not decided.
    answer: AtomicU8,
}

/// The same, to be read.
#[derive(Clone, Copy)]
pub struct Outcome {
    /// When it was due, nanoseconds since the beginning.
    pub due: u64,
    pub called: u64,
    pub decided: u64,
    pub allowed: bool,
    pub source: Option<Source>,
}

/// What a run used.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub process: Duration,
    pub redis: Duration,
    pub calls: f64,
    pub wall: Duration,
}

/// One run.
pub struct Run {
    pub name: &'static str,
    pub traffic: Arc<Traffic>,
    /// In the order of the arrivals.
    pub outcomes: Vec<Outcome>,
    pub warm: Duration,
    pub usage: Usage,
    pub resident: f64,
    /// Before the first decision of the run, with the record in memory.
    pub resident_before: f64,
    pub redis_memory: f64,
    pub redis_keys: f64,
    pub batch: u32,
}

struct Record {
    fleet: Arc<Fleet>,
    traffic: Arc<Traffic>,
    slots: Vec<Slot>,
    began: Instant,
    decide: bool,
}

impl Fleet {
    pub async fn start(url: &str, batch: u32) -> Self {
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            let store = RedisStore::new(&redis::Settings {
                tls: &redis::access::TlsFiles::default(),
                url,
                budget: BUDGET,
                max_in_flight: IN_FLIGHT,
            });
            let store = store.unwrap();
            store.connect(Duration::from_secs(5)).await;
            let settings = Settings {
                budget: BUDGET,
                instances: GATEWAYS as u32,
                in_flight: IN_FLIGHT,
                batch,
                ..Settings::default()
            };
            gateways.push(Limiter::new(store, MonotonicClock::new(), settings));
        }
        Self { gateways, batch }
    }

    /// Sends the traffic, each request in a task of its own, as a gateway has it.
    pub fn run(
        self: &Arc<Self>,
        runtime: &Runtime,
        server: &Server,
        name: &'static str,
        traffic: Traffic,
        warm: Duration,
        decide: bool,
    ) -> Run {
        let traffic = Arc::new(traffic);
        let slots = traffic.moments.iter().map(|_| Slot::default());
        let record = Arc::new(Record {
            fleet: Arc::clone(self),
            slots: slots.collect(),
            traffic: Arc::clone(&traffic),
            began: Instant::now() + Duration::from_millis(20),
            decide,
        });
        let resident_before = machine::resident(std::process::id());
        let before = usage(server);
        let warm_units = traffic
            .moments
            .partition_point(|at| *at < warm.as_nanos() as u64);
        let mut after_warm = before;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(record.began.saturating_duration_since(Instant::now()));
                open_loop::run(&traffic.moments, record.began, |due| {
                    let record = Arc::clone(&record);
                    runtime.spawn(async move {
                        for number in due {
                            let record = Arc::clone(&record);
                            tokio::spawn(async move { record.ask(number).await });
                        }
                    });
                });
            });
            let until = record.began + warm;
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            after_warm = usage(server);
        });
        let patience = Instant::now() + 2 * BUDGET + Duration::from_secs(5);
        while !record.is_complete() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let used = usage(server).less(&after_warm);
        let memory = server.query::<String>(&["INFO", "memory"]);
        let outcomes = (0..traffic.moments.len()).map(|number| record.outcome(number));
        let outcomes: Vec<Outcome> = outcomes.collect();
        let missing = outcomes
            .iter()
            .filter(|one| one.source.is_none() && decide)
            .count();
        eprintln!("{name}: {warm_units} to warm up, {missing} without a bucket's answer");
        Run {
            name,
            outcomes,
            traffic,
            warm,
            usage: used,
            resident: machine::resident(std::process::id()),
            resident_before,
            redis_memory: field(&memory, "used_memory:"),
            redis_keys: server.query(&["DBSIZE"]),
            batch: self.batch,
        }
    }
}

impl Record {
    async fn ask(&self, number: usize) {
        let slot = &self.slots[number];
        slot.called.store(self.since(number), Ordering::Relaxed);
        let answer = if self.decide {
            let arrival = self.traffic.arrivals[number];
            let key = &self.traffic.keys[arrival.key as usize];
            let gateway = &self.fleet.gateways[usize::from(arrival.gateway)];
            let decision = gateway.decide(&key.of(), &key.rule, 1).await;
            let source = SOURCES.iter().position(|source| *source == decision.source);
            let source = source.map_or(0, |n| n as u8 + 1);
            1 | u8::from(decision.allowed) << 1 | source << 2
        } else {
            1
        };
        slot.decided.store(self.since(number), Ordering::Relaxed);
        slot.answer.store(answer, Ordering::Release);
    }

    /// Units since the request was due.
    fn since(&self, number: usize) -> u32 {
        let now = self.began.elapsed().as_nanos() as u64;
        let late = now.saturating_sub(self.traffic.moments[number]) / UNIT;
        u32::try_from(late).unwrap_or(u32::MAX)
    }

    fn is_complete(&self) -> bool {
        let open = |slot: &Slot| slot.answer.load(Ordering::Acquire) == 0;
        !self.slots.iter().rev().any(open)
    }

    fn outcome(&self, number: usize) -> Outcome {
        let slot = &self.slots[number];
        let answer = slot.answer.load(Ordering::Acquire);
        let units = |of: &AtomicU32| u64::from(of.load(Ordering::Relaxed)) * UNIT;
        Outcome {
            due: self.traffic.moments[number],
            called: units(&slot.called),
            decided: units(&slot.decided),
            allowed: answer & 2 != 0,
            source: (answer >> 2)
                .checked_sub(1)
                .map(|n| SOURCES[usize::from(n)]),
        }
    }
}

impl Usage {
    fn less(self, before: &Self) -> Self {
        Self {
            process: self.process.saturating_sub(before.process),
            redis: self.redis.saturating_sub(before.redis),
            calls: self.calls - before.calls,
            wall: self.wall.saturating_sub(before.wall),
        }
    }
}

/// What was used until now.
fn usage(server: &Server) -> Usage {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let cpu = server.query::<String>(&["INFO", "cpu"]);
    let stats = server.query::<String>(&["INFO", "commandstats"]);
    let calls = stats
        .lines()
        .filter(|line| line.starts_with("cmdstat_eval"))
        .map(|line| field(&line.replace(':', "\n"), "calls="))
        .sum();
    let redis = field(&cpu, "used_cpu_user:") + field(&cpu, "used_cpu_sys:");
    Usage {
        process: machine::cpu_of(std::process::id()),
        redis: Duration::from_secs_f64(redis),
        calls,
        wall: ORIGIN.get_or_init(Instant::now).elapsed(),
    }
}

/// The number after this beginning of a line.
fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.map(|rest| rest.split(',').next().unwrap_or_default().trim());
    digits.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}
