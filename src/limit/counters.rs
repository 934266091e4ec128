//! What the limiter counts of itself, in plain atomics.
//!
//! Nothing here knows Prometheus: whoever exports metrics reads these when it is asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::decision::Source;

/// Upper bounds of the latency histograms' buckets, in nanoseconds: 1 µs to 25 ms. One more
/// bucket, without a bound, follows.
pub const LATENCY_BOUNDS_NANOS: [u64; 14] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 25_000_000,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds one, and gives the number before.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds several.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A distribution of durations over [`LATENCY_BOUNDS_NANOS`].
#[derive(Debug, Default)]
pub struct Latencies {
    buckets: [AtomicU64; LATENCY_BOUNDS_NANOS.len() + 1],
    sum_nanos: AtomicU64,
}

impl Latencies {
    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        self.observe_many(duration, 1);
    }

    /// Counts one duration for several, of which only this one was timed.
    pub fn observe_many(&self, duration: Duration, times: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_NANOS.partition_point(|bound| *bound < nanos);
        self.buckets[bucket].fetch_add(times, Ordering::Relaxed);
        let sum = nanos.saturating_mul(times);
        self.sum_nanos.fetch_add(sum, Ordering::Relaxed);
    }

    /// How many durations fell into each bucket (not cumulative), the one without a bound last.
    pub fn counts(&self) -> [u64; LATENCY_BOUNDS_NANOS.len() + 1] {
        std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed))
    }

    /// All durations together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed))
    }
}

/// How calls to a shared store ended.
#[derive(Debug, Default)]
pub struct CallCounters {
    /// Answered; a take, with what the requests needed.
    pub ok: Counter,
    /// It granted less: the bucket is empty.
    pub short: Counter,
    /// The store refused, or the connection broke.
    pub error: Counter,
    /// No answer within the budget.
    pub timeout: Counter,
}

/// What is counted of each node of a shared store.
#[derive(Debug, Default)]
pub struct NodeCounters {
    /// Answers that came after the budget.
    pub late: Counter,
    /// Times that the breaker opened.
    pub opened: Counter,
    /// Times that a first probe was fine.
    pub half_opened: Counter,
    /// Times that the breaker closed.
    pub closed: Counter,
    /// Probes.
    pub probes: CallCounters,
}

/// Tokens that were spent without the store.
#[derive(Debug, Default)]
pub struct DebtCounters {
    /// Let through by this gateway's share.
    pub recorded: Counter,
    /// Sent to the store along with a take.
    pub posted: Counter,
    /// Paid by a grant that came too late for its request.
    pub cancelled: Counter,
}

/// What became of tokens that were taken beforehand.
#[derive(Debug, Default)]
pub struct LeaseCounters {
    /// Brought by calls beyond what their requests needed.
    pub granted: Counter,
    /// Spent by requests, or on what the store was owed.
    pub spent: Counter,
    /// Back in the store.
    pub returned: Counter,
    /// Lost: the store did not take them back, or nobody knows whether it did.
    pub expired: Counter,
}

impl LeaseCounters {
    /// Those that are still here, or on their way back.
    pub fn held(&self) -> u64 {
        let gone = [&self.spent, &self.returned, &self.expired];
        // Read one after the other, so that the sum may be ahead by a moment.
        let gone = gone.into_iter().map(Counter::get).sum();
        self.granted.get().saturating_sub(gone)
    }
}

/// All that a limiter counts, but for what it counts of each node.
#[derive(Debug, Default)]
pub struct Counters {
    /// Decided by tokens at hand.
    pub lease: Counter,
    /// Rejected by what the store said before.
    pub denied: Counter,
    /// Decided by the shared store.
    pub store: Counter,
    /// Decided by this gateway's own share.
    pub fallback: Counter,
    /// Decided by a bucket that lives here by configuration.
    pub memory: Counter,
    /// Time from the question to the decision.
    pub decision: Latencies,
    /// Takes that went to a shared store.
    pub takes: CallCounters,
    /// Calls that look whether an empty bucket has more.
    pub polls: CallCounters,
    /// Calls that put tokens back.
    pub give_backs: CallCounters,
    /// Heartbeats.
    pub heartbeats: CallCounters,
    /// Time from a take's start to its answer, however late.
    pub store_call: Latencies,
    /// What the store is owed.
    pub debt: DebtCounters,
    /// What was taken beforehand.
    pub leased: LeaseCounters,
}

impl Counters {
    /// Counts a decision by its source.
    pub(super) fn decided(&self, source: Source, after: Duration) {
        match source {
            Source::Lease => self.lease.increment(),
            Source::Denied => self.denied.increment(),
            Source::Store => self.store.increment(),
            Source::Fallback => self.fallback.increment(),
            Source::Memory => self.memory.increment(),
            // No bucket decided, so none is counted.
            Source::Oversized | Source::Closed => return,
        }
        self.decision.observe(after);
    }
}
