//! What this gateway keeps of the keys whose buckets live elsewhere: an [`Entry`] for each, in a
//! bounded table, and what has to do for keys that find no place there.
//!
//! A flood of invented keys costs neither memory nor what is known of those who were there before.
//! What this gateway lets through by itself is in [`fallback`](super::fallback).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::clock::Timestamp;
use super::entry::Entry;
use super::hot::HotKeys;
use super::instances::Instances;
use super::key::BucketKey;
use super::lease::Terms;
use super::sketch::Sketch;
use super::table::{KeyId, Table};

#[cfg(test)]
mod tests;

/// How often a full part of the table is searched for room, at most.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// The keys of this gateway.
pub struct Keys {
    table: Table<Entry>,
    /// Which keys are worth a lease.
    hot: HotKeys,
    /// Made when the first key finds no place: most gateways never need it.
    pub(super) sketch: OnceLock<Sketch>,
    pub(super) instances: Arc<Instances>,
}

impl Keys {
    /// The keys of one of `instances` gateways, at most `max` of them (rounded up to a multiple of
    /// the table's parts).
    pub fn new(instances: Arc<Instances>, max: usize) -> Self {
        Self {
            table: Table::new(max, SWEEP_EVERY),
            hot: HotKeys::new(),
            sketch: OnceLock::new(),
            instances,
        }
    }

    /// How many keys have an entry.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Names a key, for all that follows.
    pub fn id(&self, key: &BucketKey<'_>) -> KeyId {
        self.table.id(key)
    }

    /// Works on a key's entry, if it has one.
    pub fn with<R>(&self, id: KeyId, work: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        self.table.with(id, work)
    }

    /// Works on a key's entry, made now if there is room for it.
    pub fn with_new<R>(
        &self,
        id: KeyId,
        now: Timestamp,
        work: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        self.table.with_new(id, now, || Entry::new(now), work)
    }

    /// Works on every entry.
    pub fn for_each(&self, mut work: impl FnMut(KeyId, &mut Entry)) {
        self.table.for_each(|id, entry| work(id, entry));
    }

    /// Counts what a key asks for, and estimates how many tokens that is each second.
    pub fn demand(&self, id: KeyId, terms: &Terms<'_>, now: Timestamp) -> f64 {
        self.hot.observe(id.short(), terms.cost, now)
    }
}
