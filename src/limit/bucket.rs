//! The token bucket, in numbers alone.
//!
//! This is the arithmetic of `lua/token_bucket.lua` in Rust, step for step: the memory store and
//! the local fallback run it, and the tests hold the script against it. It keeps no key and no
//! clock; see [`local`](super::local) for many buckets.

use std::time::Duration;

use super::clock::Timestamp;
use super::rule::Rule;

#[cfg(test)]
mod tests;

/// How far below a whole token still counts as that token. Sums of refills are rounded, and a
/// client that waited to the millisecond must not be told to wait again. What is lent here stays
/// on the bucket's account, so it never adds up.
const EPSILON: f64 = 1e-9;

/// The longest wait that is named, and the longest life of a bucket in a store: 10^13 ms, some
/// 317 years.
const MAX_WAIT_MS: f64 = 1e13;

/// What is asked of a bucket in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// Tokens that one request takes, at least 1.
    pub cost: u32,
    /// How many requests wait for the answer.
    pub count: u32,
    /// Tokens wanted beyond theirs, to be spent later.
    pub extra: u32,
    /// Of what the requests leave, at most one part in `divisor` is granted as extra.
    pub divisor: u32,
    /// Tokens that were spent without the bucket knowing. They alone may take it below zero.
    pub debt: u32,
    /// The level that a bucket begins with where it does not exist yet; full without one.
    pub seed: Option<f64>,
}

impl Ask {
    /// One request of `cost` tokens, and nothing else.
    pub fn one(cost: u32) -> Self {
        Self {
            cost: cost.max(1),
            count: 1,
            extra: 0,
            divisor: 1,
            debt: 0,
            seed: None,
        }
    }
}

/// A bucket's answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grant {
    /// Tokens granted, a multiple of the cost: first for the requests, then the extra.
    pub granted: u32,
    /// Tokens left after that, from 0 to the capacity.
    pub level: f64,
    /// Until the bucket holds one more request's cost, in whole milliseconds; zero where it does.
    pub wait: Duration,
}

/// One bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The level at `at`. Below zero only by a debt, and never below minus the capacity.
    tokens: f64,
    /// When `tokens` was true.
    at: Timestamp,
}

impl Bucket {
    /// A bucket that begins now, full or at the seed.
    pub fn new(rule: &Rule, seed: Option<f64>, now: Timestamp) -> Self {
        Self {
            tokens: seed.map_or(rule.capacity, |level| level.clamp(0.0, rule.capacity)),
            at: now,
        }
    }

    /// A bucket that holds `tokens` now.
    pub(super) fn at_level(tokens: f64, now: Timestamp) -> Self {
        Self { tokens, at: now }
    }

    /// Refills by the time that has passed, then takes what is asked for as far as it is there.
    ///
    /// A step that grants nothing and carries no debt leaves the bucket as it was.
    pub fn take(&mut self, rule: &Rule, ask: &Ask, now: Timestamp) -> Grant {
        let cost = f64::from(ask.cost.max(1));
        let mut tokens = self.refilled(rule, now);
        if ask.debt > 0 {
            tokens = (tokens - f64::from(ask.debt)).max(-rule.capacity);
        }
        let units = f64::from(ask.count)
            .min(((tokens + EPSILON) / cost).floor())
            .max(0.0);
        let mut granted = units * cost;
        let left = tokens - granted;
        let extra = f64::from(ask.extra).min((left + EPSILON) / f64::from(ask.divisor.max(1)));
        granted += (extra / cost).floor().max(0.0) * cost;
        tokens -= granted;
        if granted > 0.0 || ask.debt > 0 {
            *self = Self { tokens, at: now };
        }
        Grant {
            // At most count * cost + extra, which the caller chose within u32; `as` saturates.
            granted: granted as u32,
            level: tokens.clamp(0.0, rule.capacity),
            wait: wait_for(cost, tokens, rule),
        }
    }

    /// Takes back tokens that were granted and not spent, never above the capacity. `granted` of
    /// the answer says how many found room.
    pub fn give_back(&mut self, rule: &Rule, given: u32, now: Timestamp) -> Grant {
        let before = self.refilled(rule, now);
        let tokens = (before + f64::from(given)).min(rule.capacity);
        *self = Self { tokens, at: now };
        Grant {
            // Rounded: a level just below a whole token is that token.
            granted: (tokens - before + EPSILON).max(0.0) as u32,
            level: tokens.clamp(0.0, rule.capacity),
            wait: wait_for(1.0, tokens, rule),
        }
    }

    /// When the bucket will be full: from then on, forgetting it changes nothing.
    pub fn full_at(&self, rule: &Rule) -> Timestamp {
        self.at + wait_for(rule.capacity, self.tokens, rule)
    }

    /// The level now, below zero where a debt has taken it there.
    fn refilled(&self, rule: &Rule, now: Timestamp) -> f64 {
        let elapsed = now.since(self.at).as_secs_f64();
        (self.tokens + elapsed * rule.refill_per_second).min(rule.capacity)
    }
}

/// Time until a bucket at `tokens` holds `wanted`, in whole milliseconds, rounded up.
pub(super) fn wait_for(wanted: f64, tokens: f64, rule: &Rule) -> Duration {
    if tokens + EPSILON >= wanted {
        return Duration::ZERO;
    }
    // Half the tolerance: a wait that ends just before a whole millisecond is not rounded up to
    // the next, and who waits it out is surely within the whole tolerance.
    let missing = wanted - tokens - EPSILON / 2.0;
    let ms = (missing * 1000.0 / rule.refill_per_second).ceil();
    // In range for u64, and never NaN: the refill is above zero.
    Duration::from_millis(ms.clamp(1.0, MAX_WAIT_MS) as u64)
}
