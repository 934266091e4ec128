//! What a limit is: capacity and refill, checked once, so that the arithmetic behind it meets
//! no zero, no infinity and no NaN.
//!
//! Which tenant and route a rule is for is known to whoever looks it up, not here.

use thiserror::Error;

#[cfg(test)]
mod tests;

/// The largest capacity of a bucket, in tokens: what the database's `int` holds.
pub const MAX_CAPACITY: u32 = i32::MAX as u32;
/// The slowest refill, in tokens per second: about one token in 32 years.
pub const MIN_REFILL: f64 = 1e-9;
/// The fastest refill, in tokens per second.
pub const MAX_REFILL: f64 = 1e9;

/// The smallest part of a limit that one of several regions holds.
pub const SMALLEST_SHARE: f64 = 0.05;

/// The limit of one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The burst: how many tokens a full bucket holds. At least 1, as a real number, for the
    /// share of a bucket need not be whole.
    pub capacity: f64,
    /// Tokens that come back each second, until the bucket is full.
    pub refill_per_second: f64,
    /// Into how many sub-buckets it may be split, so that several nodes carry it; 1: it is whole.
    pub shards: u32,
    /// Decide and count, but never reject.
    pub shadow: bool,
    /// What happens to a request that the store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// Names what the rule says: another one as soon as any of the above changes, the same one
    /// as long as none does, wherever the rule comes from and however often it is loaded.
    pub version: u64,
}

/// What happens to a request that the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// This gateway's share of the limit decides.
    #[default]
    Local,
    /// It passes.
    Open,
    /// It does not.
    Closed,
}

impl OnStoreFailure {
    /// Its name in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }

    /// What `name` names.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Local, Self::Open, Self::Closed]
            .into_iter()
            .find(|one| one.as_str() == name)
    }
}

/// Why two numbers are no limit.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum RuleError {
    /// The capacity lies outside of what a bucket can hold.
    #[error("capacity must be from 1 to {MAX_CAPACITY}, not {0}")]
    Capacity(u32),
    /// The refill is zero, negative, not a number, or out of range.
    #[error("refill_per_second must be a number from {MIN_REFILL} to {MAX_REFILL}, not {0}")]
    Refill(f64),
}

impl Rule {
    /// A rule that rejects what is over it.
    ///
    /// # Errors
    ///
    /// Where a number is outside of its range: see [`MAX_CAPACITY`], [`MIN_REFILL`] and
    /// [`MAX_REFILL`].
    pub fn new(capacity: u32, refill_per_second: f64) -> Result<Self, RuleError> {
        if capacity == 0 || capacity > MAX_CAPACITY {
            return Err(RuleError::Capacity(capacity));
        }
        if !(MIN_REFILL..=MAX_REFILL).contains(&refill_per_second) {
            return Err(RuleError::Refill(refill_per_second));
        }
        Ok(Self {
            capacity: f64::from(capacity),
            refill_per_second,
            shards: 1,
            shadow: false,
            on_store_failure: OnStoreFailure::Local,
            version: 0,
        }
        .versioned())
    }

    /// The same limit, only decided and counted, or enforced.
    #[must_use]
    pub fn with_shadow(self, shadow: bool) -> Self {
        Self { shadow, ..self }.versioned()
    }

    /// The same limit, with another answer to requests that the store does not answer.
    #[must_use]
    pub fn with_on_store_failure(self, on_store_failure: OnStoreFailure) -> Self {
        Self {
            on_store_failure,
            ..self
        }
        .versioned()
    }

    /// The same limit, in at most so many sub-buckets.
    #[must_use]
    pub fn with_shards(self, shards: u32) -> Self {
        Self {
            shards: shards.max(1),
            ..self
        }
        .versioned()
    }

    /// The part of the limit that one of several regions holds: capacity and refill times `part`,
    /// from 0 to 1. Another version than the whole one's, unless the part is all of it.
    ///
    /// Of no part at all the refill stays, so that there is nothing to divide by zero; without a
    /// capacity nothing passes.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        if part >= 1.0 {
            return self;
        }
        let refill = if part > 0.0 { part } else { 1.0 };
        Self {
            capacity: self.capacity * part.max(0.0),
            refill_per_second: self.refill_per_second * refill,
            ..self
        }
        .versioned()
    }

    fn versioned(self) -> Self {
        let version = [
            self.capacity.to_bits(),
            self.refill_per_second.to_bits(),
            u64::from(self.shadow),
            u64::from(self.shards),
            self.on_store_failure as u64,
        ]
        .into_iter()
        .fold(0, |version, part| mixed(version ^ part));
        Self { version, ..self }
    }

    /// What one of `instances` gateways may let through by itself: 1/N of the rule.
    ///
    /// The share holds at least one request's `cost`, or a small rule in a large cluster would
    /// let nothing through at all.
    #[must_use]
    pub fn share(&self, instances: u32, cost: u32) -> Self {
        let n = f64::from(instances.max(1));
        Self {
            capacity: (self.capacity / n).max(f64::from(cost.max(1))),
            refill_per_second: self.refill_per_second / n,
            ..*self
        }
    }
}

/// The finalizer of SplitMix64: a bijection in which every bit of the input touches every bit of
/// the output, so that two rules meet in one version by chance alone.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
