//! Many buckets in this process: what the memory store and the fallback are made of.
//!
//! The table is bounded. A bucket that is full again is as good as forgotten and makes room; when
//! no bucket is, keys that are new share one overflow bucket per rule, so that a flood of invented
//! keys costs neither memory nor the buckets of those who were there before.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::bucket::{Ask, Bucket, Grant};
use super::clock::Timestamp;
use super::key::BucketKey;
use super::rule::Rule;
use super::table::{Entry, Table};

#[cfg(test)]
mod tests;

/// How often a full part of the table is searched for buckets that are full again, at most.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A bounded table of buckets.
pub struct LocalBuckets {
    table: Table<Slot>,
    /// What keys beyond the bound share: one bucket for each rule.
    overflow: Mutex<HashMap<[u64; 2], Bucket>>,
}

struct Slot {
    bucket: Bucket,
    /// From then on the slot may be reused.
    full_at: Timestamp,
}

impl Entry for Slot {
    fn may_be_forgotten(&self, now: Timestamp) -> bool {
        self.full_at <= now
    }
}

impl LocalBuckets {
    /// An empty table for at most `max` buckets (rounded up to a multiple of its parts).
    pub fn new(max: usize) -> Self {
        Self {
            table: Table::new(max, SWEEP_EVERY),
            overflow: Mutex::new(HashMap::new()),
        }
    }

    /// How many buckets are held.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no bucket is held.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Asks the bucket of `key`, which begins as [`Bucket::new`] has it.
    pub fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask, now: Timestamp) -> Grant {
        let begin = || Slot {
            bucket: Bucket::new(rule, ask.seed, now),
            full_at: now,
        };
        let id = self.table.id(key);
        self.table
            .with_new(id, now, begin, |slot| slot.take(rule, ask, now))
            .unwrap_or_else(|| self.take_from_overflow(rule, ask, now))
    }

    /// Puts tokens back into the bucket of `key`, where there is one. Says how many it took.
    pub fn give_back(
        &self,
        key: &BucketKey<'_>,
        rule: &Rule,
        tokens: u32,
        now: Timestamp,
    ) -> Grant {
        let given = self.table.with(self.table.id(key), |slot| {
            let grant = slot.bucket.give_back(rule, tokens, now);
            slot.full_at = slot.bucket.full_at(rule);
            grant
        });
        given.unwrap_or(Grant {
            granted: 0,
            level: rule.capacity,
            wait: Duration::ZERO,
        })
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
