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

/// Keys that take turns apart from each other. Two keys that were asked for in step would share one
/// counter badly: each would see every other part alone.
const PLACES: usize = 64;

/// Whose turn it is among a bucket's parts. A call takes one turn, and whoever only wants to know where
/// it would go takes none: with two turns a call, only every other part of an even number would be
/// asked.
#[derive(Debug)]
pub struct Turns(Box<[AtomicU32]>);

impl Turns {
    /// Begins at `start`; a random number, so that gateways do not go in step.
    pub fn new(start: u32) -> Self {
        let begin = |place| AtomicU32::new(start.wrapping_add(place));
        Self((0..PLACES as u32).map(begin).collect())
    }

    /// Takes the turn of a call for the key with this hash.
    pub fn next(&self, key: u64) -> Turn {
        Turn(self.place(key).fetch_add(1, Ordering::Relaxed))
    }

    /// The turn that the next call takes.
    pub fn peek(&self, key: u64) -> Turn {
        Turn(self.place(key).load(Ordering::Relaxed))
    }

    fn place(&self, key: u64) -> &AtomicU32 {
        &self.0[(key % PLACES as u64) as usize]
    }
}

/// One call's turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn(u32);

impl Turn {
    /// The part that is asked, of `count`.
    pub fn part(self, count: u32) -> u32 {
        self.0 % count.max(1)
    }

    /// One of `others` instead, where that part will not do. Not the next one after it: that one would
    /// have the calls of all parts that are away beside its own.
    pub fn instead<T: Copy>(self, others: &[T]) -> Option<T> {
        // Knuth's multiplicative hash: turns that lie a round apart fall on all others alike.
        let spread = (self.0.wrapping_mul(2_654_435_769) >> 8) as usize;
        others.get(spread.checked_rem(others.len())?).copied()
    }
}
