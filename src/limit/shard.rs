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
        Turn {
            number: self.place(key).fetch_add(1, Ordering::Relaxed),
            seed: key,
        }
    }

    /// The turn that the next call takes.
    pub fn peek(&self, key: u64) -> Turn {
        Turn {
            number: self.place(key).load(Ordering::Relaxed),
            seed: key,
        }
    }

    fn place(&self, key: u64) -> &AtomicU32 {
        &self.0[(key % PLACES as u64) as usize]
    }
}

/// One call's turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    number: u32,
    /// Of the key.
    seed: u64,
}

impl Turn {
    /// The part that is asked, of `count`. Each round asks every part once, and begins at another one:
    /// gateways that happen to ask the same part at the same moment would do so round after round
    /// (simulated with parts that fill in 100 ms, at 95 % of the limit: 0.9 % rejected, and 0.1 %
    /// with this).
    pub fn part(self, count: u32) -> u32 {
        let count = count.max(1);
        let (round, place) = (self.number / count, self.number % count);
        (place + mixed(self.seed ^ u64::from(round)) % count) % count
    }

    /// One of `others` instead, where that part will not do. Not the next one after it: that one would
    /// have the calls of all parts that are away beside its own.
    pub fn instead<T: Copy>(self, others: &[T]) -> Option<T> {
        let any = mixed(self.seed ^ u64::from(self.number)) as usize;
        others.get(any.checked_rem(others.len())?).copied()
    }
}

/// A number that looks random for each other seed: SplitMix64, the upper bits.
fn mixed(seed: u64) -> u32 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed >> 40) as u32
}
