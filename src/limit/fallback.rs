//! This gateway's own share of every limit, for requests that the store does not answer in time.
//!
//! A key has a local bucket of 1/N of its rule, where N is the number of gateways. What belongs
//! to a longer outage (starting from what the store last said, handing what was spent back as
//! debt) has its place here and in [`limiter`](super::limiter).

use super::bucket::{Ask, Grant};
use super::clock::Timestamp;
use super::key::BucketKey;
use super::local::LocalBuckets;
use super::rule::Rule;

/// The buckets of this gateway's share.
pub struct Fallback {
    buckets: LocalBuckets,
    /// Gateways that share the limit.
    instances: u32,
}

impl Fallback {
    /// Shares for one of `instances` gateways, in at most `max_buckets` buckets.
    pub fn new(instances: u32, max_buckets: usize) -> Self {
        Self {
            buckets: LocalBuckets::new(max_buckets),
            instances: instances.max(1),
        }
    }

    /// Asks this gateway's share for one request. The level in the answer is that of the whole
    /// bucket, if every gateway had as much left as this one.
    pub fn take(&self, key: &BucketKey<'_>, rule: &Rule, cost: u32, now: Timestamp) -> Grant {
        let share = rule.share(self.instances, cost);
        let grant = self.buckets.take(key, &share, &Ask::one(cost), now);
        Grant {
            level: (grant.level * f64::from(self.instances)).min(rule.capacity),
            ..grant
        }
    }

    /// How many buckets are held.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }
}
