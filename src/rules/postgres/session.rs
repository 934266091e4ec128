//! Following the database while a connection lasts: all rules first, then each change.
//!
//! It listens before it loads, so that a change is either loaded or announced. What is known
//! outlives the connection; see [`service`](super::service) for what happens between two of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};
use tracing::{debug, info, warn};

use super::listen::{Changed, Listener};
use super::notes::{Findings, Notes};
use super::row::Row;
use super::version::{Seen, Version};
use super::{PostgresError, load, saved};
use crate::limit::Rule;
use crate::metrics::Metrics;
use crate::rules::layer::{ANY, Builder};
use crate::rules::snapshot::fits;
use crate::rules::{Layer, Publish};

/// How often it is made sure that the connection is alive, at least.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// When many rules changed, every gateway loads all of them: not all at the same moment.
const SPREAD: Duration = Duration::from_millis(500);
/// How long an announcement may be behind the poll that finds its change.
const ANNOUNCED_WITHIN: Duration = Duration::from_millis(300);
/// Rules that are loaded by name at once; for more, all are loaded.
const MOST_NAMED: usize = 1_000;
/// Notifications that are taken together.
const MOST_TOGETHER: usize = 10_000;
/// The least time between two writes of the snapshot file.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// The database's rules, as far as they are known.
pub struct Known {
    publisher: Arc<dyn Publish>,
    metrics: &'static Metrics,
    /// The time between two polls.
    refresh: Duration,
    layer: Arc<Layer>,
    version: Version,
    notes: Notes,
    /// The routes that rows were compared with.
    costs: Vec<(String, u32)>,
    saver: Option<Saver>,
    /// All rules are to be loaded.
    due: Option<Due>,
}

/// A load of all rules that is to come.
struct Due {
    at: Instant,
    /// Unless everything up to what a poll found is known by then.
    unless: Option<Option<i64>>,
}

impl Known {
    /// What is known at first: what was `saved`, which nobody has published yet.
    pub fn new(
        publisher: Arc<dyn Publish>,
        metrics: &'static Metrics,
        refresh: Duration,
        snapshot: Option<PathBuf>,
        saved: Option<Arc<Layer>>,
    ) -> Self {
        Self {
            publisher,
            metrics,
            refresh,
            layer: saved.unwrap_or_default(),
            version: Version::default(),
            notes: Notes::default(),
            costs: Vec::new(),
            saver: snapshot.map(Saver::new),
            due: None,
        }
    }

    /// Loads all rules and puts them into force; `loaded` is called between the two.
    ///
    /// # Errors
    ///
    /// Where the connection does not serve. Nothing has changed then.
    pub async fn load(
        &mut self,
        listener: &mut Listener,
        loaded: impl FnOnce(),
    ) -> Result<(), PostgresError> {
        self.due = None;
        self.costs = self.publisher.costs();
        let started = Instant::now();
        let mut builder = Builder::default();
        let mut findings = Findings::default();
        let loading = async {
            load::all(listener.connection().await?, |row| {
                if let Some(rule) = rule_of(row, &self.layer, &self.costs, &mut findings) {
                    builder.insert(row.tenant, row.route, rule);
                }
            })
            .await
        };
        let version = counted(loading.await, self.metrics)?;
        self.version = Version::loaded(version);
        loaded();
        self.publish(builder.build());
        self.notes.all(findings);
        info!(
            rules = self.layer.len(),
            milliseconds = started.elapsed().as_millis() as u64,
            "rules loaded from PostgreSQL"
        );
        Ok(())
    }

    /// Follows changes for as long as the connection lasts; the error is why it does no more.
    pub async fn follow(&mut self, listener: &mut Listener) -> PostgresError {
        let mut probe = every(PROBE_EVERY.min(self.refresh));
        let mut poll = every(self.refresh);
        loop {
            let due = self.due.as_ref().map(|due| due.at);
            let save = self.saver.as_ref().and_then(|saver| saver.due);
            let step = tokio::select! {
                changed = listener.next() => match changed {
                    Ok(changed) => self.changed(listener, changed).await,
                    Err(error) => Err(error),
                },
                _ = probe.tick() => listener.probe().await.map(|()| self.confirmed()),
                _ = poll.tick() => self.poll(listener).await,
                () = at(due) => self.load_due(listener).await,
                () = at(save) => {
                    self.save_in_background();
                    Ok(())
                }
            };
            if let Err(error) = step {
                return error;
            }
        }
    }

    /// Writes the snapshot file now, where it is behind: for the end of the process.
    pub fn save(&mut self) {
        if let Some(saver) = &mut self.saver
            && saver.due.take().is_some()
        {
            save(&saver.path, &self.layer);
        }
    }

    /// Takes a change that was announced, together with all that are announced by now.
    async fn changed(
        &mut self,
        listener: &mut Listener,
        first: Changed,
    ) -> Result<(), PostgresError> {
        let mut pairs = BTreeSet::new();
        let mut all = false;
        let mut next = Some(first);
        for _ in 0..MOST_TOGETHER {
            let Some(changed) = next else { break };
            match changed {
                Changed::Any => all = true,
                Changed::Rules {
                    version,
                    pairs: named,
                } => match self.version.announced(version) {
                    Seen::Known => {}
                    seen => {
                        all |= seen == Seen::Missed || pairs.len() >= MOST_NAMED;
                        if pairs.len() < MOST_NAMED {
                            pairs.extend(named);
                        }
                    }
                },
            }
            next = listener.waiting()?;
        }
        if let Some(left) = next {
            // Whatever it says is among all rules.
            debug!("a flood of changes, {left:?} and more are left for the next time");
            all = true;
        }
        if all {
            self.load_soon();
        }
        if pairs.is_empty() {
            return Ok(());
        }
        self.load_named(listener, pairs.into_iter().collect()).await
    }

    async fn load_named(
        &mut self,
        listener: &mut Listener,
        pairs: Vec<(String, String)>,
    ) -> Result<(), PostgresError> {
        let mut findings = Findings::default();
        let mut found: Vec<(String, String, Option<Rule>)> = Vec::new();
        let loading = async {
            load::named(listener.connection().await?, &pairs, |row| {
                let rule = rule_of(row, &self.layer, &self.costs, &mut findings);
                found.push((row.tenant.to_owned(), row.route.to_owned(), rule));
            })
            .await
        };
        counted(loading.await, self.metrics)?;
        // A rule that was not found is gone; one that was found comes after that.
        let gone = pairs
            .iter()
            .map(|(tenant, route)| (tenant.as_str(), route.as_str(), None));
        let there = found
            .iter()
            .map(|(tenant, route, rule)| (tenant.as_str(), route.as_str(), *rule));
        let next = self.layer.with(gone.chain(there));
        self.publish(next);
        self.notes.some(&pairs, findings);
        debug!(
            changed = pairs.len(),
            rules = self.layer.len(),
            "rules changed"
        );
        Ok(())
    }

    /// Asks whether a change was missed.
    async fn poll(&mut self, listener: &mut Listener) -> Result<(), PostgresError> {
        let polled = load::version(listener.connection().await?).await;
        let polled = counted(polled, self.metrics)?;
        if self.version.is_beyond(polled) || self.publisher.costs() != self.costs {
            return self.load(listener, || ()).await;
        }
        if self.version.is(polled) {
            self.confirmed();
        } else if self.due.is_none() {
            self.due = Some(Due {
                at: Instant::now() + ANNOUNCED_WITHIN,
                unless: Some(polled),
            });
        }
        Ok(())
    }

    /// All rules are loaded within the spread, whatever a poll said.
    fn load_soon(&mut self) {
        let spread = SPREAD.mul_f64(fastrand::f64());
        let at = Instant::now() + spread;
        let at = self.due.as_ref().map_or(at, |due| due.at.min(at));
        self.due = Some(Due { at, unless: None });
    }

    async fn load_due(&mut self, listener: &mut Listener) -> Result<(), PostgresError> {
        match self.due.take().and_then(|due| due.unless) {
            Some(polled) if self.version.reached(polled) => Ok(()),
            Some(_) => {
                info!("a change of the rules was not announced, loading all of them");
                self.load(listener, || ()).await
            }
            None => self.load(listener, || ()).await,
        }
    }

    fn publish(&mut self, layer: Layer) {
        self.layer = Arc::new(layer);
        self.publisher.publish(Arc::clone(&self.layer));
        self.metrics.rules_reload_ok.inc();
        self.confirmed();
        if let Some(saver) = &mut self.saver {
            saver.changed();
        }
    }

    /// The rules in force are the database's, as of now.
    fn confirmed(&self) {
        if self.due.is_none() {
            self.metrics.rules_confirmed(std::time::Instant::now());
        }
    }

    fn save_in_background(&mut self) {
        if let Some(saver) = &mut self.saver {
            saver.start(Arc::clone(&self.layer));
        }
    }
}

/// The rule that a row makes: its own, or the last good one where it is none any more.
fn rule_of(
    row: &Row<'_>,
    last: &Layer,
    costs: &[(String, u32)],
    findings: &mut Findings,
) -> Option<Rule> {
    let (tenant, route) = (row.tenant, row.route);
    match row.check() {
        Ok(good) => {
            if let Some(what) = good.unsupported {
                findings.add(tenant, route, || {
                    format!("not supported yet: {what}; the rest of the row is in force")
                });
            }
            let decides = |id: &str| route == id || route == ANY;
            for (id, cost) in costs {
                if decides(id) && !fits(&good.rule, *cost) {
                    findings.add(tenant, route, || {
                        format!(
                            "the capacity {} is below the cost {cost} of a request on route {id:?}, \
                             where the row is skipped",
                            good.rule.capacity
                        )
                    });
                }
            }
            Some(good.rule)
        }
        Err(wrong) => {
            let last = last.get(tenant, route).copied();
            findings.add(tenant, route, || match last {
                Some(_) => format!("{wrong}; its last good version stays in force"),
                None => format!("{wrong}; the row is skipped"),
            });
            last
        }
    }
}

/// Counts a load that failed; one that did not counts when its rules are in force.
fn counted<T>(loaded: Result<T, PostgresError>, metrics: &Metrics) -> Result<T, PostgresError> {
    loaded.inspect_err(|_| metrics.rules_reload_error.inc())
}

fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Keeps the snapshot file up to date, now and then.
struct Saver {
    path: PathBuf,
    /// When the next write may begin; none where the file is as it should be.
    due: Option<Instant>,
    last: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

impl Saver {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            due: None,
            last: None,
            writing: None,
        }
    }

    fn changed(&mut self) {
        let next = self.last.map(|last| last + SAVE_EVERY);
        self.due.get_or_insert(next.unwrap_or_else(Instant::now));
    }

    fn start(&mut self, layer: Arc<Layer>) {
        let now = Instant::now();
        self.last = Some(now);
        let under_way = self.writing.as_ref();
        if under_way.is_some_and(|writing| !writing.is_finished()) {
            self.due = Some(now + SAVE_EVERY);
            return;
        }
        self.due = None;
        let path = self.path.clone();
        self.writing = Some(tokio::task::spawn_blocking(move || save(&path, &layer)));
    }
}

fn save(path: &std::path::Path, layer: &Layer) {
    if let Err(error) = saved::write(path, layer) {
        warn!("writing {}: {error}", path.display());
    }
}
