//! Where buckets live: in this process, or in Redis.
//!
//! Both are behind [`BucketStore`], which is all that the limiter knows of them.

pub mod memory;
pub mod redis;

use crate::limit::{Ask, BucketKey, BucketStore, Call, MonotonicClock, Rule};

pub use self::memory::MemoryStore;
pub use self::redis::RedisStore;

/// The store that the configuration chose.
pub enum Store {
    /// Buckets of this process alone.
    Memory(MemoryStore<MonotonicClock>),
    /// Buckets that all gateways share.
    Redis(RedisStore),
}

impl BucketStore for Store {
    fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        match self {
            Self::Memory(store) => store.take(key, rule, ask),
            Self::Redis(store) => store.take(key, rule, ask),
        }
    }

    fn is_local(&self) -> bool {
        match self {
            Self::Memory(store) => store.is_local(),
            Self::Redis(store) => store.is_local(),
        }
    }

    fn local_buckets(&self) -> usize {
        match self {
            Self::Memory(store) => store.local_buckets(),
            Self::Redis(store) => store.local_buckets(),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Self::Memory(store) => store.in_flight(),
            Self::Redis(store) => store.in_flight(),
        }
    }
}
