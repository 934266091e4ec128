//! What each region needs of each limit: offered demand, smoothed.
//!
//! Demand counts what was rejected too, or a region that is short could never say so. Of one limit
//! it counts at most twice, so that an attack is forgotten within some periods after its end.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::rules::ledger::Asked;

#[cfg(test)]
mod tests;

/// Tenants that have shares of their own.
pub const TENANTS: usize = 100;
/// How much of a new period's demand is believed at once.
const WEIGHT: f64 = 0.5;
/// What is needed beyond the demand: room for it to vary, and to grow.
const ROOM: f64 = 1.1;
/// The most that demand counts, in limits.
const MOST: f64 = 2.0;
/// A tenant that has shares of its own keeps them against one that asks for a little more.
const STAYS: f64 = 1.5;

/// A number for each region.
pub type ByRegion = BTreeMap<String, f64>;

/// Demand as it is remembered from one period to the next: parts of a limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Needs {
    /// Of all limits that anybody asks for, taken together.
    all: ByRegion,
    /// Of the limits of the busiest tenants.
    tenants: BTreeMap<String, ByRegion>,
}

impl Needs {
    /// Takes in what was asked for in a period. Of regions that are not `heard` nothing is known.
    pub fn learn(&mut self, asked: &[Asked], heard: &[&str]) {
        let limits = limits(asked);
        let of_all = demand_of_all(asked, &limits);
        smooth(&mut self.all, &of_all, heard);

        let busiest = self.busiest(asked);
        let mut of_tenants = demand_of_tenants(asked, &limits);
        self.tenants = busiest
            .into_iter()
            .map(|tenant| {
                let mut needs = self.tenants.remove(&tenant).unwrap_or_default();
                let demand = of_tenants.remove(tenant.as_str()).unwrap_or_default();
                smooth(&mut needs, &demand, heard);
                (tenant, needs)
            })
            .collect();
    }

    /// What a region needs of the limits of every tenant that is not named.
    pub fn of_all(&self, region: &str) -> f64 {
        ROOM * self.all.get(region).copied().unwrap_or_default()
    }

    /// The tenants that are named.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys().map(String::as_str)
    }

    /// What a region needs of a tenant's limits.
    pub fn of_tenant(&self, tenant: &str, region: &str) -> f64 {
        let needs = self.tenants.get(tenant);
        ROOM * needs
            .and_then(|needs| needs.get(region).copied())
            .unwrap_or_default()
    }

    fn busiest(&self, asked: &[Asked]) -> Vec<String> {
        let mut tokens: HashMap<&str, f64> = HashMap::new();
        for one in asked {
            *tokens.entry(&one.tenant).or_default() += one.demand;
        }
        let mut tenants: Vec<(&str, f64)> = tokens
            .into_iter()
            .map(|(tenant, tokens)| match self.tenants.contains_key(tenant) {
                true => (tenant, tokens * STAYS),
                false => (tenant, tokens),
            })
            .collect();
        tenants.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        let busiest = tenants.into_iter().take(TENANTS);
        busiest.map(|(tenant, _)| tenant.to_owned()).collect()
    }
}

type Pair<'a> = (&'a str, &'a str);

/// The whole limit of each pair. Gateways that have not heard of a new rule yet say the old one.
fn limits(asked: &[Asked]) -> HashMap<Pair<'_>, f64> {
    let mut limits = HashMap::new();
    for one in asked {
        let limit: &mut f64 = limits.entry((&*one.tenant, &*one.route)).or_default();
        *limit = limit.max(one.refill);
    }
    limits
}

/// Demand as a part of all limits together.
fn demand_of_all(asked: &[Asked], limits: &HashMap<Pair<'_>, f64>) -> ByRegion {
    let whole: f64 = limits.values().sum();
    let mut demand = ByRegion::new();
    for one in asked {
        let limit = limits[&(&*one.tenant, &*one.route)];
        let part = one.demand.min(MOST * limit) / whole.max(f64::MIN_POSITIVE);
        *demand.entry(one.region.clone()).or_default() += part;
    }
    demand
}

/// Demand as a part of each tenant's limit. With several routes the one counts that lacks most.
fn demand_of_tenants<'a>(
    asked: &'a [Asked],
    limits: &HashMap<Pair<'_>, f64>,
) -> HashMap<&'a str, ByRegion> {
    let mut demand: HashMap<&str, ByRegion> = HashMap::new();
    for one in asked {
        let limit = limits[&(&*one.tenant, &*one.route)];
        let part = (one.demand / limit.max(f64::MIN_POSITIVE)).min(MOST);
        let of_tenant = demand.entry(&one.tenant).or_default();
        let of_region = of_tenant.entry(one.region.clone()).or_default();
        *of_region = of_region.max(part);
    }
    demand
}

/// Moves what is remembered towards what was seen. What is seen for the first time is believed.
fn smooth(remembered: &mut ByRegion, seen: &ByRegion, heard: &[&str]) {
    for region in heard {
        let now = seen.get(*region).copied().unwrap_or_default();
        remembered
            .entry((*region).to_owned())
            .and_modify(|before| *before += WEIGHT * (now - *before))
            .or_insert(now);
    }
}
