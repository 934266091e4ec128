//! What the limiter does beside requests: it probes nodes that are not asked, and counts the
//! gateways.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::limit::breaker::Next;

/// The time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a heartbeat may take; nobody waits for it.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(1);

impl<S: BucketStore, C: Clock> Limiter<S, C> {
    /// Begins to count the gateways by heartbeats, if they are to be counted. Must be called within
    /// the runtime in which the store is connected.
    pub fn begin(&self) {
        if self.core.settings.count_instances {
            tokio::spawn(Arc::clone(&self.core).keep_counting());
        }
    }
}

impl<S: BucketStore, C: Clock> Core<S, C> {
    /// Probes a node whose breaker has just opened, until it closes.
    pub(super) fn begin_to_probe(self: &Arc<Self>, node: usize) {
        tokio::spawn(Arc::clone(self).probe_until_closed(node));
    }

    async fn probe_until_closed(self: Arc<Self>, node: usize) {
        let watch = &self.watches[node];
        let pause = self.settings.probe;
        // No longer than until the next one is due, for this one's connection may be dead.
        let within = pause.max(self.settings.budget);
        let mut next = Next::Pause;
        loop {
            let due = jittered(pause);
            match next {
                Next::Pause => sleep(due).await,
                Next::Again => {}
                Next::Done => return,
            }
            let sent_at = self.clock.now();
            if !self.store.has_node(node) {
                watch.vacated(sent_at);
                return;
            }
            let result = timeout(within, self.store.probe(node).finish()).await.ok();
            let now = self.clock.now();
            next = watch.probed(result.as_ref(), now.since(sent_at), now);
        }
    }

    async fn keep_counting(self: Arc<Self>) {
        let id = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        loop {
            let heard = timeout(HEARTBEAT_WITHIN, self.store.heartbeat(&id)).await;
            let heartbeats = &self.counters.heartbeats;
            match heard {
                Ok(Ok(count)) => {
                    heartbeats.ok.increment();
                    self.instances.heard(count, self.clock.now());
                }
                Ok(Err(_)) => {
                    heartbeats.error.increment();
                    self.instances.missed();
                }
                Err(_) => {
                    heartbeats.timeout.increment();
                    self.instances.missed();
                }
            }
            sleep(jittered(HEARTBEAT)).await;
        }
    }
}

/// Between 80 % and 120 % of `pause`, so that gateways do not go in step.
pub(super) fn jittered(pause: Duration) -> Duration {
    // A hasher with fresh seeds is the random number that is at hand.
    let random = RandomState::new().hash_one(()) % 401;
    pause * (800 + random as u32) / 1000
}
