//! Telling a gateway that is silent from one that is gone, by durations alone.
//!
//! A gateway's row changes with each sign of life. Whoever finds a row as it was when it was looked
//! at before knows that the gateway was silent for all that time, however far apart their clocks
//! are, and without having looked in between.

use std::collections::HashMap;
use std::time::Duration;

use crate::limit::Timestamp;
use crate::rules::ledger::Beat;

#[cfg(test)]
mod tests;

/// Clocks do not run at the same speed to the last digit: a lease is waited for a little longer.
const MARGIN: f64 = 1.02;

/// What one gateway has seen of all others, and of itself.
#[derive(Default)]
pub struct Watch {
    seen: HashMap<(String, String), Seen>,
}

struct Seen {
    beat: i64,
    /// When this beat was first seen.
    at: Timestamp,
    /// When the gateway was first seen.
    known_since: Timestamp,
    lease: Duration,
}

impl Watch {
    /// Takes note of every gateway there is.
    pub fn observe(&mut self, gateways: &[Beat], now: Timestamp) {
        let mut seen = HashMap::with_capacity(gateways.len());
        for gateway in gateways {
            let name = (gateway.region.clone(), gateway.gateway.clone());
            let before = self.seen.remove(&name);
            let known_since = before.as_ref().map_or(now, |before| before.known_since);
            let at = match before {
                Some(before) if before.beat == gateway.beat => before.at,
                _ => now,
            };
            let new = Seen {
                beat: gateway.beat,
                at,
                known_since,
                lease: gateway.lease,
            };
            seen.insert(name, new);
        }
        self.seen = seen;
    }

    /// Whether a gateway's lease has surely run out.
    pub fn has_lapsed(&self, gateway: &Beat, now: Timestamp) -> bool {
        self.of(gateway)
            .is_some_and(|seen| now.since(seen.at) >= seen.lease.mul_f64(MARGIN))
    }

    /// Whether a gateway has been there for at least its lease, and is there now: it is no other
    /// one's predecessor or successor.
    pub fn is_established(&self, gateway: &Beat, now: Timestamp) -> bool {
        self.of(gateway).is_some_and(|seen| {
            now.since(seen.known_since) >= seen.lease && now.since(seen.at) <= seen.lease / 3
        })
    }

    fn of(&self, gateway: &Beat) -> Option<&Seen> {
        self.seen
            .get(&(gateway.region.clone(), gateway.gateway.clone()))
    }
}
