//! Twenty limiters on one Redis: every request that passes is recorded, and no window of time holds
//! more of them than the limit and what gateways may hold of it.
//!
//! Nothing here depends on speed. A slow machine sends less than is asked of it, and what it sent
//! is what is judged; the budget is one that no reply exceeds, for a gateway's own share is
//! another matter (`load/faults`). How close to the limit a cluster comes is measured by
//! `load/cluster`.
#![allow(clippy::unwrap_used)]

mod harness;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aforo::limit::limiter::Settings;
use aforo::limit::{BucketKey, Limiter, MonotonicClock, Rule, Source};
use aforo::store::RedisStore;
use aforo::store::redis::{self, access::TlsFiles};
use harness::Redis;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windows::{Admission, Worst, worst};

const GATEWAYS: usize = 20;
const BATCH: f64 = 50.0;
/// Requests of one flow that may wait for answers. What is due beyond them is not sent.
const AT_ONCE: usize = 2_000;
const A_DAY: f64 = 86_400.0;

/// One test at a time: they need the machine.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

// The record of a run.

/// The gateways, and the Redis that they share.
struct Cluster {
    redis: Redis,
    gateways: Vec<Limiter<RedisStore>>,
    clock: Instant,
}

/// How requests are spread over the gateways.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    Even,
    /// The n-th gateway gets 1/n of what the first one does.
    Skewed,
    One,
}

/// Requests of one tenant at a steady rate.
#[derive(Clone, Copy, Debug)]
struct Flow {
    capacity: u32,
    refill: f64,
    cost: u32,
    /// Tokens asked for each second, as a multiple of the refill.
    demand: f64,
    spread: Spread,
}

/// What happened to a tenant's requests.
struct Record {
    capacity: u32,
    refill: f64,
    cost: u32,
    tenant: String,
    sent: AtomicUsize,
    without_redis: AtomicUsize,
    passed: Mutex<Vec<Admission>>,
    rejected: Mutex<Vec<u64>>,
}

impl Cluster {
    async fn start() -> Arc<Self> {
        let redis = Redis::start();
        let budget = Duration::from_secs(20);
        let in_flight = 100_000;
        let url = redis.url();
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            let store = RedisStore::new(&redis::Settings {
                url: &url,
                tls: &TlsFiles::default(),
                budget,
                max_in_flight: in_flight,
            });
            let store = store.unwrap();
            store.connect(harness::PATIENCE).await;
            let settings = Settings {
                budget,
                instances: GATEWAYS as u32,
                in_flight,
                ..Settings::default()
            };
            gateways.push(Limiter::new(store, MonotonicClock::new(), settings));
        }
        Arc::new(Self {
            redis,
            gateways,
            clock: Instant::now(),
        })
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// One request, recorded.
    async fn ask(&self, gateway: usize, record: &Record) -> bool {
        let rule = Rule::new(record.capacity, record.refill).unwrap();
        let key = BucketKey {
            tenant: &record.tenant,
            route: "r",
        };
        record.sent.fetch_add(1, Ordering::Relaxed);
        let asked = self.now();
        let decision = self.gateways[gateway]
            .decide(&key, &rule, record.cost)
            .await;
        let answered = self.now();
        if decision.source == Source::Fallback {
            record.without_redis.fetch_add(1, Ordering::Relaxed);
        }
        if decision.allowed {
            record.passed.lock().push(Admission {
                asked,
                answered,
                cost: record.cost,
            });
        } else {
            record.rejected.lock().push(asked);
        }
        decision.allowed
    }

    /// So many requests at one instant, one gateway after the other; how many passed.
    async fn burst(self: &Arc<Self>, record: &Arc<Record>, requests: usize) -> usize {
        let mut all = JoinSet::new();
        for n in 0..requests {
            let (cluster, record) = (Arc::clone(self), Arc::clone(record));
            all.spawn(async move { cluster.ask(n % GATEWAYS, &record).await });
        }
        all.join_all()
            .await
            .into_iter()
            .filter(|passed| *passed)
            .count()
    }

    /// Sends a flow's requests for so long, each when it is due.
    async fn load(self: Arc<Self>, flow: Flow, seed: u64, time: Duration) -> Record {
        let record = Arc::new(Record::new(
            &format!("{flow:?}"),
            flow.capacity,
            flow.refill,
            flow.cost,
        ));
        let mut random = fastrand::Rng::with_seed(seed);
        let free = Arc::new(Semaphore::new(AT_ONCE));
        let per_second = flow.demand * flow.refill / f64::from(flow.cost);
        let began = Instant::now();
        let mut due = 0;
        while began.elapsed() < time {
            let until_now = (began.elapsed().as_secs_f64() * per_second) as usize + 1;
            for _ in std::mem::replace(&mut due, until_now)..until_now {
                let Ok(place) = Arc::clone(&free).try_acquire_owned() else {
                    continue;
                };
                let gateway = flow.spread.pick(&mut random);
                let (cluster, record) = (Arc::clone(&self), Arc::clone(&record));
                tokio::spawn(async move {
                    cluster.ask(gateway, &record).await;
                    drop(record);
                    drop(place);
                });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let _all = free.acquire_many(AT_ONCE as u32).await.unwrap();
        Arc::into_inner(record).unwrap()
    }

    /// Runs flows side by side.
    async fn run(self: &Arc<Self>, flows: &[Flow], time: Duration) -> Vec<Record> {
        let mut all = Vec::new();
        for (n, flow) in flows.iter().enumerate() {
            let load = Arc::clone(self).load(*flow, n as u64, time);
            all.push(tokio::spawn(load));
        }
        let mut records = Vec::new();
        for one in all {
            records.push(one.await.unwrap());
        }
        records
    }
}

impl Spread {
    fn pick(self, random: &mut fastrand::Rng) -> usize {
        match self {
            Self::Even => random.usize(0..GATEWAYS),
            Self::One => 7,
            Self::Skewed => {
                let all: f64 = (1..=GATEWAYS).map(|n| 1.0 / n as f64).sum();
                let mut left = random.f64() * all;
                for n in 0..GATEWAYS {
                    left -= 1.0 / (n + 1) as f64;
                    if left <= 0.0 {
                        return n;
                    }
                }
                GATEWAYS - 1
            }
        }
    }
}

impl Record {
    fn new(tenant: &str, capacity: u32, refill: f64, cost: u32) -> Self {
        Self {
            capacity,
            refill,
            cost,
            tenant: tenant.replace(' ', ""),
            sent: AtomicUsize::new(0),
            without_redis: AtomicUsize::new(0),
            passed: Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    /// The most that all gateways may hold of it: H of each.
    fn leased(&self) -> f64 {
        let (capacity, n) = (f64::from(self.capacity), GATEWAYS as f64);
        let by_limit = (0.05 * (capacity + self.refill) / n).floor();
        let by_capacity = (capacity / (2.0 * n)).floor();
        n * (2.0 * BATCH).min(by_limit).min(by_capacity)
    }

    /// The bound, in every window and from the start.
    #[track_caller]
    fn check(&self) -> Worst {
        // A gateway's own share would be another bound.
        assert_eq!(
            self.without_redis.load(Ordering::Relaxed),
            0,
            "{}",
            self.tenant
        );
        let Worst {
            any_window,
            from_the_start,
        } = worst(&self.passed.lock(), self.refill);
        // Redis counts whole milliseconds: a window may hold one more than it is long.
        let capacity = f64::from(self.capacity) + self.refill / 1_000.0 + 1e-6;
        assert!(
            from_the_start <= capacity,
            "{}: {from_the_start} from the start",
            self.tenant
        );
        let bound = capacity + self.leased();
        assert!(
            any_window <= bound,
            "{}: {any_window} > {bound}",
            self.tenant
        );
        Worst {
            any_window,
            from_the_start,
        }
    }

    /// What one exact bucket would have let pass of the same requests.
    fn ideal(&self) -> usize {
        let passed = self.passed.lock();
        let asked = passed.iter().map(|admission| admission.asked);
        let mut all: Vec<u64> = asked.chain(self.rejected.lock().iter().copied()).collect();
        all.sort_unstable();
        let (mut tokens, mut last) = (f64::from(self.capacity), 0);
        let cost = f64::from(self.cost);
        let passes = all.into_iter().filter(|at| {
            tokens += self.refill * (at - last) as f64 / 1e9;
            tokens = tokens.min(f64::from(self.capacity));
            last = *at;
            let pass = tokens >= cost;
            tokens -= if pass { cost } else { 0.0 };
            pass
        });
        passes.count()
    }

    fn passed(&self) -> usize {
        self.passed.lock().len()
    }

    /// That limits are used, too: nine tenths of what an ideal bucket admits, held tokens aside.
    #[track_caller]
    fn check_used(&self) {
        let ideal = self.ideal() as f64;
        let held = self.leased() / f64::from(self.cost);
        let passed = self.passed() as f64;
        assert!(
            passed >= 0.9 * ideal - held - 1.0,
            "{}: {passed} passed, an ideal bucket lets {ideal} through",
            self.tenant
        );
    }
}

fn flows(limits: &[(u32, f64)], costs: &[u32], demands: &[f64], spreads: &[Spread]) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (capacity, refill) in limits {
        for cost in costs.iter().filter(|cost| *cost <= capacity) {
            for demand in demands {
                for spread in spreads {
                    flows.push(Flow {
                        capacity: *capacity,
                        refill: *refill,
                        cost: *cost,
                        demand: *demand,
                        spread: *spread,
                    });
                }
            }
        }
    }
    flows
}

const SPREADS: [Spread; 3] = [Spread::Even, Spread::Skewed, Spread::One];

// Steady load.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_up_to_1000_a_second_hold_in_every_window_whatever_is_asked_of_them() {
    let _turn = TURN.lock().await;
    let cluster = Cluster::start().await;
    let limits = [(2, 1.0), (20, 10.0), (100, 50.0), (1_000, 500.0)];
    let flows = flows(&limits, &[1, 5], &[0.5, 1.5, 4.0], &SPREADS);

    let records = cluster.run(&flows, Duration::from_secs(6)).await;

    for (flow, record) in flows.iter().zip(&records) {
        record.check();
        record.check_used();
        if flow.demand < 1.0 {
            let rejected = record.rejected.lock().len();
            assert_eq!(
                rejected, 0,
                "{}: half the limit is asked for",
                record.tenant
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_limits_hold_in_every_window() {
    let _turn = TURN.lock().await;
    let cluster = Cluster::start().await;
    let limits = [(4_000, 2_000.0), (40_000, 20_000.0)];
    for (cost, demand) in [(1, 0.5), (1, 4.0), (5, 1.5)] {
        for spread in SPREADS {
            let flows = flows(&limits, &[cost], &[demand], &[spread]);
            let records = cluster.run(&flows, Duration::from_millis(800)).await;
            for record in records {
                record.check();
                record.check_used();
            }
            cluster.redis.flushall();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_refill_into_a_small_bucket_holds_in_every_window() {
    let _turn = TURN.lock().await;
    let cluster = Cluster::start().await;
    for (cost, demand) in [(1, 0.5), (1, 4.0), (5, 4.0)] {
        let flows = flows(&[(100, 20_000.0)], &[cost], &[demand], &SPREADS);
        for record in cluster.run(&flows, Duration::from_millis(800)).await {
            record.check();
        }
        cluster.redis.flushall();
    }
}

// Bursts.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legal_burst_at_cold_gateways_passes_whole() {
    let _turn = TURN.lock().await;
    let cluster = Cluster::start().await;
    // Capacity, refill, cost, requests.
    let bursts = [
        (20, 1.0 / A_DAY, 1, 15),
        (20, 1.0 / A_DAY, 5, 4),
        (2, 1.0, 1, 1),
        (100, 1.0, 1, 33),
        (100, 1.0, 1, 100),
        (400, 10.0, 1, 133),
        (1_000, 500.0, 1, 333),
        (1_000, 500.0, 5, 66),
        (4_000, 2_000.0, 1, 1_333),
        (40_000, 20_000.0, 1, 13_333),
        (100, 20_000.0, 1, 33),
    ];
    for (capacity, refill, cost, requests) in bursts {
        let name = format!("burst-{capacity}-{refill}-{cost}-{requests}");
        let record = Arc::new(Record::new(&name, capacity, refill, cost));
        let passed = cluster.burst(&record, requests).await;
        assert_eq!(passed, requests, "{name}");
        record.check();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_three_times_the_capacity_at_cold_gateways_gets_the_capacity() {
    let _turn = TURN.lock().await;
    let cluster = Cluster::start().await;
    let bursts = [
        (20, 1),
        (100, 1),
        (100, 5),
        (400, 1),
        (4_000, 1),
        (4_000, 5),
    ];
    for (capacity, cost) in bursts {
        let name = format!("flood-{capacity}-{cost}");
        let record = Arc::new(Record::new(&name, capacity, 1.0 / A_DAY, cost));
        let asked = 3 * capacity as usize / cost as usize;
        let passed = cluster.burst(&record, asked).await;
        let held = record.leased() as usize / cost as usize;
        let all = capacity as usize / cost as usize;
        assert!(
            passed <= all && passed + held >= all,
            "{name}: {passed} passed"
        );
        record.check();
        record.check_used();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_that_hoard_and_then_burst_stay_within_the_bound() {
    let _turn = TURN.lock().await;
    let cluster = Cluster::start().await;
    // Capacity, refill, cost, requests of all gateways a second: enough for leases where there are
    // any, and less than the refill, so that the bucket is full besides.
    let hoards = [
        (100, 50.0, 1, 40.0),
        (1_000, 500.0, 1, 400.0),
        (4_000, 2_000.0, 1, 1_600.0),
        (4_000, 2_000.0, 5, 320.0),
        (40_000, 20_000.0, 1, 3_000.0),
    ];
    for (n, (capacity, refill, cost, rate)) in hoards.into_iter().enumerate() {
        let flow = Flow {
            capacity,
            refill,
            cost,
            demand: rate * f64::from(cost) / refill,
            spread: Spread::Even,
        };
        let load = Arc::clone(&cluster).load(flow, n as u64, Duration::from_millis(700));
        let record = Arc::new(load.await);
        let rejected = record.rejected.lock().len();
        assert_eq!(
            rejected, 0,
            "{}: less than the limit is asked for",
            record.tenant
        );

        let requests = 3 * capacity as usize / cost as usize;
        cluster.burst(&record, requests.min(45_000)).await;
        record.check();
        record.check_used();
    }
}

// The judge itself.

/// The same, window by window.
fn worst_by_trial(record: &[Admission], refill: f64) -> f64 {
    let surely_within = |from: u64, to: u64| {
        let answered = record.iter().filter(|a| a.answered <= to);
        let before = record.iter().filter(|a| a.asked < from);
        let sum = |some: &mut dyn Iterator<Item = &Admission>| {
            some.map(|a| f64::from(a.cost)).sum::<f64>()
        };
        sum(&mut answered.into_iter()) - sum(&mut before.into_iter())
    };
    let mut worst = 0.0_f64;
    for from in record.iter().map(|a| a.asked) {
        for to in record.iter().map(|a| a.answered).filter(|to| *to >= from) {
            let length = (to - from) as f64 / 1e9;
            worst = worst.max(surely_within(from, to) - refill * length);
        }
    }
    worst
}

proptest! {
    #[test]
    fn all_windows_in_one_pass_are_all_windows_one_by_one(
        requests in prop::collection::vec((0_u64..1_000, 0_u64..300, 1_u32..6), 1..40),
        refill in 0.0..100.0_f64,
    ) {
        let record: Vec<Admission> = requests
            .into_iter()
            .map(|(asked, took, cost)| Admission {
                asked: asked * 1_000_000,
                answered: (asked + took) * 1_000_000,
                cost,
            })
            .collect();
        let found = worst(&record, refill).any_window;
        prop_assert!((found - worst_by_trial(&record, refill)).abs() < 1e-6);
    }
}

#[test]
fn one_token_too_many_is_found_wherever_it_is() {
    // Ten at once each second from a bucket of 10/10, which is right, and once one more.
    let at = |second: u64, n: u64| Admission {
        asked: second * 1_000_000_000 + n,
        answered: second * 1_000_000_000 + n + 100,
        cost: 1,
    };
    let mut record: Vec<Admission> = (0..50)
        .flat_map(|second| (0..10).map(move |n| at(second, n)))
        .collect();
    let right = worst(&record, 10.0);
    assert!(right.any_window <= 10.0 + 1e-3, "{right:?}");
    record.push(at(31, 10));
    let wrong = worst(&record, 10.0);
    assert!(wrong.any_window > 10.9, "{wrong:?}");
}
