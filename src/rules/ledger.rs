//! What the database knows of the regions that share every limit: plain data, read and written as
//! a whole. What is to be done with it is the business of [`region`](crate::region), how it is
//! stored that of [`postgres::region`](super::postgres::region).

use std::collections::BTreeMap;
use std::time::Duration;

/// What a region was granted in one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// Its base share at the time.
    pub base: f64,
    /// Whether it holds what is too small to be split.
    pub home: bool,
    /// Its share of the limits of every tenant that is not named.
    pub share: f64,
    /// Its share of the limits of some.
    pub tenants: BTreeMap<String, f64>,
}

impl Granted {
    /// The share of a tenant's limits; of those of no tenant in particular where it is `None`.
    pub fn of(&self, tenant: Option<&str>) -> f64 {
        let own = tenant.and_then(|tenant| self.tenants.get(tenant));
        own.copied().unwrap_or(self.share)
    }
}

/// What all regions were granted in one version, by name. Never changes.
pub type Grants = BTreeMap<String, Granted>;

/// What one gateway said of itself last.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// Its region.
    pub region: String,
    /// Its name: that of one process, never used again.
    pub gateway: String,
    /// The base share in its configuration.
    pub base: f64,
    /// How long it holds what is above its base share without a word from the database.
    pub lease: Duration,
    /// How many gateways there are in its region, as far as it knows.
    pub instances: u32,
    /// The version that is in force there; 0: none, it holds the smallest share there is.
    pub applied: i64,
    /// The version that it was told of at the same moment, and may have put into force since.
    pub pending: i64,
    /// The number of this word; a later one has a larger one.
    pub beat: i64,
}

/// All that there is at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// The last version; 0: there is none.
    pub version: i64,
    /// Every version that some gateway may have in force, and the last one.
    pub grants: BTreeMap<i64, Grants>,
    /// Every gateway.
    pub gateways: Vec<Beat>,
    /// What whoever computed the shares last wants to be remembered.
    pub memory: String,
}

impl Ledger {
    /// The last version that anybody may know of.
    pub fn last_known(&self) -> i64 {
        let known = self.gateways.iter();
        let known = known.flat_map(|gateway| [gateway.applied, gateway.pending]);
        known.fold(self.version, i64::max)
    }

    /// Whether some gateway knows of a later version than the database: that has forgotten what it
    /// had committed, as a replica does that lagged behind when it took over.
    pub fn has_lost_versions(&self) -> bool {
        self.last_known() > self.version
    }
}

/// What a region as a whole asked for of one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The region.
    pub region: String,
    /// Who asked.
    pub tenant: String,
    /// For what.
    pub route: String,
    /// Tokens in a second.
    pub demand: f64,
    /// Tokens that the limit as a whole gives in a second.
    pub refill: f64,
}

/// What changes in the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The next version, if there is one.
    pub grants: Option<Grants>,
    /// Gateways that are gone for good.
    pub gone: Vec<(String, String)>,
    /// What is to be remembered.
    pub memory: String,
}
