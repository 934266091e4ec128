//! What a gateway knows of one bucket that lives elsewhere: what the store last said of it, what
//! this gateway has let through by itself since, and its own share of it while it decides alone.
//!
//! Arithmetic only; the [`fallback`](super::fallback) keeps a bounded table of these.
//!
//! What is owed to the store is what the store's bucket would be short of, had it heard of every
//! request. While that bucket fills, each token spent here is one that it has too many. Once it is
//! full it stops, though by rights it would go on: from then on this gateway's share of the refill
//! pays what it owes. So a long outage ends with the bucket where one bucket for all would stand,
//! not with minutes of debt for tenants who never were over their limit.

use std::time::Duration;

use super::bucket::{Ask, Bucket, Grant};
use super::clock::Timestamp;
use super::rule::Rule;

#[cfg(test)]
mod tests;

/// How long a bucket that the store told of is remembered, at least, also if it is full again: its
/// tenant is known, and keeps its place when others crowd in.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// One bucket's account.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// What the store said last: tokens of the whole bucket.
    level: f64,
    /// When it said so; where it never did, when the account was opened.
    level_at: Timestamp,
    /// This gateway's own share, where `on_its_own`.
    share: Bucket,
    /// Tokens spent here that the store does not know of.
    owed: f64,
    /// When `owed` was true.
    owed_at: Timestamp,
    /// The second of the clock from which on it may be forgotten.
    forget_at: u32,
    /// Calls for this bucket under way.
    calls: u8,
    /// Whether the store ever said anything.
    known: bool,
    /// Whether this gateway decides by its share, for it has not heard of the store since.
    on_its_own: bool,
}

impl Account {
    /// An account of which nothing is known.
    pub fn new(now: Timestamp) -> Self {
        Self {
            // The most careful guess: a bucket that is empty takes longest to overflow.
            level: 0.0,
            level_at: now,
            share: Bucket::at_level(0.0, now),
            owed: 0.0,
            owed_at: now,
            forget_at: 0,
            calls: 0,
            known: false,
            on_its_own: false,
        }
    }

    /// What to ask the store for one request of `cost`; what is owed goes along if `post`.
    pub fn ask(
        &mut self,
        rule: &Rule,
        instances: u32,
        cost: u32,
        post: bool,
        now: Timestamp,
    ) -> Ask {
        self.settle(rule, instances, now);
        let mut ask = Ask::one(cost);
        if post && self.owed >= 1.0 {
            // Beyond twice the capacity the store would forgive it anyway.
            let debt = self.owed.min(2.0 * rule.capacity).floor();
            ask.debt = debt as u32;
            self.owed -= debt;
        }
        if self.known {
            // The store takes the debt from it by itself.
            ask.seed = Some((self.refilled(rule, now) - self.owed).max(0.0));
        }
        self.calls = self.calls.saturating_add(1);
        ask
    }

    /// Notes the store's answer to a call whose request still waited. `back` is false while the
    /// share goes on beside the store.
    pub fn heard(
        &mut self,
        rule: &Rule,
        instances: u32,
        grant: &Grant,
        back: bool,
        now: Timestamp,
    ) {
        self.settle(rule, instances, now);
        self.ended();
        self.level = grant.level;
        self.level_at = now;
        self.known = true;
        self.on_its_own &= !back;
        self.remember(rule, instances, now);
    }

    /// Pays what is owed out of tokens that the store granted and nobody needs, in whole tokens.
    /// Says how many of them that took.
    pub fn pay(&mut self, rule: &Rule, instances: u32, tokens: u32, now: Timestamp) -> u32 {
        self.settle(rule, instances, now);
        // At most `tokens`.
        let paid = f64::from(tokens).min(self.owed.floor());
        self.owed -= paid;
        paid as u32
    }

    /// Notes a call that certainly took nothing, its debt of `debt` included.
    pub fn refused(&mut self, debt: u32, now: Timestamp) {
        self.ended();
        if debt > 0 {
            self.owed += f64::from(debt);
            self.owed_at = now;
        }
    }

    /// Takes back a part of the debt that [`Account::ask`] put into a call, for it did not go along.
    pub fn keep_debt(&mut self, debt: u32, now: Timestamp) {
        self.owed += f64::from(debt);
        self.owed_at = now;
    }

    /// Notes a call of which nobody knows what it did.
    pub fn ended(&mut self) {
        self.calls = self.calls.saturating_sub(1);
    }

    /// Calls under way.
    pub fn calls(&self) -> u8 {
        self.calls
    }

    /// Decides one request of `cost` by this gateway's share. Also says how many tokens the store
    /// is owed for it.
    pub fn take(&mut self, rule: &Rule, instances: u32, cost: u32, now: Timestamp) -> (Grant, u32) {
        self.settle(rule, instances, now);
        let n = f64::from(instances);
        let wanted = f64::from(cost);
        let share = rule.share(instances, cost);
        if !self.on_its_own {
            self.on_its_own = true;
            let start = if self.known {
                (self.refilled(rule, now) - self.owed) / n
            } else {
                share.refill_per_second.max(wanted)
            };
            self.share = Bucket::at_level(start.clamp(0.0, share.capacity), now);
        }
        let grant = self.share.take(&share, &Ask::one(cost), now);
        self.owed += f64::from(grant.granted);
        self.owed_at = now;
        self.remember(rule, instances, now);
        (of_whole(&grant, rule, instances), grant.granted)
    }

    /// Takes one request of `cost` from the share before the store is asked for it, if this gateway
    /// decided by its share until now. The store is charged, so that nothing is owed for it.
    pub fn take_beside(
        &mut self,
        rule: &Rule,
        instances: u32,
        cost: u32,
        now: Timestamp,
    ) -> Option<Grant> {
        if !self.on_its_own {
            return None;
        }
        let share = rule.share(instances, cost);
        let grant = self.share.take(&share, &Ask::one(cost), now);
        Some(of_whole(&grant, rule, instances))
    }

    /// Whether nothing is lost by forgetting it.
    pub fn may_be_forgotten(&self, now: Timestamp) -> bool {
        self.calls == 0 && u64::from(self.forget_at) <= now.as_nanos() / 1_000_000_000
    }

    /// What the store said last, as it was said.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The store's bucket now, had nobody touched it since it was last heard of.
    pub fn refilled(&self, rule: &Rule, now: Timestamp) -> f64 {
        let elapsed = now.since(self.level_at).as_secs_f64();
        (self.level + elapsed * rule.refill_per_second).min(rule.capacity)
    }

    /// Brings what is owed up to now.
    fn settle(&mut self, rule: &Rule, instances: u32, now: Timestamp) {
        if self.owed > 0.0 {
            let missing = (rule.capacity - self.level).max(0.0);
            let filling = missing / rule.refill_per_second;
            // A rule so slow that this overflows is never full within anybody's lifetime.
            let full_at = Duration::try_from_secs_f64(filling)
                .map_or(Timestamp::from_nanos(u64::MAX), |time| self.level_at + time);
            let paid_for = now.since(full_at.max(self.owed_at)).as_secs_f64();
            let paid = paid_for * rule.refill_per_second / f64::from(instances);
            self.owed = (self.owed - paid).max(0.0);
            self.owed_at = now;
        }
    }

    /// Keeps it until the bucket is full again and nothing is owed.
    fn remember(&mut self, rule: &Rule, instances: u32, now: Timestamp) {
        let seconds = if self.known {
            let short = rule.capacity - self.refilled(rule, now);
            let owed = self.owed * f64::from(instances);
            ((short + owed) / rule.refill_per_second).max(REMEMBERED_FOR.as_secs_f64())
        } else {
            let full_at = self.share.full_at(&rule.share(instances, 1));
            full_at.since(now).as_secs_f64()
        };
        let from = now.as_nanos() as f64 / 1e9;
        // Saturates for rules that take longer than the process lives.
        self.forget_at = (from + seconds).ceil() as u32;
    }
}

/// A share's answer, with the level that the whole bucket has if every gateway has as much left.
fn of_whole(grant: &Grant, rule: &Rule, instances: u32) -> Grant {
    Grant {
        level: (grant.level * f64::from(instances)).min(rule.capacity),
        ..*grant
    }
}
