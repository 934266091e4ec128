//! Log lines: one an event, on standard error, as text or JSON, of Aforo and of Pingora alike.
//!
//! Lines are handed to a thread that writes them: a request never waits for a terminal or a disk.
//! Where lines come faster than they can be written, some are dropped rather than kept in memory
//! without bound.

use std::io;

use parking_lot::Mutex;
use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::config::{Format, Level, Log};

/// Lines that may wait to be written.
const BUFFERED_LINES: usize = 16 * 1024;

/// The log of this process.
pub struct Logging {
    filter: reload::Handle<Targets, Registry>,
    /// Writes what is left when it is dropped.
    writer: Mutex<Option<WorkerGuard>>,
}

/// Why there is no log.
#[derive(Debug, Error)]
#[error("cannot set up logging: {0}")]
pub enum LoggingError {
    /// Somebody else has set one up in this process.
    Taken(#[from] TryInitError),
    /// The same, said otherwise.
    Default(#[from] SetGlobalDefaultError),
}

impl Logging {
    /// Sets the log up. Once for a process.
    ///
    /// # Errors
    ///
    /// Where this process has a log already.
    pub fn init(config: &Log, format: Format) -> Result<Self, LoggingError> {
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(BUFFERED_LINES)
            .thread_name("aforo-log")
            .finish(io::stderr());
        let lines = fmt::layer().with_writer(writer).with_ansi(false);
        let lines = match format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        let (filter, handle) = reload::Layer::new(targets(config.level));
        tracing_subscriber::registry()
            .with(filter)
            .with(lines)
            .try_init()?;
        Ok(Self {
            filter: handle,
            writer: Mutex::new(Some(guard)),
        })
    }

    /// Writes all lines that wait to be written. The log's last act.
    pub fn finish(&self) {
        drop(self.writer.lock().take());
    }

    /// Changes the level.
    pub fn set_level(&self, level: Level) {
        // Fails only where the log is gone, and then there is nothing to change.
        let _ = self.filter.reload(targets(level));
    }
}

/// Which lines are written. What Pingora says at `info` is of no use to an operator, and the lines
/// that its proxy writes for each failed exchange, and for each client that ends before HTTP/2 has
/// begun, would flood the log when clients abort or an upstream is down: what an operator needs of
/// it, the gateway says itself, and once.
fn targets(level: Level) -> Targets {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let targets = Targets::new().with_default(level);
    if level >= LevelFilter::DEBUG {
        return targets;
    }
    ["pingora", "hyper", "h2", "tokio", "redis"]
        .into_iter()
        .fold(targets, |targets, dependency| {
            targets.with_target(dependency, level.min(LevelFilter::WARN))
        })
        .with_target("pingora_proxy", LevelFilter::OFF)
        .with_target("pingora_core::apps", LevelFilter::OFF)
}
