//! The split of a very hot bucket into sub-buckets, so that several nodes of the store carry it.
//!
//! Arithmetic and a turn-taker only: how many parts a rule has, how large each is, and which one a
//! call asks. Every gateway goes round all parts. One that kept to a part of its own would reject
//! while other parts are full (simulated: 12 % to 60 % too little).

use std::sync::atomic::{AtomicU32, Ordering};

use super::rule::Rule;

#[cfg(test)]
mod tests;

/// The fewest tokens that a part holds: smaller ones run dry by chance.
const SMALLEST_PART: u32 = 50;

/// Into how many sub-buckets a bucket of `capacity` tokens is split where a rule asks for `shards`
/// and a request takes `cost`: as many as hold 50 tokens and two requests each. 1: not at all.
pub fn count(shards: u32, capacity: f64, cost: u32) -> u32 {
    let smallest = SMALLEST_PART.max(cost.saturating_mul(2));
    // Saturates, and NaN is 0: a rule's capacity is neither.
    let fitting = (capacity / f64::from(smallest)).floor() as u32;
    shards.min(fitting).max(1)
}

/// The rule of one of `count` parts. Real numbers, so that the parts make up the whole, whatever the
/// divisor.
#[must_use]
pub fn part(rule: &Rule, count: u32) -> Rule {
    let parts = f64::from(count.max(1));
    Rule {
        capacity: rule.capacity / parts,
        refill_per_second: rule.refill_per_second / parts,
        ..*rule
    }
}

/// The part of what is known of the whole that one of `count` sub-buckets begins with: after a change
/// of their number the new ones do not begin full.
#[must_use]
pub fn seed(level: f64, count: u32) -> f64 {
    level / f64::from(count.max(1))
}

/// Whose turn it is among a bucket's parts.
#[derive(Debug)]
pub struct Turns(AtomicU32);

impl Turns {
    /// Begins at `start`; a random number, so that gateways do not go in step.
    pub fn new(start: u32) -> Self {
        Self(AtomicU32::new(start))
    }

    /// The part that the next call asks, of `count`.
    pub fn next(&self, count: u32) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) % count.max(1)
    }

    /// The one other part to ask where `part` gave too little; none where there is no other.
    pub fn other(&self, part: u32, count: u32) -> Option<u32> {
        if count <= 1 {
            return None;
        }
        // The one whose turn it is, unless that is the same.
        let next = self.next(count);
        Some(if next == part % count {
            (next + 1) % count
        } else {
            next
        })
    }
}
