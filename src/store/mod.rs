//! Where buckets live: in this process, or in Redis.
//!
//! Both are behind [`BucketStore`], which is all that the limiter knows of them.

pub mod memory;
pub mod redis;

use crate::limit::{Ask, BucketKey, BucketStore, Call, Heartbeat, MonotonicClock, Rule};

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

    fn give_back(&self, key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        match self {
            Self::Memory(store) => store.give_back(key, rule, tokens),
            Self::Redis(store) => store.give_back(key, rule, tokens),
        }
    }

    fn has_parts(&self) -> bool {
        match self {
            Self::Memory(store) => store.has_parts(),
            Self::Redis(store) => store.has_parts(),
        }
    }

    fn take_part(&self, key: &BucketKey<'_>, part: u32, rule: &Rule, ask: &Ask) -> Call {
        match self {
            Self::Memory(store) => store.take_part(key, part, rule, ask),
            Self::Redis(store) => store.take_part(key, part, rule, ask),
        }
    }

    fn give_back_part(&self, key: &BucketKey<'_>, part: u32, rule: &Rule, tokens: u32) -> Call {
        match self {
            Self::Memory(store) => store.give_back_part(key, part, rule, tokens),
            Self::Redis(store) => store.give_back_part(key, part, rule, tokens),
        }
    }

    fn node_of_part(&self, key: &BucketKey<'_>, part: u32) -> usize {
        match self {
            Self::Memory(store) => store.node_of_part(key, part),
            Self::Redis(store) => store.node_of_part(key, part),
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Self::Memory(store) => store.nodes(),
            Self::Redis(store) => store.nodes(),
        }
    }

    fn has_node(&self, node: usize) -> bool {
        match self {
            Self::Memory(store) => store.has_node(node),
            Self::Redis(store) => store.has_node(node),
        }
    }

    fn node_of(&self, key: &BucketKey<'_>) -> usize {
        match self {
            Self::Memory(store) => store.node_of(key),
            Self::Redis(store) => store.node_of(key),
        }
    }

    fn probe(&self, node: usize) -> Call {
        match self {
            Self::Memory(store) => store.probe(node),
            Self::Redis(store) => store.probe(node),
        }
    }

    fn heartbeat(&self, id: &str) -> Heartbeat {
        match self {
            Self::Memory(store) => store.heartbeat(id),
            Self::Redis(store) => store.heartbeat(id),
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

    fn in_flight(&self, node: usize) -> usize {
        match self {
            Self::Memory(store) => store.in_flight(node),
            Self::Redis(store) => store.in_flight(node),
        }
    }
}
