//! Conditions with deadlines, and free ports.

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
