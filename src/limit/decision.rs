//! What the limiter says of one request.

use std::time::Duration;

use super::bucket::Grant;
use super::rule::Rule;

/// Where a decision came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Tokens that were taken from the shared store beforehand.
    Lease,
    /// What the shared store said before: there is nothing yet.
    Denied,
    /// The bucket in the shared store.
    Store,
    /// This gateway's own share, since the store did not answer in time.
    Fallback,
    /// A bucket that lives in this process by configuration.
    Memory,
    /// No bucket was asked: what the request costs is more than a full one holds.
    Oversized,
    /// The store is away, and the rule lets nothing pass meanwhile. No decision on the request.
    Closed,
}

/// The limiter's answer for one request.
///
/// All numbers describe the bucket that decided, whole: a fallback's are scaled up from this
/// gateway's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Whether the request is within the limit.
    pub allowed: bool,
    /// The rule that it was held to.
    pub rule: Rule,
    /// Tokens left after this request, from 0 to the capacity.
    pub level: f64,
    /// For a request over the limit: when the same request would be allowed, if nobody else
    /// takes what comes back. `None` where it never will, and for one that was allowed.
    pub retry_after: Option<Duration>,
    /// Who decided.
    pub source: Source,
}

/// Rounding of sums must not turn a whole token into none, nor a whole second into two. Far below
/// what anybody can notice, far above what a sum of refills is off by.
const TOLERANCE: f64 = 1e-6;

impl Decision {
    /// Whole tokens left after this request; 0 where it was over the limit, also if fewer tokens
    /// than its cost are there.
    pub fn remaining(&self) -> u64 {
        if self.allowed {
            // Levels are from 0 to a capacity that fits u32.
            (self.level + TOLERANCE).floor() as u64
        } else {
            0
        }
    }

    /// Whole tokens of a full bucket.
    pub fn limit(&self) -> u64 {
        self.rule.capacity.floor() as u64
    }

    /// Whole seconds until the bucket is full, rounded up; 0 where it is.
    pub fn seconds_to_full(&self) -> u64 {
        self.seconds_to_refill(self.rule.capacity - self.level)
    }

    /// Whole seconds until one more whole token is there, rounded up; `None` where the bucket is
    /// full.
    pub fn seconds_to_next_token(&self) -> Option<u64> {
        let next = (self.level + TOLERANCE).floor() + 1.0;
        (next <= self.rule.capacity).then(|| self.seconds_to_refill(next - self.level).max(1))
    }

    /// Whole seconds after which the same request would pass, rounded up, at least 1. See
    /// [`Decision::retry_after`].
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after
            .map(|wait| wait.as_millis().div_ceil(1000).max(1) as u64)
    }

    /// Whole seconds that an empty bucket takes to fill, rounded up, at least 1.
    pub fn window_seconds(&self) -> u64 {
        self.seconds_to_refill(self.rule.capacity).max(1)
    }

    fn seconds_to_refill(&self, tokens: f64) -> u64 {
        let seconds = (tokens - TOLERANCE).max(0.0) / self.rule.refill_per_second;
        // The tolerance is one of tokens; this one is for the quotient.
        (seconds * (1.0 - 1e-12)).ceil() as u64
    }

    /// What a bucket's answer to one request of `cost` means.
    pub(super) fn of_grant(grant: &Grant, rule: &Rule, cost: u32, source: Source) -> Self {
        let allowed = grant.granted >= cost;
        Self {
            allowed,
            rule: *rule,
            level: grant.level,
            retry_after: (!allowed).then_some(grant.wait),
            source,
        }
    }

    /// Without the store, a rule that is open lets everything pass.
    pub(super) fn open(rule: &Rule) -> Self {
        Self {
            allowed: true,
            rule: *rule,
            level: rule.capacity,
            retry_after: None,
            source: Source::Fallback,
        }
    }

    /// Without the store, a rule that is closed lets nothing pass.
    pub(super) fn closed(rule: &Rule) -> Self {
        Self {
            allowed: false,
            source: Source::Closed,
            level: 0.0,
            retry_after: None,
            rule: *rule,
        }
    }

    /// The answer to a request that costs more than a full bucket holds: it can never pass, so no
    /// bucket is asked and no time to come back is named.
    pub(super) fn oversized(rule: &Rule) -> Self {
        Self {
            allowed: false,
            rule: *rule,
            level: 0.0,
            retry_after: None,
            source: Source::Oversized,
        }
    }
}
