//! A call to the store from its start to its end, which may lie far behind its request's.
//!
//! Each has a task of its own: when its request stops waiting (or its client is gone), the answer
//! is still read, counted and settled, and the call is not cut off half way.

use tokio::time::timeout;
use tracing::warn;

use super::*;
use crate::limit::entry::After;

impl<S: BucketStore, C: Clock> Core<S, C> {
    /// Sends the take of a request that is decided already.
    pub(super) fn send_unasked(self: &Arc<Self>, key: &BucketKey<'_>, question: Question) {
        let terms = self.terms(&question.rule, question.cost);
        let now = self.clock.now();
        let errand = self
            .keys
            .with(question.id, |entry| entry.send_unasked(&terms, now));
        if let Some(errand) = errand.flatten() {
            self.run(Name::of(key), question, errand, true);
        }
    }

    /// Makes a call that no request waits for, where the node is well: a lease can wait.
    pub(super) fn run_unneeded(self: &Arc<Self>, name: Name, question: Question, errand: Errand) {
        let watch = &self.watches[question.node];
        let now = self.clock.now();
        let (way, opened) = watch.way(now);
        if opened {
            self.begin_to_probe(question.node);
        }
        if way == Way::Wait && !watch.is_on_the_way_back(now) {
            return self.run(name, question, errand, true);
        }
        let freed = self
            .keys
            .with(question.id, |entry| entry.failed(errand, true, now));
        let without = if way == Way::Wait {
            Without::Asking
        } else {
            Without::Store
        };
        for waiter in freed.into_iter().flatten() {
            waiter.tell(Err(without));
        }
    }

    /// Makes a call, and hands its answer to those who wait. `back` is false while the share goes
    /// on beside the store.
    pub(super) fn run(
        self: &Arc<Self>,
        name: Name,
        mut question: Question,
        mut errand: Errand,
        back: bool,
    ) {
        let sent_at = self.clock.now();
        let reply = match self.send(&name, &mut question, &mut errand) {
            Call::Waiting(reply) => reply,
            Call::Done(result) => {
                let watch = &self.watches[question.node];
                if watch.turned_down(End::of(&result)) {
                    self.begin_to_probe(question.node);
                }
                self.settle(name, question, errand, result, (sent_at, back));
                return;
            }
        };
        let mark = self.watches[question.node].sent(sent_at);
        let core = Arc::clone(self);
        core.taking.fetch_add(1, Ordering::AcqRel);
        let mut reply = reply;
        tokio::spawn(async move {
            let result = match timeout(core.settings.budget, &mut reply).await {
                Ok(result) => result,
                Err(_) => {
                    let id = question.id;
                    core.keys.with(id, |entry| entry.overdue(&mut errand));
                    reply.await
                }
            };
            let now = core.clock.now();
            let took = now.since(sent_at);
            core.counters.store_call.observe(took);
            core.count_call(&errand, &result, took);
            if core.watches[question.node].ended(mark, End::of(&result), took, now) {
                core.begin_to_probe(question.node);
            }
            core.settle(name, question, errand, result, (sent_at, back));
            core.taking.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// Puts tokens back into their bucket. Done once: who cannot know whether they arrived does not
    /// send them again.
    pub(super) fn give_back(self: &Arc<Self>, name: Name, mut question: Question, tokens: u32) {
        let (way, opened) = self.watches[question.node].way(self.clock.now());
        if opened {
            self.begin_to_probe(question.node);
        }
        let call = (way != Way::Away).then(|| self.send_back(&name, &mut question, tokens));
        let Some(Call::Waiting(reply)) = call else {
            self.counters.leased.expired.add(u64::from(tokens));
            return;
        };
        let sent_at = self.clock.now();
        let mark = self.watches[question.node].sent(sent_at);
        let core = Arc::clone(self);
        core.returning.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(async move {
            let result = reply.await;
            let now = core.clock.now();
            let took = now.since(sent_at);
            let (calls, leased) = (&core.counters.give_backs, &core.counters.leased);
            match &result {
                Ok(_) if took <= core.settings.budget => calls.ok.increment(),
                Ok(_) | Err(StoreError::Lost(_)) => calls.timeout.increment(),
                Err(_) => calls.error.increment(),
            }
            let event = if result.is_ok() {
                &leased.returned
            } else {
                &leased.expired
            };
            event.add(u64::from(tokens));
            if core.watches[question.node].ended(mark, End::of(&result), took, now) {
                core.begin_to_probe(question.node);
            }
            core.returning.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// Settles a call with all who have to do with it.
    fn settle(
        self: &Arc<Self>,
        name: Name,
        question: Question,
        errand: Errand,
        result: TakeResult,
        sent: (Timestamp, bool),
    ) {
        match result {
            Ok(grant) => {
                let whole = self.put_together(&name, question, errand, grant, sent.1);
                if let Some((errand, grant)) = whole {
                    self.settle_grant(name, question, errand, &grant, sent);
                }
            }
            Err(error) => {
                let carried = errand.carried;
                self.settle_error(&question, errand, &error);
                if carried > 0 {
                    self.settle_carried(&name, question, carried);
                }
            }
        }
    }

    /// Takes in what the first part of a split bucket granted, where the second one that was asked for
    /// the rest failed.
    fn settle_carried(self: &Arc<Self>, name: &Name, question: Question, carried: u32) {
        let now = self.clock.now();
        let terms = self.terms(&question.rule, question.cost);
        let carried = self
            .keys
            .with(question.id, |entry| entry.too_late(carried, &terms, now));
        if let Some(after) = carried {
            self.take_in(name, question, &after);
        }
    }

    fn settle_grant(
        self: &Arc<Self>,
        name: Name,
        question: Question,
        errand: Errand,
        grant: &Grant,
        sent: (Timestamp, bool),
    ) {
        let now = self.clock.now();
        let terms = self.terms(&question.rule, question.cost);
        let mut errand = Some(errand);
        let after = self.keys.with_new(question.id, now, |entry| {
            let errand = errand.take()?;
            Some(entry.answered(errand, grant, &terms, sent, now))
        });
        let after = match (after.flatten(), errand) {
            (Some(after), _) => after,
            // No place for the key: its request alone is served, and nothing is remembered.
            (None, Some(errand)) => Entry::new(now).answered(errand, grant, &terms, sent, now),
            (None, None) => return,
        };
        self.take_in(&name, question, &after);
        if after.poll {
            self.begin_to_poll(name.clone(), question);
        }
        if let Some(next) = after.next {
            let question = Question {
                cost: next.ask.cost,
                ..question
            };
            self.run(name, question, next, sent.1);
        }
    }

    /// Counts the tokens that an answer brought beyond what its requests needed, and returns those
    /// for which there is no room.
    pub(super) fn take_in(self: &Arc<Self>, name: &Name, question: Question, after: &After) {
        let counters = &self.counters;
        counters.debt.cancelled.add(u64::from(after.paid));
        let kept = after.leased + after.give_back;
        counters.leased.granted.add(u64::from(kept));
        if after.give_back > 0 {
            self.give_back(name.clone(), question, after.give_back);
        }
    }

    fn settle_error(&self, question: &Question, errand: Errand, error: &StoreError) {
        let now = self.clock.now();
        let untouched = error.is_untouched();
        let mut errand = Some(errand);
        let failed = self.keys.with(question.id, |entry| {
            Some(entry.failed(errand.take()?, untouched, now))
        });
        let waiters = match (failed.flatten(), errand) {
            (Some(waiters), _) => waiters,
            (None, Some(errand)) => errand.waiters,
            (None, None) => return,
        };
        let without = match error {
            StoreError::Busy(_) => Without::Asking,
            StoreError::WrongType(_) | StoreError::Moved(_) => {
                if self.complaints.may_speak(now) {
                    warn!("a request was decided without the store: {error}");
                }
                match error {
                    // A slot that nobody serves is as good as a node that is away.
                    StoreError::Moved(_) => Without::Store,
                    _ => Without::Asking,
                }
            }
            _ => Without::Store,
        };
        for waiter in waiters {
            waiter.tell(Err(without));
        }
    }

    fn count_call(&self, errand: &Errand, result: &TakeResult, took: Duration) {
        let ask = &errand.ask;
        let calls = match errand.purpose {
            Purpose::Poll => &self.counters.polls,
            Purpose::Requests | Purpose::Decided | Purpose::Refill => &self.counters.takes,
        };
        let needed = ask.count.saturating_mul(ask.cost).max(1);
        match result {
            Err(StoreError::Lost(_)) => calls.timeout.increment(),
            Err(_) => calls.error.increment(),
            Ok(_) if took > self.settings.budget => calls.timeout.increment(),
            Ok(grant) if grant.granted >= needed => calls.ok.increment(),
            Ok(_) => calls.short.increment(),
        }
        let untouched = result.as_ref().is_err_and(StoreError::is_untouched);
        if ask.debt > 0 && !untouched {
            self.counters.debt.posted.add(u64::from(ask.debt));
        }
    }
}
