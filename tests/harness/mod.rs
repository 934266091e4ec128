//! What the integration tests share: real processes on free ports in temporary folders, a raw
//! HTTP client, and conditions with deadlines.
//!
//! Everything is handed in and stops when it is dropped. A test that needs something to happen
//! says so with [`eventually`]; it never sleeps for luck.

// Each test crate uses its own part of this.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used)]

mod cable;
mod client;
mod config;
mod curl;
mod gateway;
mod http1;
mod load;
mod metrics;
mod paced;
mod postgres;
mod process;
mod redis_cluster;
mod redis_server;
mod tls;
mod upstream;

pub use cable::Cable;
pub use client::{Client, Response};
pub use config::{Config, ONE_A_DAY, ONE_A_MINUTE, ONE_AN_HOUR, Store};
pub use curl::{Curled, curl, curl_tls};
pub use gateway::{Gateway, Ports};
pub use load::{Load, Report, burst};
pub use metrics::Metrics;
pub use paced::Paced;
pub use postgres::{ANNOUNCED, Postgres, Session};
pub use process::{Process, send_signal};
pub use redis_cluster::Cluster;
pub use redis_server::{Redis, bucket_key};
pub use tls::{Authority, Files, TlsClient, TlsConnection};
pub use upstream::{Answer, Seen, Upstream};

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen. Far more than it takes: a loaded machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the condition holds, and fails the test where it does not within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    within(PATIENCE, what, condition);
}

/// Waits until the condition holds, and fails the test where it does not within the deadline.
#[track_caller]
pub fn within(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < deadline,
            "not within {deadline:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A port that nothing listens on now. Below the range of outgoing connections, so that none of
/// them takes it, and never the same one twice in a process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(97).wrapping_add(step) % 20_000;
        let port = 10_000 + u16::try_from(offset).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Checks a number of whole seconds that counted down from `from` since `since`, rounded up.
#[track_caller]
pub fn assert_counts_down(seconds: u64, from: u64, since: Instant) {
    let passed = since.elapsed().as_secs() + 1;
    assert!(
        seconds <= from && seconds + passed >= from,
        "{seconds} s, expected {from} s or at most {passed} s less"
    );
}
