//! Many buckets in this process: what the memory store and the fallback are made of.
//!
//! The table is bounded. A bucket that is full again is as good as forgotten and makes room; when
//! no bucket is, keys that are new share one overflow bucket per rule, so that a flood of invented
//! keys costs neither memory nor the buckets of those who were there before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;

use super::bucket::{Ask, Bucket, Grant};
use super::clock::Timestamp;
use super::key::BucketKey;
use super::rule::Rule;

#[cfg(test)]
mod tests;

/// Locks that the keys are spread over.
const SHARDS: usize = 64;

/// How often a full shard is searched for buckets that are full again, at most.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A bounded table of buckets.
pub struct LocalBuckets {
    shards: Box<[Mutex<Shard>]>,
    /// Two hashes with secret seeds name a key in 128 bits. That two keys meet is then far less
    /// likely than a broken machine, nobody can make them meet, and no name need be stored.
    hashers: [RandomState; 2],
    /// Buckets that one shard may hold.
    per_shard: usize,
    len: AtomicUsize,
    /// What keys beyond the bound share: one bucket for each rule.
    overflow: Mutex<HashMap<[u64; 2], Bucket>>,
}

struct Shard {
    buckets: HashMap<u128, Slot, RandomState>,
    next_sweep: Timestamp,
}

struct Slot {
    bucket: Bucket,
    /// From then on the slot may be reused.
    full_at: Timestamp,
}

impl LocalBuckets {
    /// An empty table for at most `max` buckets (rounded up to a multiple of its shards).
    pub fn new(max: usize) -> Self {
        let shards = (0..SHARDS)
            .map(|_| {
                Mutex::new(Shard {
                    buckets: HashMap::default(),
                    next_sweep: Timestamp::default(),
                })
            })
            .collect();
        Self {
            shards,
            hashers: [RandomState::new(), RandomState::new()],
            per_shard: max.div_ceil(SHARDS).max(1),
            len: AtomicUsize::new(0),
            overflow: Mutex::new(HashMap::new()),
        }
    }

    /// How many buckets are held.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no bucket is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks the bucket of `key`, which begins as [`Bucket::new`] has it.
    pub fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask, now: Timestamp) -> Grant {
        let [low, high] = [&self.hashers[0], &self.hashers[1]].map(|hasher| hasher.hash_one(key));
        let id = u128::from(high) << 64 | u128::from(low);
        // The map inside uses the low bits; the shard is chosen by the high ones.
        let mut shard = self.shards[(high >> 32) as usize % SHARDS].lock();
        if let Some(slot) = shard.buckets.get_mut(&id) {
            return slot.take(rule, ask, now);
        }
        if !self.make_room(&mut shard, now) {
            drop(shard);
            return self.take_from_overflow(rule, ask, now);
        }
        let mut slot = Slot {
            bucket: Bucket::new(rule, ask.seed, now),
            full_at: now,
        };
        let grant = slot.take(rule, ask, now);
        shard.buckets.insert(id, slot);
        self.len.fetch_add(1, Ordering::Relaxed);
        grant
    }

    /// Whether one more bucket fits, after dropping those that are full again.
    fn make_room(&self, shard: &mut Shard, now: Timestamp) -> bool {
        if shard.buckets.len() < self.per_shard {
            return true;
        }
        if now < shard.next_sweep {
            return false;
        }
        shard.next_sweep = now + SWEEP_EVERY;
        let before = shard.buckets.len();
        shard.buckets.retain(|_, slot| slot.full_at > now);
        let dropped = before - shard.buckets.len();
        self.len.fetch_sub(dropped, Ordering::Relaxed);
        dropped > 0
    }

    /// All keys that do not fit share their rule's one bucket. It holds a second's worth, for it
    /// stands for nobody in particular.
    fn take_from_overflow(&self, rule: &Rule, ask: &Ask, now: Timestamp) -> Grant {
        let capacity = rule
            .capacity
            .min(rule.refill_per_second)
            .max(f64::from(ask.cost));
        let shared = Rule { capacity, ..*rule };
        let id = [rule.capacity.to_bits(), rule.refill_per_second.to_bits()];
        self.overflow
            .lock()
            .entry(id)
            .or_insert_with(|| Bucket::new(&shared, None, now))
            .take(&shared, ask, now)
    }
}

impl Slot {
    fn take(&mut self, rule: &Rule, ask: &Ask, now: Timestamp) -> Grant {
        let grant = self.bucket.take(rule, ask, now);
        self.full_at = self.bucket.full_at(rule);
        grant
    }
}
