//! What several threads touch at once, under one name each. The tests compile the files that use it
//! a second time, over what a model checker has under the same names (`tests/interleavings`).

pub use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

pub use parking_lot::Mutex;
pub use pingora_limits::estimator::Estimator;
