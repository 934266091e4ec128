//! What several gateways share: the store of their buckets, their rules, how many they are, and with which
//! regions.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::store::redis::access::TlsFiles;

/// A store outside this process. Needs a new process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The only kind there is.
    pub redis: Redis,
}

/// How Redis is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// The URL, which may hold a password. It is one that [`Place::parse`](crate::store::redis::url::Place::parse)
    /// reads.
    pub url: Secret,
    /// Where that leads, for people: without credentials.
    pub address: String,
    /// Certificates for a URL with TLS.
    pub tls: TlsFiles,
    /// The budget for everything that a request may wait for, 1 ms to 60 s.
    pub timeout: Duration,
    /// Calls at once per node, at least 1: at the bound a request is decided locally.
    pub in_flight: usize,
    /// When calls are given up for a while.
    pub breaker: Breaker,
}

/// When calls to a store are given up for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// Hard errors in a row that open it.
    pub failures: u32,
    /// The time between two probes while it is open.
    pub probe: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: 5,
            probe: Duration::from_millis(100),
        }
    }
}

/// Where rules come from beside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesSource {
    /// The only kind there is.
    pub postgres: Postgres,
}

/// How the rule table is read. Needs a new process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postgres {
    /// The URL, which may hold a password. It is one that `sqlx` reads.
    pub url: Secret,
    /// Where that is and as whom, for people: without the password.
    pub address: String,
    /// The time between two polls, which find what a lost notification did not tell; more than zero.
    pub refresh: Duration,
    /// Where the last good rules are kept for a start without the database. None: nowhere.
    pub snapshot: Option<PathBuf>,
}

/// The gateways that share a store. Needs a new process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// How many they are.
    pub instances: Instances,
}

/// How many gateways share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instances {
    /// This many, at least 1.
    Fixed(u32),
    /// They are counted through Redis.
    Auto {
        /// What the count never falls below, at least 1.
        at_least: u32,
    },
}

/// One of several regions that share limits. Needs a new process.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Its base share of every limit, from 0.05 to 1.
    pub share: f64,
    /// The time between two computations of the shares, 200 ms to an hour.
    pub rebalance: Duration,
}

/// A text that is never printed: `Debug` and `Display` show `***`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
