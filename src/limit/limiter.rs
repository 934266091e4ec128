//! The one question: may this request pass?
//!
//! [`Limiter::decide`] asks the bucket store, waits for its answer no longer than the budget, and
//! otherwise lets this gateway's own share decide. Whether it asks and waits at all, the [`Watch`]
//! over the bucket's node says. It knows neither what a request is nor where rules come from.
//! Leases and remembered rejections belong between [`Limiter::decide`] and the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::bucket::{Ask, Grant};
use super::clock::{Clock, MonotonicClock};
use super::counters::Counters;
use super::decision::{Decision, Source};
use super::fallback::{Fallback, KeyId};
use super::instances::Instances;
use super::key::BucketKey;
use super::rule::{OnStoreFailure, Rule};
use super::store::{BucketStore, Call, StoreError, TakeResult};
use super::watch::{Complaints, End, Way};
use super::watches::Watches;

mod background;
mod call;

#[cfg(test)]
mod tests;

/// How a limiter is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest that a request may wait for the store.
    pub budget: Duration,
    /// Gateways that share each limit: what this one may let through by itself is 1/N. Where they
    /// are counted, the fewest that there are.
    pub instances: u32,
    /// Whether they are counted.
    pub count_instances: bool,
    /// Keys that this gateway keeps an account of.
    pub max_local_buckets: usize,
    /// Calls at once for each node; the store keeps to it, the limiter makes room for it.
    pub in_flight: usize,
    /// Hard errors in a row after which a node is no longer asked.
    pub failures: u32,
    /// The time between two probes of a node that is not asked.
    pub probe: Duration,
}

impl Default for Settings {
    /// A gateway that is alone, and the numbers that a configuration has where it says nothing.
    fn default() -> Self {
        Self {
            budget: Duration::from_millis(5),
            instances: 1,
            count_instances: false,
            max_local_buckets: 1_000_000,
            in_flight: 256,
            failures: 5,
            probe: Duration::from_millis(100),
        }
    }
}

/// Decides requests by the buckets of a store.
pub struct Limiter<S, C = MonotonicClock> {
    core: Arc<Core<S, C>>,
}

/// What requests share with the calls that outlive them.
struct Core<S, C> {
    store: S,
    clock: C,
    settings: Settings,
    instances: Arc<Instances>,
    fallback: Fallback,
    /// One for each node.
    watches: Watches,
    counters: Counters,
    /// Keys that cannot be served are named now and then.
    complaints: Complaints,
}

/// What one request asks.
#[derive(Clone, Copy)]
struct Question {
    id: KeyId,
    rule: Rule,
    cost: u32,
    node: usize,
}

/// Why the store did not decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    /// It is away, or too slow: the rule says what happens then.
    Store,
    /// It is well, and this one request is decided here all the same.
    Asking,
}

impl<S: BucketStore, C: Clock> Limiter<S, C> {
    /// A limiter over `store`.
    pub fn new(store: S, clock: C, settings: Settings) -> Self {
        let instances = Arc::new(Instances::new(settings.instances));
        let core = Core {
            watches: Watches::new(settings.budget, settings.failures, settings.in_flight),
            fallback: Fallback::new(Arc::clone(&instances), settings.max_local_buckets),
            counters: Counters::default(),
            complaints: Complaints::default(),
            store,
            clock,
            settings,
            instances,
        };
        Self {
            core: Arc::new(core),
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
        let core = &self.core;
        let asked_at = core.clock.now();
        let decision = if core.store.is_local() {
            core.decide_here(key, rule, cost)
        } else {
            let question = Question {
                id: core.fallback.id(key),
                rule: *rule,
                cost,
                node: core.store.node_of(key),
            };
            core.decide_there(key, question).await
        };
        core.counters
            .decided(decision.source, core.clock.now().since(asked_at));
        decision
    }

    /// What the limiter has counted.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// The watches over the store's nodes; none for a store in this process.
    pub fn watches(&self) -> &Watches {
        &self.core.watches
    }

    /// How many gateways share the limits.
    pub fn instances(&self) -> u32 {
        self.core.instances.get()
    }

    /// The store that the limiter asks.
    pub fn store(&self) -> &S {
        &self.core.store
    }

    /// How many buckets live in this process.
    pub fn local_buckets(&self) -> usize {
        self.core.store.local_buckets() + self.core.fallback.len()
    }
}

impl<S: BucketStore, C: Clock> Core<S, C> {
    /// Decides by a store in this process.
    fn decide_here(&self, key: &BucketKey<'_>, rule: &Rule, cost: u32) -> Decision {
        match self.store.take(key, rule, &Ask::one(cost)) {
            Call::Done(Ok(grant)) => Decision::of_grant(&grant, rule, cost, Source::Memory),
            // A store in this process has no reason to fail, nor to let anybody wait.
            Call::Done(Err(_)) | Call::Waiting(_) => Decision::closed(rule),
        }
    }

    /// Decides by a store elsewhere, or without it.
    async fn decide_there(self: &Arc<Self>, key: &BucketKey<'_>, question: Question) -> Decision {
        let watch = &self.watches[question.node];
        let now = self.clock.now();
        let (way, opened) = watch.way(now);
        if opened {
            self.begin_to_probe(question.node);
        }
        match way {
            Way::Away => self.decide_without(Without::Store, &question),
            Way::Send => {
                // Decided first, so that the answer finds what it has to pay for.
                let decision = self.decide_without(Without::Store, &question);
                self.send_unasked(key, question);
                decision
            }
            Way::Wait if watch.is_on_the_way_back(now) => self.come_back(key, question).await,
            Way::Wait => self.ask(key, question, true).await,
        }
    }

    /// Decides while some gateways are back at the store, and others are not yet or have not said
    /// what they owe: the store and this gateway's share must both let a request pass, or those
    /// who come first would spend what is the others'. One call a key, for all come at once.
    async fn come_back(self: &Arc<Self>, key: &BucketKey<'_>, question: Question) -> Decision {
        let Question { id, rule, cost, .. } = question;
        if self.fallback.is_on_the_way_back(id) {
            return self.decide_without(Without::Asking, &question);
        }
        let share = self.fallback.take_beside(id, &rule, cost, self.clock.now());
        match share {
            Some(grant) if grant.granted < cost => {
                Decision::of_grant(&grant, &rule, cost, Source::Fallback)
            }
            _ => self.ask(key, question, false).await,
        }
    }

    /// Decides without the store.
    fn decide_without(&self, without: Without, question: &Question) -> Decision {
        let Question { id, rule, cost, .. } = question;
        match rule.on_store_failure {
            OnStoreFailure::Open if without == Without::Store => return Decision::open(rule),
            OnStoreFailure::Closed if without == Without::Store => return Decision::closed(rule),
            _ => {}
        }
        let share = self.fallback.take(*id, rule, *cost, self.clock.now());
        self.counters.debt.recorded.add(u64::from(share.owed));
        Decision::of_grant(&share.grant, rule, *cost, Source::Fallback)
    }

    /// The store's grant decides.
    fn decide_by(&self, grant: &Grant, question: &Question, back: bool) -> Decision {
        let Question { id, rule, cost, .. } = question;
        self.fallback
            .heard(*id, rule, grant, back, self.clock.now());
        Decision::of_grant(grant, rule, *cost, Source::Store)
    }

    /// Asks the store, and waits within the budget. `back` is false while the share goes on beside
    /// the store.
    async fn ask(
        self: &Arc<Self>,
        key: &BucketKey<'_>,
        question: Question,
        back: bool,
    ) -> Decision {
        let Question { id, rule, cost, .. } = question;
        let now = self.clock.now();
        let ask = self.fallback.ask(id, &rule, cost, true, now);
        let reply = match self.store.take(key, &rule, &ask) {
            Call::Done(result) => {
                return match self.turned_down(&question, &ask, result) {
                    Ok(grant) => self.decide_by(&grant, &question, back),
                    Err(without) => self.decide_without(without, &question),
                };
            }
            Call::Waiting(reply) => reply,
        };
        let (answer, mut answered) = oneshot::channel();
        self.follow(reply, question, ask, Some(answer));
        let in_time = tokio::time::timeout(self.settings.budget, &mut answered).await;
        let without = match in_time {
            Ok(Ok(Ok(grant))) => return self.decide_by(&grant, &question, back),
            Ok(Ok(Err(error))) => self.settle_error(&question, &ask, &error),
            // The task ended without an answer: its runtime is going down.
            Ok(Err(_)) | Err(_) => Without::Store,
        };
        let decision = self.decide_without(without, &question);
        // Whichever comes first reads the answer: this, or the call's task once nobody listens.
        answered.close();
        if let Ok(result) = answered.try_recv() {
            self.settle_late(&question, &ask, &result);
        }
        decision
    }
}
