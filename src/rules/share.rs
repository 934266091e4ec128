//! Which part of each rule this region holds, where several regions share every limit.
//!
//! A region's buckets hold capacity and refill times the region's share. The shares of all regions
//! sum to at most 1, at every moment: how they move is the business of [`region`](crate::region),
//! and what is here only reads them. Rules come in three sizes:
//!
//! - As long as even the smallest share holds one request, the rule moves with demand.
//! - A smaller one stays split by the base shares, which do not move.
//! - What a region's base share cannot hold one request of is held by the home region, beside its
//!   own part, and nowhere else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ahash::RandomState;

use crate::limit::demand::Demand;
use crate::limit::{BucketKey, Clock, MonotonicClock, Rule, Timestamp};

#[cfg(test)]
mod tests;

/// The smallest share that a region ever has, and so the smallest base share.
pub const FLOOR: f64 = crate::limit::rule::SMALLEST_SHARE;

/// Rounding of sums must not take a region's one request away.
const TOLERANCE: f64 = 1e-9;

/// The shares that are this region's.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// What the region has when nothing else is known, by its configuration.
    pub base: f64,
    /// What it has of each limit now.
    pub share: f64,
    /// What it has of the limits of some tenants.
    pub tenants: HashMap<Box<str>, f64, RandomState>,
    /// For the home region of what is too small to be split: the base shares of the others. None:
    /// the home is another region.
    pub home: Option<Vec<f64>>,
}

/// Until when this region may hold more than its base share, unless it hears more.
#[derive(Default)]
pub struct Lease(AtomicU64);

/// This region, as requests meet it.
pub struct Regional<C = MonotonicClock> {
    shares: Shares,
    /// Whether any share is more than the base one: else there is nothing that could lapse.
    beyond_base: bool,
    /// Until when what is more than the base share is held.
    lease: Arc<Lease>,
    demand: Arc<Demand>,
    clock: Arc<C>,
}

impl Shares {
    /// The shares of a region that was not told of any: what it surely has.
    pub fn unheard(base: f64) -> Self {
        Self {
            base,
            share: base.min(FLOOR),
            tenants: HashMap::default(),
            home: None,
        }
    }

    /// The shares of a region whose limits are split by the configuration alone. With more than
    /// half of each limit it is surely the largest region, and so the home.
    pub fn fixed(base: f64) -> Self {
        Self {
            share: base,
            home: (base > 0.5).then(|| vec![1.0 - base]),
            ..Self::unheard(base)
        }
    }

    /// This region's part of a tenant's limit of `capacity` tokens, where a request takes `cost`.
    /// `lapsed`: what lies above the base share is not ours any more.
    pub fn part(&self, tenant: &str, capacity: f64, cost: u32, lapsed: bool) -> f64 {
        let requests = capacity / f64::from(cost.max(1));
        if requests * FLOOR + TOLERANCE >= 1.0 {
            let share = self.tenants.get(tenant).unwrap_or(&self.share);
            return if lapsed { share.min(self.base) } else { *share };
        }
        let holds_one = |base: f64| requests * base + TOLERANCE >= 1.0;
        match &self.home {
            None if holds_one(self.base) => self.base,
            None => 0.0,
            Some(others) => {
                // In the order of the sum that the others' shares are, so that no rounding adds up.
                let others = others.iter().filter(|base| !holds_one(**base));
                (self.base + others.sum::<f64>()).min(1.0)
            }
        }
    }

    /// Whether any share is more than the base one, and so only lent.
    fn is_beyond_base(&self) -> bool {
        let mut all = self.tenants.values().chain([&self.share]);
        all.any(|share| *share > self.base)
    }
}

impl Lease {
    /// What is held above the base share is held until `then`.
    pub fn extend(&self, then: Timestamp) {
        self.0.store(then.as_nanos(), Ordering::Release);
    }

    /// Whether it is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.as_nanos() >= self.0.load(Ordering::Acquire)
    }
}

impl<C: Clock> Regional<C> {
    /// A region that has these shares, as long as `lease` lasts.
    pub fn new(shares: Shares, lease: Arc<Lease>, demand: Arc<Demand>, clock: Arc<C>) -> Self {
        Self {
            beyond_base: shares.is_beyond_base(),
            shares,
            lease,
            demand,
            clock,
        }
    }

    /// The part of `rule` that this region holds of it, where a request on the route takes
    /// `of_route` tokens. Counts one of `cost`, which the limit is about to be asked for.
    pub fn hold(&self, key: &BucketKey<'_>, rule: &Rule, of_route: u32, cost: u32) -> Rule {
        self.demand.asked(key, rule.refill_per_second, cost);
        let lapsed = self.beyond_base && self.lease.is_over(self.clock.now());
        let part = self
            .shares
            .part(key.tenant, rule.capacity, of_route, lapsed);
        rule.part(part)
    }

    /// The share in force: that of tenants who have none of their own.
    pub fn share(&self) -> f64 {
        let lapsed = self.lease.is_over(self.clock.now());
        let share = self.shares.share;
        if lapsed {
            share.min(self.shares.base)
        } else {
            share
        }
    }
}

/// Whether nothing of a rule is held in this region.
pub fn is_elsewhere(rule: &Rule) -> bool {
    rule.capacity <= 0.0
}

/// How long a lease lasts after it was last heard of: three times what lies between two
/// computations of the shares.
pub fn lease_of(rebalance: Duration) -> Duration {
    3 * rebalance
}
