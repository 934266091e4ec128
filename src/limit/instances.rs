//! N: how many gateways share the limits, and so what one of them may let through by itself.
//!
//! Either a number, or counted by heartbeats that another part sends and hears of. A count that
//! is too small lets too much through in an outage, one that is too large too little: so N rises
//! at once, falls late, and stays where it is while nothing is heard.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::clock::Timestamp;

#[cfg(test)]
mod tests;

/// How long fewer gateways must be heard of, without a gap, before N falls.
const FALL_AFTER: Duration = Duration::from_secs(30);

/// The number of gateways.
#[derive(Debug)]
pub struct Instances {
    now: AtomicU32,
    /// N never falls below.
    at_least: u32,
    /// Since when fewer than N are heard of, and the most of them since then.
    fewer: Mutex<Option<(Timestamp, u32)>>,
}

impl Instances {
    /// Always `n`, unless more are heard of.
    pub fn new(n: u32) -> Self {
        let n = n.max(1);
        Self {
            now: AtomicU32::new(n),
            at_least: n,
            fewer: Mutex::new(None),
        }
    }

    /// N now, at least 1.
    pub fn get(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Notes that `count` gateways, this one among them, sent heartbeats of late.
    pub fn heard(&self, count: u32, now: Timestamp) {
        let count = count.max(self.at_least);
        let mut fewer = self.fewer.lock();
        if count >= self.get() {
            self.now.store(count, Ordering::Relaxed);
            *fewer = None;
            return;
        }
        let (since, most) = fewer.map_or((now, count), |(since, most)| (since, most.max(count)));
        if now.since(since) < FALL_AFTER {
            *fewer = Some((since, most));
            return;
        }
        self.now.store(most, Ordering::Relaxed);
        *fewer = None;
    }

    /// Notes that a heartbeat was not answered: nothing is known of the others.
    pub fn missed(&self) {
        *self.fewer.lock() = None;
    }
}
