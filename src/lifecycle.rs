//! How a process lives: starting, ready, draining; and how many requests it has in hand.
//!
//! Plain flags that the gateway, the admin listener and whoever handles signals share. Nothing
//! here acts on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The state that all parts of one process share.
#[derive(Debug, Default)]
pub struct Lifecycle {
    listening: AtomicBool,
    draining: AtomicBool,
    requests: AtomicUsize,
}

/// One request in hand, until it is dropped: also when its client goes away or its task panics.
#[derive(Debug)]
pub struct RequestGuard(Arc<Lifecycle>);

impl Lifecycle {
    /// Says that the listeners are open.
    pub fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// Says that the process is going to end: no new traffic, please.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the process is going to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether traffic should be sent here.
    pub fn is_ready(&self) -> bool {
        self.listening.load(Ordering::Acquire) && !self.is_draining()
    }

    /// Takes a request in hand.
    pub fn request(self: &Arc<Self>) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestGuard(Arc::clone(self))
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
