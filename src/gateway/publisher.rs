//! Puts snapshots into force: the one place that does, for a new configuration and for new rules
//! of the database alike, which may come at the same moment.
//!
//! A snapshot that was replaced is kept until no request holds it any more, and is then dropped by
//! a thread of its own: of 300,000 rules that takes longer than any request should.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::snapshot::Snapshot;
use crate::metrics::Metrics;
use crate::priority;
use crate::rules::{Layer, Publish, Regional, RuleSet};

#[cfg(test)]
mod tests;

/// How often it is looked whether replaced snapshots are still held.
const SWEEP_EVERY: Duration = Duration::from_millis(50);

/// Puts snapshots into force.
pub struct Publisher {
    current: Arc<ArcSwap<Snapshot>>,
    /// One writer at a time: each makes the next snapshot of the last.
    retired: Mutex<Sender<Arc<Snapshot>>>,
    metrics: &'static Metrics,
}

impl Publisher {
    /// A publisher of what follows on `first`.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread.
    pub fn new(first: Snapshot, metrics: &'static Metrics) -> io::Result<Self> {
        let (retired, replaced) = channel();
        thread::Builder::new()
            .name("aforo-retired".to_owned())
            .spawn(move || {
                priority::lower();
                drop_unheld(&replaced);
            })?;
        metrics.rules.set(first.rules.len() as i64);
        Ok(Self {
            current: Arc::new(ArcSwap::from_pointee(first)),
            retired: Mutex::new(retired),
            metrics,
        })
    }

    /// Where requests find what is in force.
    pub fn current(&self) -> Arc<ArcSwap<Snapshot>> {
        Arc::clone(&self.current)
    }

    /// This region holds these parts of the limits from now on.
    pub fn publish_region(&self, region: Arc<Regional>) {
        let shown = Arc::clone(&region);
        self.metrics.watch_region(Box::new(move || shown.share()));
        self.replace(|old| Snapshot {
            site: Arc::clone(&old.site),
            rules: RuleSet {
                region: Some(region),
                ..old.rules.clone()
            },
        });
    }

    /// Puts a new configuration into force, and with it the rules of the file. Those of the
    /// database stay, and this region's shares.
    pub fn publish_configuration(&self, new: Snapshot) {
        self.replace(|old| Snapshot {
            site: new.site,
            rules: RuleSet {
                database: Arc::clone(&old.rules.database),
                region: old.rules.region.clone(),
                ..new.rules
            },
        });
    }

    fn replace(&self, next: impl FnOnce(&Snapshot) -> Snapshot) {
        let retired = self.retired.lock();
        let next = Arc::new(next(&self.current.load()));
        self.metrics.rules.set(next.rules.len() as i64);
        // The receiver goes with its thread, which never ends before this does.
        let _ = retired.send(self.current.swap(next));
    }
}

impl Publish for Publisher {
    fn publish(&self, database: Arc<Layer>) {
        self.replace(|old| Snapshot {
            site: Arc::clone(&old.site),
            rules: RuleSet {
                database,
                ..old.rules.clone()
            },
        });
    }

    fn costs(&self) -> Vec<(String, u32)> {
        let current = self.current.load();
        let routes = current.routes.iter();
        routes.map(|route| (route.id.clone(), route.cost)).collect()
    }
}

/// Drops each snapshot that arrives, once nobody else holds it. After a swap there is no way to
/// come to hold it anew, so that the count only falls.
fn drop_unheld(replaced: &Receiver<Arc<Snapshot>>) {
    let mut held = Vec::new();
    loop {
        let next = if held.is_empty() {
            replaced.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            replaced.recv_timeout(SWEEP_EVERY)
        };
        match next {
            Ok(snapshot) => held.push(snapshot),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        held.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }
}
