//! SIGHUP and what it may change.
//!
//! The file is read and compiled off to the side. If all of it is right, it takes the place of the
//! old configuration as a whole; if anything is wrong, nothing changes, and log and metrics say
//! so. Buckets live in the limiter, which a reload does not touch.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use thiserror::Error;
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError, Source};
use crate::gateway::door::Doors;
use crate::gateway::publisher::Publisher;
use crate::gateway::snapshot::{Snapshot, SnapshotError};
use crate::gateway::tls;
use crate::limit::Limiter;
use crate::logging::Logging;
use crate::metrics::Metrics;
use crate::store::Store;

/// Why a configuration cannot be put into force.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Each part of it is right, but together they are not.
    #[error("{file}: {error}")]
    Snapshot {
        /// The file.
        file: String,
        /// What is wrong.
        error: SnapshotError,
    },
}

/// A configuration that can be put into force.
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What requests are served by.
    pub snapshot: Snapshot,
    /// What clients of TLS listeners are met by.
    pub tls: tls::Table,
    /// What somebody should see to, though it can be served: one line each.
    pub warnings: Vec<String>,
}

/// Reads `source`, and the files that it names, and compiles it.
///
/// # Errors
///
/// Where anything in it is wrong.
pub fn load(source: &Source, metrics: &Metrics) -> Result<Loaded, LoadError> {
    let config = source.load()?;
    let file = source.to_string();
    let tls = match tls::Table::load(&config.listeners, SystemTime::now()) {
        Ok(tls) => tls,
        Err(problems) => return Err(ConfigError::Meaning { file, problems }.into()),
    };
    let snapshot =
        Snapshot::build(&config, metrics).map_err(|error| LoadError::Snapshot { file, error })?;
    Ok(Loaded {
        config,
        snapshot,
        tls: tls.table,
        warnings: tls.warnings.iter().map(ToString::to_string).collect(),
    })
}

/// Puts a new configuration into force.
pub struct Reloader {
    source: Source,
    /// What is in force: compared with the new one, to name what needs a new process.
    config: Mutex<Config>,
    publisher: Arc<Publisher>,
    limiter: Arc<Limiter<Store>>,
    doors: Arc<Doors>,
    logging: Arc<Logging>,
    metrics: &'static Metrics,
}

impl Reloader {
    /// A reloader for what was loaded from `source`.
    pub fn new(
        source: Source,
        config: Config,
        publisher: Arc<Publisher>,
        limiter: Arc<Limiter<Store>>,
        doors: Arc<Doors>,
        logging: Arc<Logging>,
        metrics: &'static Metrics,
    ) -> Self {
        show(&config, metrics);
        Self {
            source,
            config: Mutex::new(config),
            publisher,
            limiter,
            doors,
            logging,
            metrics,
        }
    }

    /// Reads the configuration again and puts it into force, or changes nothing.
    pub fn reload(&self) {
        let loaded = match load(&self.source, self.metrics) {
            Ok(loaded) => loaded,
            Err(wrong) => {
                self.metrics.config_reload_error.inc();
                for line in wrong.to_string().lines() {
                    error!("configuration not reloaded, the old one stays: {line}");
                }
                return;
            }
        };
        let config = loaded.config;
        let mut current = self.config.lock();
        for key in current.restart_differences(&config) {
            warn!("{key} differs in the file, and needs a restart to take effect");
        }
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        self.publisher.publish_configuration(loaded.snapshot);
        self.doors.publish(&loaded.tls);
        self.limiter.set_batch(config.limits.prefetch_batch);
        self.logging.set_level(config.log.level);
        show(&config, self.metrics);
        self.metrics.config_reload_ok.inc();
        info!(
            routes = config.routes.len(),
            rules = config.limits.rules.len(),
            mode = config.limits.mode.as_str(),
            "configuration reloaded"
        );
        *current = config;
    }
}

/// Shows in the metrics what is in force.
fn show(config: &Config, metrics: &Metrics) {
    use crate::config::Mode;
    metrics.limits_mode.set(match config.limits.mode {
        Mode::Off => 0,
        Mode::Shadow => 1,
        Mode::Enforce => 2,
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // Before 1970 only where the system's clock is wrong; then there is no time to show.
    metrics
        .config_last_reload
        .set(now.map_or(0.0, |now| now.as_secs_f64()));
}
