//! A decision from each source that needs no round trip, the parts of one from a lease, and
//! `governor` beside them.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use aforo::limit::instances::Instances;
use aforo::limit::key::Name;
use aforo::limit::keys::Keys;
use aforo::limit::lease::Terms;
use aforo::limit::{
    BucketKey, BucketStore, Clock, Limiter, MonotonicClock, Rule, Settings, Source, Timestamp,
};
use aforo::store::MemoryStore;
use criterion::Criterion;
use governor::{Quota, RateLimiter};
use tokio::runtime::{Builder, Runtime};

use crate::at_once::AtOnce;
use crate::maps::leased;
use crate::measure::cpu_time;

/// The group of whole decisions.
pub const DECISIONS: &str = "decision";
/// The group of their parts.
pub const PARTS: &str = "part";

const ROUTE: &str = "create-order";
const TENANT: &str = "tenant-012345";
/// Names that are asked for in turn, where it is not one.
const MANY: usize = 100_000;
/// So that one is not the neighbour of the one before.
const STRIDE: usize = 7_919;
const GATEWAYS: u32 = 20;
/// So many that a call to the store comes once in a hundred thousand decisions.
const UNLIMITED: u32 = 10_000_000;

/// Whole decisions.
pub fn decisions(criterion: &mut Criterion) {
    let plenty = Rule::new(i32::MAX as u32, 1e9).unwrap();
    // One token in the time that a run takes, and no room for leases.
    let scarce = Rule::new(1, 1e-6).unwrap();
    let one = [TENANT.to_owned()];
    let many = tenants();
    let alone = limiter(AtOnce::Full, UNLIMITED);
    of_limiter(criterion, "lease", &alone, &one, &plenty, Source::Lease);
    let alone = limiter(AtOnce::Full, 50);
    of_limiter(
        criterion,
        "lease, batch 50",
        &alone,
        &one,
        &plenty,
        Source::Lease,
    );
    let denied = limiter(AtOnce::Empty, 50);
    of_limiter(
        criterion,
        "remembered rejection",
        &denied,
        &one,
        &scarce,
        Source::Denied,
    );
    let asked = limiter(AtOnce::Full, 0);
    of_limiter(
        criterion,
        "store that answers at once",
        &asked,
        &one,
        &plenty,
        Source::Store,
    );
    let memory = || limiter(MemoryStore::new(MonotonicClock::new(), 1_000_000), 0);
    of_limiter(
        criterion,
        "memory",
        &memory(),
        &one,
        &plenty,
        Source::Memory,
    );
    of_limiter(
        criterion,
        "memory, rejected",
        &memory(),
        &one,
        &scarce,
        Source::Memory,
    );
    of_limiter(
        criterion,
        "memory, 100,000 keys",
        &memory(),
        &many,
        &plenty,
        Source::Memory,
    );

    let plenty = Quota::per_second(NonZeroU32::new(1_000_000_000).unwrap());
    let scarce = Quota::with_period(Duration::from_secs(1_000_000)).unwrap();
    of_governor(criterion, "governor", plenty, &one);
    of_governor(criterion, "governor, rejected", scarce, &one);
    of_governor(criterion, "governor, 100,000 keys", plenty, &many);
}

/// The parts of a decision from a lease, each with those before it where it needs them.
pub fn parts(criterion: &mut Criterion) {
    let rule = Rule::new(i32::MAX as u32, 1e9).unwrap();
    let terms = Terms {
        rule: &rule,
        instances: GATEWAYS,
        batch: UNLIMITED,
        cost: 1,
    };
    let clock = MonotonicClock::new();
    let keys = Keys::new(Arc::new(Instances::new(GATEWAYS)), 1_000_000);
    let key = bucket(TENANT);
    let id = keys.id(&key);
    let now = clock.now();
    keys.with_new(id, now, |entry| {
        *entry = leased(Name::of(&key), &terms, now)
    });

    let mut group = criterion.benchmark_group(PARTS);
    group.bench_function("clock", |bencher| {
        bencher.iter_custom(|times| on_cpu(times, || clock.now()));
    });
    group.bench_function("hash of the key", |bencher| {
        bencher.iter_custom(|times| on_cpu(times, || keys.id(black_box(&key))));
    });
    group.bench_function("look-up", |bencher| {
        bencher.iter_custom(|times| on_cpu(times, || keys.with(black_box(id), |_| ())));
    });
    group.bench_function("look-up and spend", |bencher| {
        // Time goes on, as it does at ten million decisions a second.
        let mut at = now;
        let mut spend = || {
            at = Timestamp::from_nanos(at.as_nanos() + 100);
            keys.with(black_box(id), |entry| crate::maps::spend(entry, &terms, at))
        };
        bencher.iter_custom(|times| on_cpu(times, &mut spend));
    });
    group.bench_function("demand of a cold key", |bencher| {
        bencher.iter_custom(|times| on_cpu(times, || keys.demand(black_box(id), &terms, now)));
    });
    group.finish();
}

fn of_limiter<S: BucketStore>(
    criterion: &mut Criterion,
    name: &str,
    limiter: &Limiter<S>,
    tenants: &[String],
    rule: &Rule,
    source: Source,
) {
    let runtime = current_thread();
    // Until the key is known, and hot.
    let mut last = None;
    for tenant in tenants.iter().cycle().take(tenants.len() + 100) {
        let decision = runtime.block_on(limiter.decide(&bucket(tenant), rule, 1));
        last = Some(decision.source);
    }
    assert_eq!(last, Some(source), "{name}");
    let mut group = criterion.benchmark_group(DECISIONS);
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            runtime.block_on(async {
                let mut at = 0;
                let start = cpu_time();
                for _ in 0..times {
                    at = next(at, tenants.len());
                    let key = bucket(black_box(&tenants[at]));
                    black_box(limiter.decide(&key, rule, 1).await);
                }
                cpu_time() - start
            })
        });
    });
    group.finish();
}

fn of_governor(criterion: &mut Criterion, name: &str, quota: Quota, tenants: &[String]) {
    // It takes one key, not a pair: joined beforehand, in its favour.
    let keys: Vec<String> = tenants
        .iter()
        .map(|tenant| format!("{tenant}:{ROUTE}"))
        .collect();
    let limiter = RateLimiter::dashmap(quota);
    for key in &keys {
        let _ = limiter.check_key(key);
    }
    let mut group = criterion.benchmark_group(DECISIONS);
    group.bench_function(name, |bencher| {
        let mut at = 0;
        let mut check = || {
            at = next(at, keys.len());
            limiter.check_key(black_box(&keys[at])).is_ok()
        };
        bencher.iter_custom(|times| on_cpu(times, &mut check));
    });
    group.finish();
}

/// The time that it takes to do something so many times.
pub fn on_cpu<T>(times: u64, mut what: impl FnMut() -> T) -> Duration {
    let start = cpu_time();
    for _ in 0..times {
        black_box(what());
    }
    cpu_time() - start
}

/// The index after `at` of a walk that meets each of so many.
pub fn next(at: usize, of: usize) -> usize {
    (at + STRIDE) % of
}

fn tenants() -> Vec<String> {
    (0..MANY).map(|n| format!("tenant-{n:06}")).collect()
}

fn bucket(tenant: &str) -> BucketKey<'_> {
    BucketKey {
        tenant,
        route: ROUTE,
    }
}

fn limiter<S: BucketStore>(store: S, batch: u32) -> Limiter<S> {
    let settings = Settings {
        instances: GATEWAYS,
        batch,
        ..Settings::default()
    };
    Limiter::new(store, MonotonicClock::new(), settings)
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
