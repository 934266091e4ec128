//! Places for calls under way: as many as may be, and no queue for one.

use std::sync::Arc;

use crate::limit::sync::{AtomicUsize, Ordering};

/// A bound on calls that were sent and have neither been answered nor given up.
#[derive(Debug)]
pub struct Places {
    taken: AtomicUsize,
    most: usize,
}

/// A call's place; dropping it frees the place.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// `most` places, all free.
    pub fn new(most: usize) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            most,
        }
    }

    /// Takes a place, if one is free.
    pub fn enter(self: &Arc<Self>) -> Option<Place> {
        let entered = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < self.most).then_some(taken + 1)
            });
        entered.is_ok().then(|| Place(Arc::clone(self)))
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub fn most(&self) -> usize {
        self.most
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
