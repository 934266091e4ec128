//! Which keys are hot enough to be worth a lease, found without any state for those that are not.
//!
//! A count-min sketch counts the tokens that each key asks for in a short window, and the window
//! before it. It errs upward only, where keys collide: such a key gets a lease that measures its
//! own rate, and is soon dropped again. Sized so that 100,000 tenants at 50,000 requests a second
//! do not collide into heat. The sketches turn over by our own hand, for `pingora_limits::Rate`
//! (0.9.1) has races where it does that.

use std::time::Duration;

use super::clock::Timestamp;
use super::sync::{AtomicU64, Estimator, Ordering};

#[cfg(test)]
mod tests;

const HASHES: usize = 4;
/// With 10,000 tokens in a window (50,000 a second), a place holds 0.6 of other keys' on average,
/// and that nine more meet in all four of a key's places happens once in 10^24.
const SLOTS: usize = 16_384;
/// Long enough to see ten tokens of a key at the threshold.
const WINDOW: Duration = Duration::from_millis(200);

/// Tokens per second from which on a key is hot.
pub const THRESHOLD: f64 = 50.0;

/// Estimates the demand of keys.
pub struct HotKeys {
    /// One counts, the other holds the window before.
    estimators: [Estimator; 2],
    /// The number of the window, and in the lowest bit which estimator counts it.
    turn: AtomicU64,
}

impl HotKeys {
    /// Nothing is hot yet. Takes 1 MiB, and no more later.
    pub fn new() -> Self {
        Self {
            estimators: [Estimator::new(HASHES, SLOTS), Estimator::new(HASHES, SLOTS)],
            turn: AtomicU64::new(0),
        }
    }

    /// Counts `tokens` that the key with this hash asks for, and estimates how many it asks for
    /// each second.
    pub fn observe(&self, id: u64, tokens: u32, now: Timestamp) -> f64 {
        let (counting, before, complete) = self.window(now);
        let tokens = isize::try_from(tokens).unwrap_or(isize::MAX);
        let counted = self.estimators[counting].incr(id, tokens) as f64;
        // The part of the window before that lies less than one window ago.
        let earlier = before.map_or(0.0, |before| self.estimators[before].get(id) as f64);
        (counted + earlier * (1.0 - complete)) / WINDOW.as_secs_f64()
    }

    /// Which estimator counts now, which one holds the window before (if that was the last one),
    /// and how much of the present window has passed.
    fn window(&self, now: Timestamp) -> (usize, Option<usize>, f64) {
        let nanos = WINDOW.as_nanos() as u64;
        let window = now.as_nanos() / nanos;
        let complete = (now.as_nanos() % nanos) as f64 / nanos as f64;
        let turn = self.turn.load(Ordering::Acquire);
        let which = (turn & 1) as usize;
        if turn >> 1 >= window {
            return (which, Some(1 - which), complete);
        }
        let next = window << 1 | (1 - (turn & 1));
        let turned = self
            .turn
            .compare_exchange(turn, next, Ordering::AcqRel, Ordering::Acquire);
        match turned {
            // One thread cleans what counts from now on. What others count there meanwhile is
            // lost, and the next arrivals make up for it; they may also find old counts there.
            Ok(_) => {
                self.estimators[1 - which].reset();
                let follows = turn >> 1 == window - 1;
                if !follows {
                    self.estimators[which].reset();
                }
                (1 - which, follows.then_some(which), complete)
            }
            Err(turn) => {
                let which = (turn & 1) as usize;
                (which, Some(1 - which), complete)
            }
        }
    }
}

impl Default for HotKeys {
    fn default() -> Self {
        Self::new()
    }
}
