//! A bounded table of what is kept for each key.
//!
//! Many locks, each over a part of the keys: no two requests meet unless their keys share a part,
//! and what is done under a lock is arithmetic. Entries of which nothing is lost make room for
//! others; where none is, a new key finds no place, and those who were there before keep theirs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;

use super::clock::Timestamp;
use super::key::BucketKey;

#[cfg(test)]
mod tests;

/// Parts that a small table has: enough that two cores seldom meet.
const MIN_PARTS: usize = 64;
/// Entries of a part, at most. What a map of 4,096 places takes before it doubles: so a full table
/// wastes least, and looking through a part for room is short.
const MAX_PER_PART: usize = 3_584;
/// A part that fills what it has room for, from this many entries on, takes all the room that it
/// may ever need: the maps of half and a quarter of the size that it would leave behind on its way
/// are of no use to anybody, and took a third of a full table's memory.
const ALL_AT_ONCE: usize = 448;

/// A key in 128 bits, by two hashes with secret seeds. That two keys meet is far less likely than
/// a broken machine, nobody can make them meet, and no name need be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u64; 2]);

/// What a table can hold.
pub trait Entry {
    /// Whether nothing is lost by forgetting it.
    fn may_be_forgotten(&self, now: Timestamp) -> bool;
}

/// The table.
pub struct Table<T> {
    parts: Box<[Mutex<Part<T>>]>,
    hashers: [RandomState; 2],
    /// Entries that one part may hold.
    per_part: usize,
    /// How often a full part is searched for room, at most.
    sweep_every: Duration,
    len: AtomicUsize,
}

struct Part<T> {
    entries: HashMap<KeyId, T, BuildHasherDefault<Hashed>>,
    next_sweep: Timestamp,
}

/// A key's hash is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hash for KeyId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl KeyId {
    /// A hash of the key, for whoever needs no more than that.
    pub fn short(self) -> u64 {
        self.0[0]
    }
}

impl<T: Entry> Table<T> {
    /// An empty table for at most `max` entries (rounded up to a multiple of its parts).
    pub fn new(max: usize, sweep_every: Duration) -> Self {
        let parts = max.div_ceil(MAX_PER_PART).max(MIN_PARTS);
        let part = || {
            Mutex::new(Part {
                entries: HashMap::default(),
                next_sweep: Timestamp::default(),
            })
        };
        Self {
            parts: (0..parts).map(|_| part()).collect(),
            hashers: [RandomState::new(), RandomState::new()],
            per_part: max.div_ceil(parts).max(1),
            sweep_every,
            len: AtomicUsize::new(0),
        }
    }

    /// Names a key, for all that follows.
    pub fn id(&self, key: &BucketKey<'_>) -> KeyId {
        KeyId([&self.hashers[0], &self.hashers[1]].map(|hasher| hasher.hash_one(key)))
    }

    /// How many entries are held.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Works on the entry of `id`, if there is one.
    pub fn with<R>(&self, id: KeyId, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.part(id).lock().entries.get_mut(&id).map(work)
    }

    /// Works on the entry of `id`, made now if there is room for it.
    pub fn with_new<R>(
        &self,
        id: KeyId,
        now: Timestamp,
        make: impl FnOnce() -> T,
        work: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let mut part = self.part(id).lock();
        if let Some(entry) = part.entries.get_mut(&id) {
            return Some(work(entry));
        }
        if !self.make_room(&mut part, now) {
            return None;
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        Some(work(part.entries.entry(id).or_insert_with(make)))
    }

    /// Works on every entry, one part after the other.
    pub fn for_each(&self, mut work: impl FnMut(KeyId, &mut T)) {
        for part in &self.parts {
            for (id, entry) in &mut part.lock().entries {
                work(*id, entry);
            }
        }
    }

    /// Whether one more entry fits, after dropping those that may be forgotten.
    fn make_room(&self, part: &mut Part<T>, now: Timestamp) -> bool {
        let len = part.entries.len();
        if len < self.per_part {
            if len >= ALL_AT_ONCE && len == part.entries.capacity() {
                part.entries.reserve(self.per_part - len);
            }
            return true;
        }
        if now < part.next_sweep {
            return false;
        }
        part.next_sweep = now + self.sweep_every;
        let before = part.entries.len();
        part.entries.retain(|_, entry| !entry.may_be_forgotten(now));
        let dropped = before - part.entries.len();
        self.len.fetch_sub(dropped, Ordering::Relaxed);
        dropped > 0
    }

    fn part(&self, id: KeyId) -> &Mutex<Part<T>> {
        // The upper bits of the second hash, stretched over the parts: less than their number.
        let place = (u128::from(id.0[1]) * self.parts.len() as u128) >> 64;
        &self.parts[place as usize]
    }
}
