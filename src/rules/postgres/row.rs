//! One row of the rule table: whether it is a rule, and what of it is not.
//!
//! The table's own checks catch most mistakes, but an adopted table may lack them, and some they
//! do not know. So every column is read as if it could hold anything.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::limit::{OnStoreFailure, Rule};

#[cfg(test)]
mod tests;

/// The longest name, in bytes.
const LONGEST_NAME: usize = 64;

/// A row as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'r> {
    /// `tenant_id`.
    pub tenant: &'r str,
    /// `route_id`.
    pub route: &'r str,
    /// `capacity`.
    pub capacity: Option<i32>,
    /// `refill_per_second`.
    pub refill: Option<i32>,
    /// `period_seconds`.
    pub period: Option<i32>,
    /// `shards`.
    pub shards: Option<i32>,
    /// `shadow`.
    pub shadow: Option<bool>,
    /// `on_store_failure`.
    pub on_store_failure: Option<&'r str>,
    /// `concurrency`.
    pub concurrency: Option<i32>,
}

/// A row that is a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Good {
    /// The rule.
    pub rule: Rule,
    /// What it asks for that does not exist yet, if anything.
    pub unsupported: Option<String>,
}

impl<'r> Row<'r> {
    /// Takes a row apart.
    ///
    /// # Errors
    ///
    /// Where a column is not there, or has another type.
    pub fn read(row: &'r PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            // A null has no name, and is a bad one.
            tenant: row.try_get::<Option<_>, _>(0)?.unwrap_or_default(),
            route: row.try_get::<Option<_>, _>(1)?.unwrap_or_default(),
            capacity: row.try_get(2)?,
            refill: row.try_get(3)?,
            period: row.try_get(4)?,
            shards: row.try_get(5)?,
            shadow: row.try_get(6)?,
            on_store_failure: row.try_get(7)?,
            concurrency: row.try_get(8)?,
        })
    }

    /// The rule, or what is wrong with the row.
    ///
    /// # Errors
    ///
    /// A sentence about the first thing that is wrong.
    pub fn check(&self) -> Result<Good, String> {
        for (name, column) in [(self.tenant, "tenant_id"), (self.route, "route_id")] {
            let sound = (1..=LONGEST_NAME).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic());
            if !sound {
                return Err(format!("{column} must be 1 to 64 visible ASCII characters"));
            }
        }
        let capacity = positive(self.capacity, "capacity")?;
        let refill = positive(self.refill, "refill_per_second")?;
        let period = positive(self.period, "period_seconds")?;
        let rate = f64::from(refill) / f64::from(period);
        let rule = Rule::new(capacity, rate)
            .map_err(|error| format!("{error} (refill_per_second / period_seconds)"))?;
        let shadow = self
            .shadow
            .ok_or("shadow must be true or false, not null")?;
        let shards = positive(self.shards, "shards")?;
        let concurrency = match self.concurrency {
            Some(number) => Some(positive(Some(number), "concurrency")?),
            None => None,
        };
        let failure = match self.on_store_failure {
            Some(name) => OnStoreFailure::from_name(name).ok_or_else(|| {
                format!("on_store_failure must be local, open or closed, not {name:?}")
            })?,
            None => return Err("on_store_failure must be local, open or closed, not null".into()),
        };
        let unsupported = concurrency.map(|number| format!("concurrency = {number} (null is)"));
        Ok(Good {
            rule: rule
                .with_shards(shards)
                .with_shadow(shadow)
                .with_on_store_failure(failure),
            unsupported,
        })
    }
}

fn positive(number: Option<i32>, column: &str) -> Result<u32, String> {
    match number {
        Some(number) => u32::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{column} must be at least 1, not {number}")),
        None => Err(format!("{column} must be at least 1, not null")),
    }
}
