//! What is asked for, by tenant and route, allowed or not: the demand that several regions share
//! a limit by.
//!
//! A request costs one look-up in a table of atomics that few threads share: no lock, and an
//! allocation only when a pair is met for the first time in a while. The table is bounded, and
//! meant for the busiest pairs alone. While it has room everybody gets a place; the fuller it is,
//! the more a newcomer must have asked for, by a count-min sketch, before it gets one, so that a
//! flood of invented names does not keep a busy tenant out. What was busy last time keeps its place.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ahash::RandomState;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pingora_limits::estimator::Estimator;

use super::clock::Timestamp;
use super::key::BucketKey;

#[cfg(test)]
mod tests;

/// Pairs that are told of.
pub const BUSIEST: usize = 1_000;
/// Tables that threads are spread over.
const TABLES: usize = 8;
/// Places in one of them. More than twice what is told of, so that newcomers find room beside all
/// that keep theirs.
const PLACES: usize = 4_096;
/// Places that are searched for one pair.
const PROBES: usize = 8;
/// Of the sketch: half a MiB.
const HASHES: usize = 4;
const SLOTS: usize = 16_384;
/// A newcomer is told from what the sketch mixes up with it by being above so many times the mean.
const ABOVE_MEAN: u64 = 4;

/// One pair's demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Demanded {
    /// Who asked.
    pub tenant: Box<str>,
    /// For what.
    pub route: Box<str>,
    /// Tokens asked for in a second.
    pub tokens_per_second: f64,
    /// Tokens that the limit as a whole, over all regions, gives in a second.
    pub refill_per_second: f64,
}

/// Counts demand.
pub struct Demand {
    current: ArcSwap<Count>,
    hasher: RandomState,
    /// When the current count began; one reader at a time.
    since: Mutex<Timestamp>,
}

/// What was counted since the last reading.
struct Count {
    tables: Box<[Table]>,
    /// What pairs without a place asked for, and all of them together.
    newcomers: Estimator,
    unplaced: AtomicU64,
}

struct Table {
    places: Box<[Place]>,
}

#[derive(Default)]
struct Place {
    /// The pair's hash; 0: free.
    tag: AtomicU64,
    tokens: AtomicU64,
    /// The bits of the whole limit's refill.
    refill: AtomicU64,
    name: OnceLock<Name>,
}

type Name = Arc<(Box<str>, Box<str>)>;

impl Demand {
    /// Nothing was asked for until `now`.
    pub fn new(now: Timestamp) -> Self {
        Self {
            current: ArcSwap::from_pointee(Count::new()),
            hasher: RandomState::new(),
            since: Mutex::new(now),
        }
    }

    /// Counts one request of `cost` tokens, whatever is decided on it. `refill_per_second` is that
    /// of the whole limit.
    pub fn asked(&self, key: &BucketKey<'_>, refill_per_second: f64, cost: u32) {
        let tag = self.tag(key);
        let count = self.current.load();
        let table = &count.tables[table_of_this_thread()];
        let tokens = u64::from(cost);
        if let Some(place) = table.find(tag) {
            place.count(tokens, refill_per_second);
            return;
        }
        let threshold = table.threshold(tag);
        if threshold > 0 {
            let mean = count.unplaced.fetch_add(tokens, Ordering::Relaxed) / SLOTS as u64;
            let least = threshold.max(ABOVE_MEAN * mean);
            let cost = isize::try_from(cost).unwrap_or(isize::MAX);
            let estimate = count.newcomers.incr(tag, cost);
            if u64::try_from(estimate).is_ok_and(|estimate| estimate < least) {
                return;
            }
        }
        let name = || Arc::new((key.tenant.into(), key.route.into()));
        if let Some(place) = table.take(tag, name) {
            place.count(tokens, refill_per_second);
        }
    }

    /// What the busiest pairs asked for since the last reading, and begins to count anew.
    pub fn read(&self, now: Timestamp) -> Vec<Demanded> {
        let mut since = self.since.lock();
        let elapsed = now.since(*since).max(Duration::from_millis(1));
        *since = now;
        let old = self.current.load_full();
        let busiest = old.busiest();
        // What is counted on the old tables from here on is lost: the requests of a moment.
        let next = Count::new();
        for (tag, counted) in &busiest {
            for table in &next.tables {
                if let Some(place) = table.take(*tag, || Arc::clone(&counted.name)) {
                    place.refill.store(counted.refill, Ordering::Relaxed);
                }
            }
        }
        self.current.store(Arc::new(next));
        let seconds = elapsed.as_secs_f64();
        let demanded = busiest.into_iter().map(|(_, counted)| Demanded {
            tenant: counted.name.0.clone(),
            route: counted.name.1.clone(),
            tokens_per_second: counted.tokens as f64 / seconds,
            refill_per_second: f64::from_bits(counted.refill),
        });
        demanded.collect()
    }

    /// Never 0. Secret seeds: nobody can make two pairs meet.
    fn tag(&self, key: &BucketKey<'_>) -> u64 {
        self.hasher.hash_one(key).max(1)
    }
}

struct Counted {
    name: Name,
    tokens: u64,
    refill: u64,
}

impl Count {
    fn new() -> Self {
        let table = || Table {
            places: (0..PLACES).map(|_| Place::default()).collect(),
        };
        Self {
            tables: (0..TABLES).map(|_| table()).collect(),
            newcomers: Estimator::new(HASHES, SLOTS),
            unplaced: AtomicU64::new(0),
        }
    }

    /// The busiest pairs of all tables together, busiest first.
    fn busiest(&self) -> Vec<(u64, Counted)> {
        let mut all: HashMap<u64, Counted> = HashMap::new();
        for place in self.tables.iter().flat_map(|table| table.places.iter()) {
            // One whose name is not there yet was taken this very moment.
            let Some(name) = place.name.get() else {
                continue;
            };
            let tokens = place.tokens.load(Ordering::Relaxed);
            if tokens == 0 {
                continue;
            }
            let refill = place.refill.load(Ordering::Relaxed);
            all.entry(place.tag.load(Ordering::Relaxed))
                .and_modify(|counted| counted.tokens += tokens)
                .or_insert_with(|| Counted {
                    name: Arc::clone(name),
                    tokens,
                    refill,
                });
        }
        let mut busiest: Vec<(u64, Counted)> = all.into_iter().collect();
        busiest.sort_unstable_by_key(|(_, counted)| std::cmp::Reverse(counted.tokens));
        busiest.truncate(BUSIEST);
        busiest
    }
}

impl Table {
    fn probed(&self, tag: u64) -> &[Place] {
        // The tag is a hash: any bits of it do.
        let set = (tag >> 20) as usize % (PLACES / PROBES);
        &self.places[set * PROBES..(set + 1) * PROBES]
    }

    fn find(&self, tag: u64) -> Option<&Place> {
        let mut places = self.probed(tag).iter();
        places.find(|place| place.tag.load(Ordering::Acquire) == tag)
    }

    /// A place for a pair that has none, unless there is none left for it.
    fn take(&self, tag: u64, name: impl Fn() -> Name) -> Option<&Place> {
        for place in self.probed(tag) {
            let taken = place
                .tag
                .compare_exchange(0, tag, Ordering::AcqRel, Ordering::Acquire);
            match taken {
                Ok(_) => {
                    place.name.get_or_init(name);
                    return Some(place);
                }
                Err(other) if other == tag => return Some(place),
                Err(_) => {}
            }
        }
        None
    }

    /// Tokens that a newcomer must have asked for, by how many places are left for it.
    fn threshold(&self, tag: u64) -> u64 {
        let places = self.probed(tag).iter();
        let free = places.filter(|place| place.tag.load(Ordering::Relaxed) == 0);
        match free.count() {
            0 => u64::MAX,
            1 => 512,
            2 => 128,
            3 | 4 => 16,
            _ => 0,
        }
    }
}

impl Place {
    fn count(&self, tokens: u64, refill: f64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
        let refill = refill.to_bits();
        if self.refill.load(Ordering::Relaxed) != refill {
            self.refill.store(refill, Ordering::Relaxed);
        }
    }
}

/// Threads are numbered as they come, so that those of one pool lie in different tables.
fn table_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static TABLE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    TABLE.with(|table| {
        if table.get() == usize::MAX {
            table.set(NEXT.fetch_add(1, Ordering::Relaxed) % TABLES);
        }
        table.get()
    })
}
