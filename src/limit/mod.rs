//! The heart: whether a request is within its tenant's limit.
//!
//! [`Limiter::decide`] is the one question that the rest of Aforo asks. Below it lie the token
//! bucket ([`bucket`]), the rule it is held to ([`rule`]), the trait of whatever keeps buckets
//! ([`store`]), and this gateway's own share for when the store does not answer ([`fallback`], made
//! of an [`account`] for each key and a [`sketch`] of those that find no place; how large the share
//! is, [`instances`] knows). Whether the store is waited for, or asked at all, says the [`watch`]
//! over each of its nodes, made of a [`gate`] and a [`breaker`]; all of them are the [`watches`]. How a very hot bucket is
//! split, [`shard`] says.
//!
//! Beside all that, [`demand`] counts what is asked for, allowed or not, for regions to share by.
//!
//! Nothing here knows HTTP, Redis or SQL, and time comes from a [`clock`] that is handed in.

pub mod account;
pub mod breaker;
pub mod bucket;
pub mod clock;
pub mod counters;
pub mod decision;
pub mod demand;
pub mod entry;
pub mod fallback;
pub mod gate;
pub mod hot;
pub mod instances;
pub mod key;
pub mod keys;
pub mod lease;
pub mod limiter;
pub mod local;
pub mod rate;
pub mod rule;
pub mod shard;
pub mod sketch;
pub mod store;
pub mod sync;
pub mod table;
pub mod waiting;
pub mod watch;
pub mod watches;

pub use bucket::{Ask, Bucket, Grant};
pub use clock::{Clock, ManualClock, MonotonicClock, Timestamp};
pub use decision::{Decision, Source};
pub use key::BucketKey;
pub use limiter::{Limiter, Settings};
pub use rule::{OnStoreFailure, Rule, RuleError};
pub use store::{BucketStore, Call, Heartbeat, StoreError};
