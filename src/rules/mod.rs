//! Which rule holds for a tenant on a route: where rules come from, and the one immutable
//! snapshot that requests read.

pub mod snapshot;

pub use self::snapshot::RuleSet;
