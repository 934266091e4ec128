//! What is left for keys that have no place in the table of accounts: two gates in constant
//! memory, through both of which a request must pass.
//!
//! The first is a count-min sketch of what each key was admitted in this second; it errs only to
//! the disadvantage of keys that collide. It cannot tell a rule of one a minute from one of one a
//! second, so behind it one bucket per rule holds all these keys together to a gateway's share.

use std::collections::HashMap;
use std::time::Duration;

use super::bucket::{Ask, Bucket, Grant};
use super::clock::Timestamp;
use super::rule::Rule;
use super::sync::{AtomicU64, Estimator, Mutex, Ordering};

#[cfg(test)]
mod tests;

const HASHES: usize = 4;
const SLOTS: usize = 65_536;
/// Rules that have a bucket of their own here. A file or a table with more of them, all flooded
/// in one outage, has to share.
const MAX_RULES: usize = 4_096;
const SECOND: Duration = Duration::from_secs(1);

/// The two gates.
pub struct Sketch {
    /// One counts, the other is clean for the next second.
    estimators: [Estimator; 2],
    /// The second of the clock, and in the lowest bit which estimator counts it.
    turn: AtomicU64,
    overflow: Mutex<HashMap<[u64; 2], Bucket>>,
}

impl Sketch {
    /// Gates that have seen nothing. Takes 4 MiB, and no more later.
    pub fn new() -> Self {
        Self {
            estimators: [Estimator::new(HASHES, SLOTS), Estimator::new(HASHES, SLOTS)],
            turn: AtomicU64::new(0),
            overflow: Mutex::new(HashMap::new()),
        }
    }

    /// Asks for one request of `cost` for the key with this hash; `share` is what one gateway may
    /// let through under `rule`.
    pub fn take(&self, id: u64, rule: &Rule, share: &Rule, cost: u32, now: Timestamp) -> Grant {
        let counting = self.counting(now);
        let cost_in_count = isize::try_from(cost).unwrap_or(isize::MAX);
        let each = share.refill_per_second.max(f64::from(cost)).max(1.0);
        let counted = counting.incr(id, cost_in_count);
        // Below 2^53 by far: what one second admits.
        if counted as f64 > each {
            counting.decr(id, cost_in_count);
            let nanos = SECOND.as_nanos() as u64;
            let left = nanos - now.as_nanos() % nanos;
            return Grant {
                granted: 0,
                level: 0.0,
                wait: Duration::from_millis(left.div_ceil(1_000_000)),
            };
        }
        let grant = self.take_from_overflow(rule, share, cost, now);
        if grant.granted == 0 {
            // Only what was admitted counts.
            counting.decr(id, cost_in_count);
        }
        grant
    }

    /// The estimator of this second.
    fn counting(&self, now: Timestamp) -> &Estimator {
        let second = now.as_nanos() / SECOND.as_nanos() as u64;
        let turn = self.turn.load(Ordering::Acquire);
        let which = (turn & 1) as usize;
        if turn >> 1 >= second {
            return &self.estimators[which];
        }
        let next = second << 1 | (1 - (turn & 1));
        let turned = self
            .turn
            .compare_exchange(turn, next, Ordering::AcqRel, Ordering::Acquire);
        match turned {
            // One thread cleans the old one, which is not needed for a second. What others still
            // count there, or take back, is lost; where they do so after it was cleaned, their keys
            // have that much less, or more, in the second after next.
            Ok(_) => {
                self.estimators[which].reset();
                &self.estimators[1 - which]
            }
            Err(turn) => &self.estimators[(turn & 1) as usize],
        }
    }

    /// One bucket for all keys of a rule. It holds a second's worth, for it stands for nobody in
    /// particular.
    fn take_from_overflow(&self, rule: &Rule, share: &Rule, cost: u32, now: Timestamp) -> Grant {
        let refill_per_second = share.refill_per_second.max(1.0);
        let shared = Rule {
            capacity: refill_per_second.max(f64::from(cost)),
            refill_per_second,
            ..*share
        };
        let mut id = [rule.capacity.to_bits(), rule.refill_per_second.to_bits()];
        let mut overflow = self.overflow.lock();
        if overflow.len() >= MAX_RULES && !overflow.contains_key(&id) {
            id = [0, 0];
        }
        overflow
            .entry(id)
            .or_insert_with(|| Bucket::new(&shared, None, now))
            .take(&shared, &Ask::one(cost), now)
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self::new()
    }
}
