//! The store of a gateway that stands alone: buckets in this process, gone when it ends.

use crate::limit::local::LocalBuckets;
use crate::limit::{Ask, BucketKey, BucketStore, Call, Clock, Rule};

/// Buckets in a bounded table. Each holds its whole rule.
pub struct MemoryStore<C> {
    buckets: LocalBuckets,
    clock: C,
}

impl<C: Clock> MemoryStore<C> {
    /// An empty store for at most `max_buckets` buckets.
    pub fn new(clock: C, max_buckets: usize) -> Self {
        Self {
            buckets: LocalBuckets::new(max_buckets),
            clock,
        }
    }
}

impl<C: Clock> BucketStore for MemoryStore<C> {
    fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        Call::Done(Ok(self.buckets.take(key, rule, ask, self.clock.now())))
    }

    fn give_back(&self, key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        let now = self.clock.now();
        Call::Done(Ok(self.buckets.give_back(key, rule, tokens, now)))
    }

    fn is_local(&self) -> bool {
        true
    }

    fn local_buckets(&self) -> usize {
        self.buckets.len()
    }
}
