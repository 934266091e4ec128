//! Looks after leases: returns what is not needed, polls for saturated keys, and gives everything
//! back at the end.
//!
//! One small task for each hot key, and one more while it is saturated; each ends by itself.

use tokio::time::{Instant, sleep, timeout_at};

use super::background::jittered;
use super::*;
use crate::limit::entry::Polled;

/// The shortest pause between two looks at a lease.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often it is looked whether returned tokens have arrived.
const RETURNED_POLL: Duration = Duration::from_millis(1);
/// Pauses between rounds of returns, where there are more than calls that may be made at once.
const RETURN_PAUSE: Duration = Duration::from_millis(2);

impl<S: BucketStore, C: Clock> Limiter<S, C> {
    /// Gives all leases back, and takes no new ones. Returns when the store has them, and after
    /// `within` at the latest; says how many tokens went back. Must be called within the runtime
    /// in which the store is connected.
    pub async fn close(&self, within: Duration) -> u64 {
        let core = &self.core;
        self.set_batch(0);
        let until = Instant::now() + within;
        let before = core.counters.leased.returned.get();
        // Whatever the budget is, tokens that are held do not wait for it.
        let patience = Instant::now() + core.settings.budget;
        let all_back = async {
            core.give_all_back().await;
            // What calls under way bring goes back when it comes, unless they were answered as the
            // batch was set to 0: so all is looked through once more.
            while core.taking.load(Ordering::Acquire) > 0 && Instant::now() < patience {
                sleep(RETURNED_POLL).await;
            }
            core.give_all_back().await;
            while core.returning.load(Ordering::Acquire) > 0 {
                sleep(RETURNED_POLL).await;
            }
        };
        // What is not back by then is lost, at most H a key.
        let _ = timeout_at(until, all_back).await;
        core.counters.leased.returned.get() - before
    }

    /// Whether tokens are held, or may be on their way.
    pub fn has_leases(&self) -> bool {
        self.leased_tokens() > 0 || self.core.taking.load(Ordering::Acquire) > 0
    }

    /// Tokens that are held to be spent.
    pub fn leased_tokens(&self) -> u64 {
        self.core.counters.leased.held()
    }
}

impl<S: BucketStore, C: Clock> Core<S, C> {
    /// Sends back what all leases hold, no more at once than there may be calls.
    async fn give_all_back(self: &Arc<Self>) {
        let mut leases = Vec::new();
        self.keys.for_each(|id, entry| {
            leases.extend(
                entry
                    .clear()
                    .map(|(name, rule, tokens)| (id, name, rule, tokens)),
            );
        });
        let most = self.settings.in_flight.div_ceil(2).max(1);
        for (sent, (id, name, rule, tokens)) in leases.into_iter().enumerate() {
            if sent % most == most - 1 {
                sleep(RETURN_PAUSE).await;
            }
            while self.returning.load(Ordering::Acquire) >= most {
                sleep(RETURNED_POLL).await;
            }
            let question = self.question(&name.key(), id, &rule, 1);
            self.give_back(name, question, tokens);
        }
    }

    /// Looks after a lease that has just begun.
    pub(super) fn begin_to_keep(self: &Arc<Self>, name: Name, question: Question) {
        tokio::spawn(Arc::clone(self).keep(name, question));
    }

    async fn keep(self: Arc<Self>, name: Name, mut question: Question) {
        loop {
            let now = self.clock.now();
            let n = self.instances.get();
            let batch = self.batch.load(Ordering::Relaxed);
            let kept = self
                .keys
                .with(question.id, |entry| entry.keep(n, batch, now));
            let Some(kept) = kept else {
                return;
            };
            let leased = &self.counters.leased;
            self.counters.debt.cancelled.add(u64::from(kept.paid));
            leased.spent.add(u64::from(kept.paid));
            if kept.give_back > 0 {
                question.rule = kept.rule.unwrap_or(question.rule);
                self.give_back(name.clone(), question, kept.give_back);
            }
            let Some(again_at) = kept.again_at else {
                return;
            };
            sleep(again_at.since(now).max(LOOK_EVERY)).await;
        }
    }

    /// Polls for a key that is saturated from now on.
    pub(super) fn begin_to_poll(self: &Arc<Self>, name: Name, question: Question) {
        let polled = Polling::begin(Arc::clone(self));
        tokio::spawn(async move { polled.0.poll(name, question).await });
    }

    async fn poll(self: &Arc<Self>, name: Name, mut question: Question) {
        // The answer that began this has just said that there is nothing.
        let mut pause = Duration::from_millis(20);
        loop {
            sleep(jittered(pause)).await;
            let now = self.clock.now();
            let n = self.instances.get();
            let (batch, saturated) = (
                self.batch.load(Ordering::Relaxed),
                self.polled.load(Ordering::Relaxed),
            );
            let step = self
                .keys
                .with(question.id, |entry| entry.poll(saturated, n, batch, now));
            pause = match step {
                None | Some(Polled::Over) => return,
                Some(Polled::Pause(pause)) => pause,
                Some(Polled::Call(errand, rule, pause)) => {
                    question.rule = rule;
                    question.cost = errand.ask.cost;
                    self.run_unneeded(name.clone(), question, errand);
                    pause
                }
            };
        }
    }
}

/// One key that is polled, until this is dropped.
struct Polling<S, C>(Arc<Core<S, C>>);

impl<S, C> Polling<S, C> {
    fn begin(core: Arc<Core<S, C>>) -> Self {
        core.polled.fetch_add(1, Ordering::Relaxed);
        Self(core)
    }
}

impl<S, C> Drop for Polling<S, C> {
    fn drop(&mut self) {
        self.0.polled.fetch_sub(1, Ordering::Relaxed);
    }
}
