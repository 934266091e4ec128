//! The side of a gateway: which version is in force here, and until when.
//!
//! The order of the steps is what makes the shares safe; see [`region`](crate::region). A version
//! is put into force only after the database knows that it may be. And a lease is extended only
//! once the version that the database told of is in force: an older one may hold what was given to
//! others long ago.

use std::sync::Arc;
use std::time::Duration;

use crate::limit::Timestamp;
use crate::rules::ledger::Grants;
use crate::rules::share::{FLOOR, Lease, Shares};

#[cfg(test)]
mod tests;

/// What a gateway holds.
pub struct Holder {
    region: String,
    base: f64,
    lease: Duration,
    until: Arc<Lease>,
    applied: i64,
}

/// A word of the database's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// When the database was asked: the lease counts from here.
    pub asked: Timestamp,
    /// The last version there is; 0: none.
    pub version: i64,
}

impl Holder {
    /// A gateway that has heard nothing yet.
    pub fn new(region: &str, base: f64, lease: Duration, until: Arc<Lease>) -> Self {
        Self {
            region: region.to_owned(),
            base,
            lease,
            until,
            applied: 0,
        }
    }

    /// The version in force here; 0: none.
    pub fn applied(&self) -> i64 {
        self.applied
    }

    /// Whether the grants of this version have to be read before it can be put into force.
    pub fn is_new(&self, word: Word) -> bool {
        word.version > self.applied
    }

    /// There is nothing new: what is in force is so for longer.
    pub fn confirm(&mut self, word: Word) {
        if word.version == self.applied && word.version > 0 {
            self.until.extend(word.asked + self.lease);
        }
    }

    /// The shares that a version grants this region, if it knows it. Whoever gets them puts them
    /// into force and then calls [`Holder::in_force`].
    pub fn shares(&self, grants: &Grants) -> Option<Shares> {
        let own = grants.get(&self.region)?;
        let others = grants.iter().filter(|(name, _)| **name != self.region);
        let home = own
            .home
            .then(|| others.map(|(_, granted)| granted.base).collect());
        let tenants = own.tenants.iter();
        Some(Shares {
            base: self.base,
            share: own.share.max(FLOOR.min(self.base)),
            tenants: tenants
                .map(|(tenant, share)| (tenant.as_str().into(), *share))
                .collect(),
            home,
        })
    }

    /// The version of this word is in force.
    pub fn in_force(&mut self, word: Word) {
        self.applied = self.applied.max(word.version);
        self.confirm(word);
    }
}
