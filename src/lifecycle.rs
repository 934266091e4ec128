//! How a process lives: starting, ready, draining; and how many requests it has in hand, or may
//! soon have.
//!
//! Plain flags that the gateway, the admin listener and whoever handles signals share. Nothing
//! here acts on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a connection that was accepted before the end may take to bring its first request. One
/// that was opened ahead of any request, as browsers do, is closed then without one.
pub const ARRIVE_WITHIN: Duration = Duration::from_secs(3);

/// For how long nothing must have been heard of a connection before a process that was taken over
/// from believes that there is none: one that it has accepted may not be counted yet, where cores
/// are scarce. Nobody waits for this process.
pub const HANDED_OVER_SETTLE: Duration = Duration::from_millis(500);

/// The state that all parts of one process share.
#[derive(Debug, Default)]
pub struct Lifecycle {
    listening: AtomicBool,
    draining: AtomicBool,
    handed_over: AtomicBool,
    requests: AtomicUsize,
    arriving: AtomicUsize,
}

/// One request in hand, until it is dropped: also when its client goes away or its task panics.
#[derive(Debug)]
pub struct RequestGuard(Arc<Lifecycle>);

/// A connection that may bring a request although nothing is accepted any more, until it is
/// dropped: one without a first request, and each of HTTP/2.
#[derive(Debug)]
pub struct Arriving(Arc<Lifecycle>);

impl Lifecycle {
    /// Says that the listeners are open.
    pub fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// Whether the listeners are open.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Says that the process is going to end: no new traffic, please.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Says that the process is going to end, and that another one serves in its place: traffic
    /// that comes to the same address is welcome.
    pub fn hand_over(&self) {
        self.handed_over.store(true, Ordering::Release);
    }

    /// Whether the process is going to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.handed_over.load(Ordering::Acquire)
    }

    /// Whether traffic should be sent here.
    pub fn is_ready(&self) -> bool {
        self.listening.load(Ordering::Acquire) && !self.draining.load(Ordering::Acquire)
    }

    /// Takes a request in hand.
    pub fn request(self: &Arc<Self>) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestGuard(Arc::clone(self))
    }

    /// Counts a connection that has just been accepted.
    pub fn arriving(self: &Arc<Self>) -> Arriving {
        self.arriving.fetch_add(1, Ordering::AcqRel);
        Arriving(Arc::clone(self))
    }

    /// How many connections may still bring a request.
    pub fn arrivals(&self) -> usize {
        self.arriving.load(Ordering::Acquire)
    }

    /// Waits until no connection is arriving any more, though no longer than [`ARRIVE_WITHIN`].
    pub async fn wait_for_arrivals(&self, poll: Duration) {
        let settle = if self.handed_over.load(Ordering::Acquire) {
            HANDED_OVER_SETTLE
        } else {
            poll
        };
        let since = Instant::now();
        let mut quiet_since = since;
        while quiet_since.elapsed() < settle && since.elapsed() < ARRIVE_WITHIN {
            tokio::time::sleep(poll).await;
            if self.arrivals() > 0 {
                quiet_since = Instant::now();
            }
        }
    }

    /// How many requests are in hand.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Ordering::AcqRel);
    }
}
