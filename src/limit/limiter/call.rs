//! A call to the store from its start to its end, which may lie far behind its request's.
//!
//! Each has a task of its own: when its request stops waiting (or its client is gone), the answer
//! is still read, counted and settled, and the call is not cut off half way.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::warn;

use super::*;

type Reply = Pin<Box<dyn Future<Output = TakeResult> + Send>>;

impl<S: BucketStore, C: Clock> Core<S, C> {
    /// Sends the take of a request that is decided already. It carries no debt: while the node is
    /// silent nobody knows what becomes of it.
    pub(super) fn send_unasked(self: &Arc<Self>, key: &BucketKey<'_>, question: Question) {
        let Question { id, rule, cost, .. } = question;
        let ask = self.fallback.ask(id, &rule, cost, false, self.clock.now());
        match self.store.take(key, &rule, &ask) {
            Call::Waiting(reply) => self.follow(reply, question, ask, None),
            Call::Done(result) => {
                if let Ok(grant) = self.turned_down(&question, &ask, result) {
                    self.settle_late(&question, &ask, &Ok(grant));
                }
            }
        }
    }

    /// Follows a call to its end, and tells `listener` if there still is one.
    pub(super) fn follow(
        self: &Arc<Self>,
        reply: Reply,
        question: Question,
        ask: Ask,
        listener: Option<oneshot::Sender<TakeResult>>,
    ) {
        let core = Arc::clone(self);
        let sent_at = core.clock.now();
        let mark = core.watches[question.node].sent(sent_at);
        tokio::spawn(async move {
            let result = reply.await;
            let now = core.clock.now();
            let took = now.since(sent_at);
            core.counters.store_call.observe(took);
            let takes = &core.counters.takes;
            match &result {
                Err(StoreError::Lost(_)) => takes.timeout.increment(),
                Err(_) => takes.error.increment(),
                Ok(_) if took > core.settings.budget => takes.timeout.increment(),
                Ok(grant) if grant.granted >= question.cost => takes.ok.increment(),
                Ok(_) => takes.short.increment(),
            }
            let untouched = result.as_ref().is_err_and(StoreError::is_untouched);
            if ask.debt > 0 && !untouched {
                core.counters.debt.posted.add(u64::from(ask.debt));
            }
            if core.watches[question.node].ended(mark, End::of(&result), took, now) {
                core.begin_to_probe(question.node);
            }
            let unheard = match listener {
                Some(listener) => listener.send(result).err(),
                None => Some(result),
            };
            if let Some(result) = unheard {
                core.settle_late(&question, &ask, &result);
            }
        });
    }

    /// Settles a call that the store did not even send.
    pub(super) fn turned_down(
        self: &Arc<Self>,
        question: &Question,
        ask: &Ask,
        result: TakeResult,
    ) -> Result<Grant, Without> {
        let watch = &self.watches[question.node];
        if watch.turned_down(End::of(&result), self.clock.now()) {
            self.begin_to_probe(question.node);
        }
        result.map_err(|error| self.settle_error(question, ask, &error))
    }

    /// Settles an answer that decided nothing.
    pub(super) fn settle_late(&self, question: &Question, ask: &Ask, result: &TakeResult) {
        match result {
            Ok(grant) => {
                let Question { id, rule, .. } = question;
                let now = self.clock.now();
                let late = self.fallback.heard_late(*id, rule, grant, now);
                // Whole tokens, but for what a long outage has paid of one.
                self.counters
                    .debt
                    .cancelled
                    .add(late.cancelled.round() as u64);
            }
            Err(error) => {
                self.settle_error(question, ask, error);
            }
        }
    }

    /// Settles a call that brought no grant, and says whether the store is to blame.
    pub(super) fn settle_error(
        &self,
        question: &Question,
        ask: &Ask,
        error: &StoreError,
    ) -> Without {
        let now = self.clock.now();
        if error.is_untouched() {
            self.fallback.refused(question.id, ask.debt, now);
        } else {
            self.fallback.lost(question.id);
        }
        match error {
            StoreError::Busy(_) => Without::Asking,
            StoreError::WrongType(_) | StoreError::Moved(_) => {
                if self.complaints.may_speak(now) {
                    warn!("a request was decided on this gateway's share: {error}");
                }
                Without::Asking
            }
            _ => Without::Store,
        }
    }
}
