//! Which rule holds for a tenant on a route: where rules come from, and the one immutable
//! snapshot that requests read.
//!
//! Rules come from the [`file`] and from [`postgres`]; each source is a [`layer`], and a
//! [`snapshot`] is what holds of both. Where there are several regions, [`share`] says which part of
//! a rule is this one's, and [`ledger`] is what the database knows of all of them. All SQL of Aforo is in [`postgres`]. What puts a snapshot
//! into force lies above, behind the trait [`Publish`].

pub mod file;
pub mod layer;
pub mod ledger;
pub mod postgres;
pub mod share;
pub mod snapshot;

use std::sync::Arc;

pub use self::layer::Layer;
pub use self::share::Regional;
pub use self::snapshot::RuleSet;

/// Puts rules into force.
pub trait Publish: Send + Sync + 'static {
    /// The database's rules are these from now on.
    fn publish(&self, database: Arc<Layer>);

    /// The routes that are served, each with what one request on it costs.
    fn costs(&self) -> Vec<(String, u32)>;
}
