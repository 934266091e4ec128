//! What a decision allocates where it asks nobody: nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../load/at_once.rs"]
mod at_once;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aforo::limit::{
    Ask, BucketKey, BucketStore, Call, Decision, Limiter, ManualClock, Rule, Settings, Source,
};
use aforo::store::MemoryStore;
use allocation_counter::measure;
use at_once::AtOnce;
use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};

const KEY: BucketKey<'_> = BucketKey {
    tenant: "shop-a",
    route: "create-order",
};
const DECISIONS: usize = 1_000;

/// Counts the takes that it is asked for.
struct Counting {
    store: AtOnce,
    takes: AtomicUsize,
}

impl BucketStore for Counting {
    fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        self.takes.fetch_add(1, Ordering::Relaxed);
        self.store.take(key, rule, ask)
    }

    fn give_back(&self, key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        self.store.give_back(key, rule, tokens)
    }

    fn is_local(&self) -> bool {
        self.store.is_local()
    }
}

/// A limiter, its clock, and a decision each millisecond.
struct Asked<S> {
    limiter: Limiter<S, ManualClock>,
    clock: ManualClock,
    runtime: Runtime,
    rule: Rule,
}

impl<S: BucketStore> Asked<S> {
    fn new(store: impl FnOnce(ManualClock) -> S, rule: Rule) -> Self {
        let clock = ManualClock::default();
        let settings = Settings {
            instances: 20,
            ..Settings::default()
        };
        Self {
            limiter: Limiter::new(store(clock.clone()), clock.clone(), settings),
            clock,
            runtime: Builder::new_current_thread().enable_all().build().unwrap(),
            rule,
        }
    }

    /// The next decision, and how often it allocated.
    fn next(&self) -> (Decision, u64) {
        self.clock.advance(Duration::from_millis(1));
        let _within = self.runtime.enter();
        let mut decision = None;
        let allocated = measure(|| {
            decision = self.limiter.decide(&KEY, &self.rule, 1).now_or_never();
        });
        (decision.expect("decided at once"), allocated.count_total)
    }
}

/// A thousand requests a second; one in forty or so makes a call in the background, and that has a
/// request of its own to write. All others allocate nothing.
#[test]
fn a_decision_from_a_lease_allocates_nothing() {
    let counting = |_| Counting {
        store: AtOnce::Full,
        takes: AtomicUsize::new(0),
    };
    let asked = Asked::new(counting, Rule::new(1_000_000, 1_000_000.0).unwrap());
    let takes = || asked.limiter.store().takes.load(Ordering::Relaxed);
    for _ in 0..100 {
        asked.next();
    }
    let begun = takes();
    for n in 0..DECISIONS {
        let before = takes();
        let (decision, allocated) = asked.next();
        assert_eq!(decision.source, Source::Lease, "decision {n}");
        if takes() == before {
            assert_eq!(allocated, 0, "decision {n}");
        } else {
            assert!(allocated > 0, "the counting of allocations works");
        }
    }
    let calls = takes() - begun;
    assert!((10..=30).contains(&calls), "{calls} calls");
}

#[test]
fn a_decision_in_memory_allocates_nothing_once_the_key_is_known() {
    let memory = |clock| MemoryStore::new(clock, 1_000);
    let asked = Asked::new(memory, Rule::new(100, 100.0).unwrap());
    let (_, first) = asked.next();
    assert!(first > 0, "the first of a key makes room for it");
    let mut rejected = 0;
    for n in 0..DECISIONS {
        let (decision, allocated) = asked.next();
        assert_eq!(decision.source, Source::Memory);
        assert_eq!(allocated, 0, "decision {n}");
        rejected += usize::from(!decision.allowed);
    }
    assert!(rejected > 0, "rejections are among them");
}
