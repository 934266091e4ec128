//! A token bucket in whole numbers: no rounding, no tolerance, nothing clever.
//!
//! The rate is a fraction `refill / per_seconds`. One unit is 1 / (1000 × per_seconds) of a token,
//! so that each millisecond brings exactly `refill` units.

use aforo::limit::{Ask, Rule};

/// A bucket and what is asked of it.
#[derive(Clone, Debug)]
pub struct Case {
    pub capacity: u32,
    pub refill: u32,
    pub per_seconds: u32,
    /// Tokens that the bucket holds at first.
    pub begins_at: u32,
    pub steps: Vec<Step>,
}

/// One question, some time after the one before.
#[derive(Clone, Debug)]
pub struct Step {
    pub after_ms: u64,
    pub ask: Ask,
}

/// The answer that is right.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub granted: u32,
    pub level: f64,
    pub wait_ms: u64,
}

/// The bucket.
pub struct Model {
    token: i128,
    per_ms: i128,
    full: i128,
    level: i128,
}

impl Case {
    pub fn rule(&self) -> Rule {
        let refill = f64::from(self.refill) / f64::from(self.per_seconds);
        Rule::new(self.capacity, refill).unwrap()
    }
}

impl Model {
    pub fn new(case: &Case) -> Self {
        let token = 1000 * i128::from(case.per_seconds);
        let full = i128::from(case.capacity) * token;
        Self {
            token,
            per_ms: i128::from(case.refill),
            full,
            level: i128::from(case.begins_at) * token,
        }
    }

    pub fn take(&mut self, ask: &Ask, after_ms: u64) -> Expected {
        let refilled = self.level + i128::from(after_ms) * self.per_ms;
        self.level = refilled.min(self.full);
        if ask.debt > 0 {
            let in_debt = self.level - i128::from(ask.debt) * self.token;
            self.level = in_debt.max(-self.full);
        }
        let cost = i128::from(ask.cost) * self.token;
        let for_requests = self.level.div_euclid(cost).clamp(0, i128::from(ask.count));
        let left = self.level - for_requests * cost;
        let on_offer = left.div_euclid(i128::from(ask.divisor));
        let wanted = i128::from(ask.extra) * self.token;
        let more = wanted.min(on_offer).div_euclid(cost).max(0);
        let granted = (for_requests + more) * i128::from(ask.cost);
        self.level -= granted * self.token;
        let missing = (cost - self.level).max(0);
        Expected {
            granted: u32::try_from(granted).unwrap(),
            level: self.level.max(0) as f64 / self.token as f64,
            wait_ms: u64::try_from((missing + self.per_ms - 1).div_euclid(self.per_ms)).unwrap(),
        }
    }
}
