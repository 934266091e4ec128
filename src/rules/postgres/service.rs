//! The rules of the database as a service of Pingora's, with a runtime of its own.
//!
//! It keeps trying for as long as the gateway runs. Requests never wait for it, and the start of
//! the gateway does so for a moment only: then it goes on with the snapshot file or with the rules
//! of the configuration file, and says so.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::PostgresError;
use super::listen::Listener;
use super::saved::{self, Saved};
use super::session::Known;
use crate::metrics::Metrics;
use crate::priority;
use crate::rules::{Layer, Publish};

/// How long the start of a gateway waits for the database.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a first failure; it doubles with each further one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where the rules are, and how they are followed.
pub struct Settings {
    /// The URL, which may hold a password.
    pub url: String,
    /// The same for people.
    pub address: String,
    /// The time between two polls.
    pub refresh: Duration,
    /// Where the last good rules are kept.
    pub snapshot: Option<PathBuf>,
}

/// Follows the database.
pub struct RulesService {
    settings: Settings,
    publisher: Arc<dyn Publish>,
    metrics: &'static Metrics,
    ready: watch::Sender<bool>,
}

impl RulesService {
    /// A service that hands the rules to `publisher`.
    pub fn new(settings: Settings, publisher: Arc<dyn Publish>, metrics: &'static Metrics) -> Self {
        // Before the first load, the age counts from here.
        metrics.rules_confirmed(Instant::now());
        Self {
            settings,
            publisher,
            metrics,
            ready: watch::Sender::new(false),
        }
    }

    /// Becomes true when the rules that a start goes on with are in force.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    fn opening(&self) -> (Arc<Opening>, Option<Arc<Layer>>) {
        let path = self.settings.snapshot.as_deref();
        let saved = path.map(saved::read).transpose();
        let saved = saved.unwrap_or_else(|error| {
            warn!("{error}");
            None
        });
        let (layer, fallback) = match saved.flatten() {
            Some(Saved { layer, age }) => {
                let layer = Arc::new(layer);
                (Some(Arc::clone(&layer)), Fallback::Saved(layer, age))
            }
            None => (None, Fallback::File),
        };
        let opening = Opening {
            publisher: Arc::clone(&self.publisher),
            metrics: self.metrics,
            ready: self.ready.clone(),
            pending: Mutex::new(Some(fallback)),
        };
        (Arc::new(opening), layer)
    }
}

#[async_trait]
impl Service for RulesService {
    async fn start_service(
        &mut self,
        _fds: Option<ListenFds>,
        mut shutdown: ShutdownWatch,
        _listeners_per_fd: usize,
    ) {
        // The one thread of this service: loading all rules must not make requests wait for a core.
        priority::lower();
        let (opening, saved) = self.opening();
        let impatient = Arc::clone(&opening);
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            impatient.go_on_without(&format!("no rules within {} s", PATIENCE.as_secs()));
        });
        let mut known = Known::new(
            Arc::clone(&self.publisher),
            self.metrics,
            self.settings.refresh,
            self.settings.snapshot.clone(),
            saved,
        );
        let follower = Follower {
            settings: &self.settings,
            metrics: self.metrics,
            opening: &opening,
        };
        tokio::select! {
            () = follower.follow(&mut known) => {}
            _ = shutdown.changed() => {}
        }
        known.save();
    }

    fn name(&self) -> &str {
        "rules"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

/// What a start without the database goes on with.
enum Fallback {
    /// What was saved, so long ago.
    Saved(Arc<Layer>, Duration),
    /// The configuration file alone.
    File,
}

/// The first rules: the database's, or where those do not come, what was saved.
struct Opening {
    publisher: Arc<dyn Publish>,
    metrics: &'static Metrics,
    ready: watch::Sender<bool>,
    /// What there is to start with, until something is in force.
    pending: Mutex<Option<Fallback>>,
}

impl Opening {
    /// The database's rules come now, and nothing else any more.
    fn close(&self) {
        self.pending.lock().take();
    }

    /// Something is in force.
    fn done(&self) {
        self.ready.send_replace(true);
    }

    /// Goes on without the database, and says so, unless something is in force already.
    fn go_on_without(&self, why: &str) -> bool {
        let mut pending = self.pending.lock();
        let Some(fallback) = pending.take() else {
            return false;
        };
        match fallback {
            Fallback::Saved(layer, age) => {
                warn!(
                    rules = layer.len(),
                    "{why}; starting with the rules that were saved {} s ago, and trying on",
                    age.as_secs()
                );
                if let Some(then) = Instant::now().checked_sub(age) {
                    self.metrics.rules_confirmed(then);
                }
                self.publisher.publish(layer);
            }
            Fallback::File => {
                warn!("{why}; starting with the rules of the file alone, and trying on")
            }
        }
        self.done();
        true
    }
}

/// One connection after the other.
struct Follower<'s> {
    settings: &'s Settings,
    metrics: &'static Metrics,
    opening: &'s Opening,
}

impl Follower<'_> {
    async fn follow(&self, known: &mut Known) {
        let mut failures = 0;
        let mut said = None;
        loop {
            let error = self.one_connection(known, &mut failures).await;
            if failures == 0 {
                said = None;
            }
            let text = format!("PostgreSQL at {}: {error}", self.settings.address);
            let started = self.opening.go_on_without(&text);
            // One line when it goes, one when it is back; and one for each reason where it is there
            // and refuses, for then somebody has to do something.
            let refused = error.refusal();
            if !started && said.as_ref() != Some(&refused) {
                warn!("{text}; the last good rules stay in force");
            } else {
                debug!("{text}");
            }
            said = Some(refused);
            tokio::time::sleep(pause(failures)).await;
            failures += 1;
        }
    }

    /// Connects, loads, and follows; the error is what ended that.
    async fn one_connection(&self, known: &mut Known, failures: &mut u32) -> PostgresError {
        let mut listener = match Listener::connect(&self.settings.url).await {
            Ok(listener) => listener,
            Err(error) => {
                self.metrics.rules_reload_error.inc();
                return error;
            }
        };
        if let Err(error) = known.load(&mut listener, || self.opening.close()).await {
            return error;
        }
        self.opening.done();
        if std::mem::take(failures) > 0 {
            info!("PostgreSQL at {} is back", self.settings.address);
        }
        known.follow(&mut listener).await
    }
}

/// Longer after each failure, and never the same for two gateways.
fn pause(failures: u32) -> Duration {
    let doubled = SHORTEST_PAUSE.saturating_mul(1 << failures.min(10));
    doubled.min(LONGEST_PAUSE).mul_f64(0.5 + fastrand::f64())
}
