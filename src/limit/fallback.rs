//! This gateway's own share of every limit, for requests that the store does not answer in time,
//! and what has to be remembered for it while the store does.
//!
//! Each key has an [`Account`], in a bounded table of many locks. Accounts of which nothing is lost
//! make room; a key that finds none is held to the gates of [`sketch`](super::sketch), so that a
//! flood of invented keys costs neither memory nor the share of those who were there before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;

use super::account::{Account, Late};
use super::bucket::{Ask, Grant};
use super::clock::Timestamp;
use super::instances::Instances;
use super::key::BucketKey;
use super::rule::Rule;
use super::sketch::Sketch;

#[cfg(test)]
mod tests;

/// Locks that the keys are spread over. So many that searching one part for room is short.
const SHARDS: usize = 256;

/// How often a full part of the table is searched for room, at most.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Calls for one key at once, while all gateways come back to a store at the same moment.
const CALLS_ON_THE_WAY_BACK: u8 = 1;

/// A key in 128 bits, by two hashes with secret seeds. That two keys meet is far less likely than
/// a broken machine, nobody can make them meet, and no name need be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId([u64; 2]);

/// The accounts of this gateway.
pub struct Fallback {
    shards: Box<[Mutex<Shard>]>,
    hashers: [RandomState; 2],
    /// Accounts that one part may hold.
    per_shard: usize,
    len: AtomicUsize,
    /// Made when the first key finds no place: most gateways never need it.
    sketch: OnceLock<Sketch>,
    instances: Arc<Instances>,
}

struct Shard {
    accounts: HashMap<KeyId, Account, RandomState>,
    next_sweep: Timestamp,
}

/// A decision by this gateway's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The decision. Its level is that of the whole bucket, if every gateway had as much left as
    /// this one.
    pub grant: Grant,
    /// Tokens that the store is owed for it.
    pub owed: u32,
}

impl Fallback {
    /// Shares for one of `instances` gateways, in at most `max` accounts (rounded up to a multiple
    /// of the table's parts).
    pub fn new(instances: Arc<Instances>, max: usize) -> Self {
        let shard = || {
            Mutex::new(Shard {
                accounts: HashMap::default(),
                next_sweep: Timestamp::default(),
            })
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hashers: [RandomState::new(), RandomState::new()],
            per_shard: max.div_ceil(SHARDS).max(1),
            len: AtomicUsize::new(0),
            sketch: OnceLock::new(),
            instances,
        }
    }

    /// How many accounts are held.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no account is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names a key, for all that follows.
    pub fn id(&self, key: &BucketKey<'_>) -> KeyId {
        KeyId([&self.hashers[0], &self.hashers[1]].map(|hasher| hasher.hash_one(key)))
    }

    /// What to ask the store for one request of `cost`: what is owed goes along, and what the
    /// bucket begins with if the store has lost it. Must be followed by one of [`Fallback::heard`],
    /// [`Fallback::heard_late`], [`Fallback::refused`] and [`Fallback::lost`].
    pub fn ask(&self, id: KeyId, rule: &Rule, cost: u32, post: bool, now: Timestamp) -> Ask {
        let n = self.instances.get();
        self.with(id, |account| account.ask(rule, n, cost, post, now))
            .unwrap_or_else(|| Ask::one(cost))
    }

    /// Whether enough calls for this key are under way, of those that come back to a store.
    pub fn is_on_the_way_back(&self, id: KeyId) -> bool {
        self.with(id, |account| account.calls() >= CALLS_ON_THE_WAY_BACK)
            .unwrap_or(false)
    }

    /// Notes the store's answer for a request that still waited for it. `back` is false while the
    /// share goes on beside the store.
    pub fn heard(&self, id: KeyId, rule: &Rule, grant: &Grant, back: bool, now: Timestamp) {
        let n = self.instances.get();
        self.with_new(id, now, |account| account.heard(rule, n, grant, back, now));
    }

    /// Notes the store's answer for a request that was decided without it, or that is gone.
    pub fn heard_late(&self, id: KeyId, rule: &Rule, grant: &Grant, now: Timestamp) -> Late {
        let n = self.instances.get();
        self.with_new(id, now, |account| account.heard_late(rule, n, grant, now))
            .unwrap_or_default()
    }

    /// Notes a call that certainly took nothing: the debt that it carried is still owed.
    pub fn refused(&self, id: KeyId, debt: u32, now: Timestamp) {
        self.with(id, |account| account.refused(debt, now));
    }

    /// Notes a call of which nobody knows what it did. Its debt is gone, for it may have arrived.
    pub fn lost(&self, id: KeyId) {
        self.with(id, Account::ended);
    }

    /// Takes one request from this gateway's share before the store is asked for it, if it has
    /// decided by that share until now. The store is charged, so that nothing is owed for it.
    pub fn take_beside(&self, id: KeyId, rule: &Rule, cost: u32, now: Timestamp) -> Option<Grant> {
        let n = self.instances.get();
        self.with(id, |account| account.take_beside(rule, n, cost, now))
            .flatten()
    }

    /// Asks this gateway's share for one request.
    pub fn take(&self, id: KeyId, rule: &Rule, cost: u32, now: Timestamp) -> Share {
        let n = self.instances.get();
        let of_account = self.with_new(id, now, |account| account.take(rule, n, cost, now));
        let (grant, owed) = of_account.unwrap_or_else(|| {
            let share = rule.share(n, cost);
            let sketch = self.sketch.get_or_init(Sketch::new);
            (sketch.take(id.0[0], rule, &share, cost, now), 0)
        });
        Share { grant, owed }
    }

    fn shard(&self, id: KeyId) -> &Mutex<Shard> {
        // The map inside hashes anew, with seeds of its own.
        &self.shards[id.0[1] as usize % SHARDS]
    }

    /// Works on the account of `id`, if there is one.
    fn with<T>(&self, id: KeyId, work: impl FnOnce(&mut Account) -> T) -> Option<T> {
        self.shard(id).lock().accounts.get_mut(&id).map(work)
    }

    /// Works on the account of `id`, opened now if there is room for it.
    fn with_new<T>(
        &self,
        id: KeyId,
        now: Timestamp,
        work: impl FnOnce(&mut Account) -> T,
    ) -> Option<T> {
        let mut shard = self.shard(id).lock();
        if let Some(account) = shard.accounts.get_mut(&id) {
            return Some(work(account));
        }
        if !self.make_room(&mut shard, now) {
            return None;
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        Some(work(shard.accounts.entry(id).or_insert(Account::new(now))))
    }

    /// Whether one more account fits, after dropping those that may be forgotten.
    fn make_room(&self, shard: &mut Shard, now: Timestamp) -> bool {
        if shard.accounts.len() < self.per_shard {
            return true;
        }
        if now < shard.next_sweep {
            return false;
        }
        shard.next_sweep = now + SWEEP_EVERY;
        let before = shard.accounts.len();
        shard
            .accounts
            .retain(|_, account| !account.may_be_forgotten(now));
        let dropped = before - shard.accounts.len();
        self.len.fetch_sub(dropped, Ordering::Relaxed);
        dropped > 0
    }
}
