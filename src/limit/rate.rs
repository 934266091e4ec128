//! How fast tokens of one key are asked for: an exponentially weighted average.
//!
//! Rejected requests count too, for it is the demand that is measured.

use std::time::Duration;

use super::clock::Timestamp;

#[cfg(test)]
mod tests;

/// What lies this long ago counts 1/e. Long enough for a few arrivals of the slowest key that is
/// of interest, short enough to follow a burst.
const TIME_CONSTANT: Duration = Duration::from_millis(100);

/// A rate, in tokens per second.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: f64,
    /// When `per_second` was true: at the last arrival.
    at: Timestamp,
}

impl Rate {
    /// A rate that is known to be `per_second` now.
    pub fn new(per_second: f64, now: Timestamp) -> Self {
        Self {
            per_second,
            at: now,
        }
    }

    /// Notes that `tokens` were asked for.
    pub fn observe(&mut self, tokens: u32, now: Timestamp) {
        self.per_second = self.now(now) + f64::from(tokens) / TIME_CONSTANT.as_secs_f64();
        // Of two threads the later one may have read the earlier time.
        self.at = self.at.max(now);
    }

    /// The rate now, if nothing has been asked for since the last arrival.
    pub fn now(&self, now: Timestamp) -> f64 {
        let past = now.since(self.at).as_nanos() as f64 / TIME_CONSTANT.as_nanos() as f64;
        self.per_second * decay(past)
    }

    /// When tokens were asked for last.
    pub fn last_arrival(&self) -> Timestamp {
        self.at
    }
}

/// e to the minus `x`. Between the arrivals of a busy key `x` is small, and there the first terms
/// of the series are as good, at a fraction of the time.
fn decay(x: f64) -> f64 {
    if x < 0.125 {
        1.0 - x * (1.0 - x * (0.5 - x / 6.0))
    } else {
        (-x).exp()
    }
}
