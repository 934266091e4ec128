//! Twenty gateways' limiters and tenants who ask for a part or a multiple of what they may: each
//! decision recorded, and held against one ideal bucket.

// Each test crate uses its own part of this.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use aforo::limit::limiter::Settings;
use aforo::limit::{Ask, Bucket, BucketKey, Limiter, MonotonicClock, Rule, Source, Timestamp};
use aforo::store::RedisStore;
use aforo::store::redis::key::{bucket_key, shard_key};
use aforo::store::redis::{self, access::TlsFiles, slots::slot_of};
use tokio::runtime::Runtime;

use self::windows::{Admission, worst};

#[allow(dead_code)]
#[path = "../../load/kit/open_loop.rs"]
mod open_loop;
#[path = "../windows/mod.rs"]
mod windows;

pub const GATEWAYS: usize = 20;
const ROUTE: &str = "r";
const BATCH: u32 = 50;

/// The gateways.
pub struct Fleet(Vec<Limiter<RedisStore>>);

/// One tenant's requests.
#[derive(Clone)]
pub struct Flow {
    pub tenant: String,
    pub rule: Rule,
    /// What is asked for, in parts of the limit.
    pub times: f64,
    /// Gateways that get requests, alike each; the first ones.
    pub hot: usize,
}

/// What became of one request, in nanoseconds since the beginning.
struct Decided {
    called: u64,
    answered: u64,
    allowed: bool,
    source: Source,
}

/// What a flow's record says.
#[derive(Debug)]
pub struct Judged {
    /// Admitted after the warming up.
    pub admitted: u64,
    /// What one bucket would have admitted of the same requests.
    pub ideal: u64,
    /// Beyond C, surely, in any window of the whole run.
    pub beyond: f64,
    /// The most that all gateways may hold.
    pub held: f64,
    /// Decisions without Redis.
    pub fallback: u64,
    pub requests: u64,
}

impl Judged {
    /// Admitted against ideal; 0: the same.
    pub fn error(&self) -> f64 {
        self.admitted as f64 / (self.ideal as f64).max(1.0) - 1.0
    }
}

impl Fleet {
    pub async fn start(url: &str, budget: Duration, in_flight: usize) -> Self {
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            let store = RedisStore::new(&redis::Settings {
                tls: &TlsFiles::default(),
                url,
                budget,
                max_in_flight: in_flight,
            });
            let store = store.unwrap();
            store.connect(Duration::from_secs(10)).await;
            let settings = Settings {
                budget,
                instances: GATEWAYS as u32,
                in_flight,
                batch: BATCH,
                ..Settings::default()
            };
            gateways.push(Limiter::new(store, MonotonicClock::new(), settings));
        }
        Self(gateways)
    }

    /// Sends the flows' requests when they are due, each in a task of its own as a gateway has it,
    /// and judges what became of those after `warm`. `empty`: the buckets are, at first. `meanwhile`
    /// is called beside it.
    pub fn run(
        self: &Arc<Self>,
        runtime: &Runtime,
        flows: &[Flow],
        (warm, time): (Duration, Duration),
        empty: bool,
        meanwhile: impl FnOnce(Instant) + Send,
    ) -> Vec<Judged> {
        let mut random = fastrand::Rng::with_seed(8);
        let mut due: Vec<(u64, usize, usize)> = Vec::new();
        for (number, flow) in flows.iter().enumerate() {
            let rate = flow.times * flow.rule.refill_per_second;
            for at in open_loop::moments(&mut random, rate, warm + time) {
                due.push((at, number, random.usize(0..flow.hot)));
            }
        }
        due.sort_unstable();
        let moments: Vec<u64> = due.iter().map(|(at, ..)| *at).collect();
        let due = Arc::new(due);
        let flows: Arc<[Flow]> = flows.into();
        let record: Arc<Vec<OnceLock<Decided>>> =
            Arc::new(due.iter().map(|_| OnceLock::new()).collect());
        let done = Arc::new(AtomicUsize::new(0));
        let began = Instant::now() + Duration::from_millis(20);
        std::thread::scope(|scope| {
            scope.spawn(|| meanwhile(began));
            std::thread::sleep(began.saturating_duration_since(Instant::now()));
            open_loop::run(&moments, began, |ready| {
                for request in ready {
                    let (fleet, due, flows) = (Arc::clone(self), due.clone(), flows.clone());
                    let (record, done) = (record.clone(), done.clone());
                    runtime.spawn(async move {
                        let (_, flow, gateway) = due[request];
                        let flow = &flows[flow];
                        let called = began.elapsed().as_nanos() as u64;
                        let decision = fleet.0[gateway].decide(&flow.key(), &flow.rule, 1).await;
                        let _ = record[request].set(Decided {
                            called,
                            answered: began.elapsed().as_nanos() as u64,
                            allowed: decision.allowed,
                            source: decision.source,
                        });
                        done.fetch_add(1, Ordering::Release);
                    });
                }
            });
        });
        let patience = Instant::now() + Duration::from_secs(30);
        while done.load(Ordering::Acquire) < due.len() {
            assert!(Instant::now() < patience, "requests without an answer");
            std::thread::sleep(Duration::from_millis(1));
        }
        (0..flows.len())
            .map(|number| judge(&flows[number], number, &due, &record, warm, empty))
            .collect()
    }

    /// Gives all leases back.
    pub async fn close(&self) {
        for gateway in &self.0 {
            gateway.close(Duration::from_secs(5)).await;
        }
    }
}

fn judge(
    flow: &Flow,
    number: usize,
    due: &[(u64, usize, usize)],
    record: &[OnceLock<Decided>],
    warm: Duration,
    empty: bool,
) -> Judged {
    let rule = &flow.rule;
    let n = GATEWAYS as f64;
    let of_limit = (0.05 * (rule.capacity + rule.refill_per_second) / n).floor();
    let most = f64::from(2 * BATCH)
        .min(of_limit)
        .min((rule.capacity / (2.0 * n)).floor());
    let level = if empty { 0.0 } else { rule.capacity };
    let mut ideal = Bucket::new(rule, Some(level), Timestamp::default());
    let mut judged = Judged {
        admitted: 0,
        ideal: 0,
        beyond: 0.0,
        held: n * most,
        fallback: 0,
        requests: 0,
    };
    let mut admissions = Vec::new();
    for ((at, of, _), decided) in due.iter().zip(record) {
        let Some(decided) = decided.get().filter(|_| *of == number) else {
            continue;
        };
        let counts = u64::from(*at >= warm.as_nanos() as u64);
        let granted = ideal
            .take(rule, &Ask::one(1), Timestamp::from_nanos(*at))
            .granted;
        judged.ideal += counts * u64::from(granted);
        judged.admitted += counts * u64::from(decided.allowed);
        judged.requests += counts;
        judged.fallback += counts * u64::from(decided.source == Source::Fallback);
        if decided.allowed {
            admissions.push(Admission {
                asked: decided.called,
                answered: decided.answered,
                cost: 1,
            });
        }
    }
    judged.beyond = worst(&admissions, rule.refill_per_second).any_window - rule.capacity;
    judged
}

impl Flow {
    pub fn key(&self) -> BucketKey<'_> {
        BucketKey {
            tenant: &self.tenant,
            route: ROUTE,
        }
    }

    /// The keys of its bucket, one for each part.
    pub fn keys(&self) -> Vec<String> {
        match self.rule.shards {
            0 | 1 => vec![bucket_key(&self.key())],
            shards => (0..shards)
                .map(|part| shard_key(&self.key(), part))
                .collect(),
        }
    }

    /// How many of its keys lie in each third of the slots.
    pub fn on_nodes(&self) -> [usize; 3] {
        let mut parts = [0; 3];
        for key in self.keys() {
            parts[(usize::from(slot_of(&key)) / (16_384 / 3)).min(2)] += 1;
        }
        parts
    }

    /// The same limit for a tenant of whom no node has less than three parts of ten.
    pub fn spread(mut self) -> Self {
        let begin = self.tenant.clone();
        for n in 0.. {
            self.tenant = format!("{begin}-{n}");
            if self.on_nodes().iter().all(|parts| *parts >= 3) {
                break;
            }
        }
        self
    }
}
