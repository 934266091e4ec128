//! The one question: may this request pass?
//!
//! [`Limiter::decide`] looks for tokens at hand, and then at what is remembered of the key; it asks
//! the bucket store where neither decides, waits for the answer no longer than the budget, and
//! otherwise lets this gateway's own share decide. Whether it asks and waits at all, the [`Watch`]
//! over the bucket's node says. It knows neither what a request is nor where rules come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use ahash::RandomState;

use super::bucket::{Ask, Grant};
use super::clock::{Clock, MonotonicClock, Timestamp};
use super::counters::Counters;
use super::decision::{Decision, Source};
use super::entry::{ComeBack, Entry, Join, Spend};
use super::hot;
use super::instances::Instances;
use super::key::{BucketKey, Name};
use super::keys::Keys;
use super::lease::Terms;
use super::rule::{OnStoreFailure, Rule};
use super::shard::Turns;
use super::store::{BucketStore, Call, StoreError, TakeResult};
use super::table::KeyId;
use super::waiting::{Answered, Errand, Purpose, Without};
use super::watch::{Complaints, End, Way};
use super::watches::Watches;

mod background;
mod call;
mod keep;
mod split;

use split::Part;

#[cfg(test)]
mod tests;

/// Decisions from a lease are so many and so fast that only one in so many is timed.
const SAMPLE_EVERY: u64 = 16;

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
    /// The most tokens of a hot key that are asked for at once; 0: every request asks the store.
    pub batch: u32,
    /// Keys that this gateway remembers anything of.
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
            batch: 50,
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
    keys: Keys,
    /// One for each node.
    watches: Watches,
    counters: Counters,
    /// Whose turn it is among the parts of buckets that are split.
    turns: Turns,
    /// Keys that are polled.
    polled: AtomicUsize,
    /// Calls under way that take tokens.
    taking: AtomicUsize,
    /// Calls under way that give tokens back.
    returning: AtomicUsize,
    /// The most tokens that are asked for at once; 0: there are no leases.
    batch: AtomicU32,
    /// Keys that cannot be served are named now and then.
    complaints: Complaints,
}

/// What one request asks.
#[derive(Clone, Copy)]
struct Question {
    id: KeyId,
    rule: Rule,
    cost: u32,
    /// The node that is asked, or would be.
    node: usize,
    /// The part of the bucket that is asked, where it is split.
    part: Option<Part>,
}

impl<S: BucketStore, C: Clock> Limiter<S, C> {
    /// A limiter over `store`.
    pub fn new(store: S, clock: C, settings: Settings) -> Self {
        let instances = Arc::new(Instances::new(settings.instances));
        let core = Core {
            watches: Watches::new(settings.budget, settings.failures, settings.in_flight),
            keys: Keys::new(Arc::clone(&instances), settings.max_local_buckets),
            counters: Counters::default(),
            turns: Turns::new(RandomState::new().hash_one(()) as u32),
            polled: AtomicUsize::new(0),
            taking: AtomicUsize::new(0),
            returning: AtomicUsize::new(0),
            batch: AtomicU32::new(settings.batch),
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
        if core.store.is_local() {
            let decision = core.decide_here(key, rule, cost);
            core.count(&decision, asked_at);
            return decision;
        }
        let id = core.keys.id(key);
        if let Some(decision) = core.decide_by_lease(key, id, rule, cost, asked_at) {
            let before = core.counters.lease.next();
            if before.is_multiple_of(SAMPLE_EVERY) {
                let took = core.clock.now().since(asked_at);
                core.counters.decision.observe_many(took, SAMPLE_EVERY);
            }
            return decision;
        }
        let question = core.question(key, id, rule, cost);
        // Apart, so that the many requests which end above do not carry the room that this needs.
        let decision = Box::pin(core.decide_there(key, question)).await;
        core.count(&decision, asked_at);
        decision
    }

    /// Changes how many tokens of a hot key are asked for at once; 0: none.
    pub fn set_batch(&self, batch: u32) {
        self.core.batch.store(batch, Ordering::Relaxed);
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
        self.core.store.local_buckets() + self.core.keys.len()
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

    /// Decides by tokens at hand, if there are enough.
    fn decide_by_lease(
        self: &Arc<Self>,
        key: &BucketKey<'_>,
        id: KeyId,
        rule: &Rule,
        cost: u32,
        now: Timestamp,
    ) -> Option<Decision> {
        let terms = self.terms(rule, cost);
        let spend = self.keys.with(id, |entry| entry.spend(&terms, now))??;
        let Spend {
            level,
            refill,
            died,
        } = spend;
        if let Some(errand) = refill {
            self.run_unneeded(Name::of(key), self.question(key, id, rule, cost), errand);
        }
        if died > 0 {
            let question = self.question(key, id, rule, cost);
            self.give_back(Name::of(key), question, died);
        }
        let level = level?;
        self.counters.leased.spent.add(u64::from(cost));
        Some(Decision {
            allowed: true,
            rule: *rule,
            level,
            retry_after: None,
            source: Source::Lease,
        })
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
            Way::Wait => self.ask(key, question).await,
        }
    }

    /// Decides by what is remembered of the key, or by the store's answer.
    async fn ask(self: &Arc<Self>, key: &BucketKey<'_>, question: Question) -> Decision {
        let Question { id, rule, cost, .. } = question;
        let now = self.clock.now();
        let terms = self.terms(&rule, cost);
        let mut begun = None;
        let join = self.keys.with_new(id, now, |entry| {
            // A lease knows its own demand, and measures it better.
            if terms.allows_leases() && !entry.has_lease() {
                let demand = self.keys.demand(id, &terms, now);
                if demand >= hot::THRESHOLD {
                    let name = Name::of(key);
                    begun = Some(name.clone());
                    entry.begin_lease(name, &terms, demand, now);
                }
            }
            entry.join(&terms, || Name::of(key), now)
        });
        if let Some(name) = begun {
            self.begin_to_keep(name, question);
        }
        match join {
            Some(Join::Denied(grant)) => Decision::of_grant(&grant, &rule, cost, Source::Denied),
            Some(Join::Call(errand, answered)) => {
                self.run(Name::of(key), question, errand, true);
                self.wait(key, question, answered).await
            }
            Some(Join::Wait(answered)) => self.wait(key, question, answered).await,
            None => {
                let (errand, answered) = Errand::of_one(Ask::one(cost));
                self.run(Name::of(key), question, errand, true);
                self.wait(key, question, answered).await
            }
        }
    }

    /// Decides while some gateways are back at the store, and others are not yet or have not said
    /// what they owe: the store and this gateway's share must both let a request pass, or those
    /// who come first would spend what is the others'. One call a key, for all come at once.
    async fn come_back(self: &Arc<Self>, key: &BucketKey<'_>, question: Question) -> Decision {
        let Question { id, rule, cost, .. } = question;
        let now = self.clock.now();
        let terms = self.terms(&rule, cost);
        let (errand, answered) = match self.keys.with(id, |entry| entry.come_back(&terms, now)) {
            Some(ComeBack::UnderWay) => return self.decide_without(Without::Asking, &question),
            Some(ComeBack::Rejected(grant)) => {
                return Decision::of_grant(&grant, &rule, cost, Source::Fallback);
            }
            Some(ComeBack::Call(errand, answered)) => (errand, answered),
            None => Errand::of_one(Ask::one(cost)),
        };
        self.run(Name::of(key), question, errand, false);
        self.wait(key, question, answered).await
    }

    /// Waits for an answer, within the budget.
    async fn wait(
        self: &Arc<Self>,
        key: &BucketKey<'_>,
        question: Question,
        mut answered: Answered,
    ) -> Decision {
        let Question { id, rule, cost, .. } = question;
        let by_store = |grant| Decision::of_grant(&grant, &rule, cost, Source::Store);
        let in_time = tokio::time::timeout(self.settings.budget, &mut answered).await;
        let without = match in_time {
            Ok(Ok(Ok(grant))) => return by_store(grant),
            Ok(Ok(Err(without))) => without,
            // The call ended without an answer: its runtime is going down.
            Ok(Err(_)) | Err(_) => Without::Store,
        };
        let decision = self.decide_without(without, &question);
        // Whichever comes first takes the answer: this, or whoever brings it once nobody listens.
        answered.close();
        if let Ok(Ok(grant)) = answered.try_recv()
            && grant.granted > 0
        {
            let now = self.clock.now();
            let terms = self.terms(&rule, cost);
            let late = |entry: &mut Entry| entry.too_late(grant.granted, &terms, now);
            if let Some(after) = self.keys.with(id, late) {
                self.take_in(&Name::of(key), question, &after);
            }
        }
        decision
    }

    /// Decides without the store.
    fn decide_without(&self, without: Without, question: &Question) -> Decision {
        let Question { id, rule, cost, .. } = question;
        match rule.on_store_failure {
            OnStoreFailure::Open if without == Without::Store => return Decision::open(rule),
            OnStoreFailure::Closed if without == Without::Store => return Decision::closed(rule),
            _ => {}
        }
        let share = self.keys.take(*id, rule, *cost, self.clock.now());
        self.counters.debt.recorded.add(u64::from(share.owed));
        Decision::of_grant(&share.grant, rule, *cost, Source::Fallback)
    }

    /// What sizes a lease under `rule`.
    fn terms<'r>(&self, rule: &'r Rule, cost: u32) -> Terms<'r> {
        Terms {
            rule,
            instances: self.instances.get(),
            batch: self.batch.load(Ordering::Relaxed),
            cost,
        }
    }

    fn question(
        self: &Arc<Self>,
        key: &BucketKey<'_>,
        id: KeyId,
        rule: &Rule,
        cost: u32,
    ) -> Question {
        Question {
            id,
            rule: *rule,
            cost,
            node: self.node_for(key, id, rule, cost),
            part: None,
        }
    }

    fn count(&self, decision: &Decision, asked_at: Timestamp) {
        let took = self.clock.now().since(asked_at);
        self.counters.decided(decision.source, took);
    }
}
