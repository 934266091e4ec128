//! The one question: may this request pass?
//!
//! [`Limiter::decide`] asks the bucket store, waits for its answer no longer than the budget, and
//! otherwise lets this gateway's own share decide. It knows neither what a request is nor where
//! rules come from. Leases, remembered rejections, the stall gate and the breaker belong between
//! [`Limiter::decide`] and the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::bucket::{Ask, Grant};
use super::clock::{Clock, MonotonicClock, Timestamp};
use super::counters::Counters;
use super::decision::{Decision, Source};
use super::fallback::Fallback;
use super::key::BucketKey;
use super::rule::Rule;
use super::store::{BucketStore, Call, TakeResult};

#[cfg(test)]
mod tests;

/// How a limiter is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest that a request may wait for the store.
    pub budget: Duration,
    /// Gateways that share each limit: what this one may let through by itself is 1/N.
    pub instances: u32,
    /// Buckets of the fallback.
    pub max_local_buckets: usize,
}

/// Decides requests by the buckets of a store.
pub struct Limiter<S, C = MonotonicClock> {
    store: S,
    clock: Arc<C>,
    budget: Duration,
    fallback: Fallback,
    counters: Arc<Counters>,
}

impl<S: BucketStore, C: Clock> Limiter<S, C> {
    /// A limiter over `store`.
    pub fn new(store: S, clock: C, settings: Settings) -> Self {
        Self {
            store,
            clock: Arc::new(clock),
            budget: settings.budget,
            fallback: Fallback::new(settings.instances, settings.max_local_buckets),
            counters: Arc::default(),
        }
    }

    /// Decides one request that takes `cost` tokens, at least 1, from the bucket of `key`.
    ///
    /// Never waits longer than the budget, and not at all for a store in this process. Must be
    /// called within a tokio runtime with a timer where the store is a remote one.
    pub async fn decide(&self, key: &BucketKey<'_>, rule: &Rule, cost: u32) -> Decision {
        if f64::from(cost) > rule.capacity {
            return Decision::oversized(rule);
        }
        let asked_at = self.clock.now();
        let decision = match self.store.take(key, rule, &Ask::one(cost)) {
            Call::Done(Ok(grant)) if self.store.is_local() => {
                Decision::of_grant(&grant, rule, cost, Source::Memory)
            }
            Call::Done(result) => self.settle(result.ok(), key, rule, cost),
            Call::Waiting(reply) => {
                let answer = self.within_budget(reply, cost, asked_at).await;
                self.settle(answer, key, rule, cost)
            }
        };
        self.counters
            .decided(decision.source, self.clock.now().since(asked_at));
        decision
    }

    /// What the limiter has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The store that the limiter asks.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// How many buckets live in this process.
    pub fn local_buckets(&self) -> usize {
        self.store.local_buckets() + self.fallback.buckets()
    }

    /// The store's grant decides; without one, this gateway's share does, at once.
    fn settle(
        &self,
        grant: Option<Grant>,
        key: &BucketKey<'_>,
        rule: &Rule,
        cost: u32,
    ) -> Decision {
        match grant {
            Some(grant) => Decision::of_grant(&grant, rule, cost, Source::Store),
            None => {
                let grant = self.fallback.take(key, rule, cost, self.clock.now());
                Decision::of_grant(&grant, rule, cost, Source::Fallback)
            }
        }
    }

    /// The answer of a take that is on its way, or nothing after the budget.
    ///
    /// The call has a task of its own: when its request stops waiting (or its client is gone),
    /// the answer is still read and counted, and the call is not cut off half way.
    async fn within_budget(
        &self,
        reply: impl Future<Output = TakeResult> + Send + 'static,
        cost: u32,
        asked_at: Timestamp,
    ) -> Option<Grant> {
        let (answer, answered) = oneshot::channel();
        let counters = Arc::clone(&self.counters);
        let clock = Arc::clone(&self.clock);
        let budget = self.budget;
        tokio::spawn(async move {
            let result = reply.await;
            let took = clock.now().since(asked_at);
            counters.store_call.observe(took);
            match &result {
                _ if took > budget => counters.late.increment(),
                Ok(grant) if grant.granted >= cost => counters.takes.ok.increment(),
                Ok(_) => counters.takes.short.increment(),
                Err(_) => counters.takes.error.increment(),
            }
            // Nobody waits for a late answer any more, and that is no error.
            let _ = answer.send(result);
        });
        match tokio::time::timeout(self.budget, answered).await {
            Ok(Ok(result)) => result.ok(),
            // The task ended without an answer: its runtime is going down.
            Ok(Err(_)) => None,
            Err(_) => {
                self.counters.takes.timeout.increment();
                None
            }
        }
    }
}
