//! What the integration tests share: real processes on free ports in temporary folders, a raw
//! HTTP client, and conditions with deadlines.
//!
//! Everything is handed in and stops when it is dropped. A test that needs something to happen
//! says so with [`eventually`]; it never sleeps for luck.

// Each test crate uses its own part of this.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used)]

mod cable;
mod check;
mod client;
mod config;
mod curl;
mod documented;
mod gateway;
mod http1;
mod load;
mod metrics;
mod paced;
mod postgres;
mod process;
mod redis_cluster;
mod redis_server;
mod sentinel;
mod signal;
mod tls;
mod upstream;
mod wait;

pub use cable::Cable;
pub use check::check;
pub use client::{Client, PREFACES, Response};
pub use config::{Config, ONE_A_DAY, ONE_A_MINUTE, ONE_AN_HOUR, Store};
pub use curl::{Curled, curl, curl_tls};
pub use documented::documented_user;
pub use gateway::{Gateway, Ports};
pub use load::{Load, Report, burst};
pub use metrics::Metrics;
pub use paced::Paced;
pub use postgres::{ANNOUNCED, Postgres, Session};
pub use process::Process;
pub use redis_cluster::Cluster;
pub use redis_server::{Redis, bucket_key, program as redis_program};
pub use sentinel::{Group, Sentinel};
pub use signal::send_signal;
pub use tls::{Authority, Files, TlsClient, TlsConnection};
pub use upstream::{Answer, Seen, Upstream};
pub use wait::{PATIENCE, eventually, free_port, within};

use std::time::Instant;

/// Checks a number of whole seconds that counted down from `from` since `since`, rounded up.
#[track_caller]
pub fn assert_counts_down(seconds: u64, from: u64, since: Instant) {
    let passed = since.elapsed().as_secs() + 1;
    assert!(
        seconds <= from && seconds + passed >= from,
        "{seconds} s, expected {from} s or at most {passed} s less"
    );
}
