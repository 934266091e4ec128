//! What `limit::sync` names in the library, as loom has it.
// Each model calls a part of it.
#![allow(dead_code)]

use std::ops::Deref;

use loom::sync::MutexGuard;
use loom::sync::atomic;
pub use loom::sync::atomic::Ordering;

/// Loom's atomics, but that a store comes after all that was done to the same place before it. Loom
/// 0.7 leaves it open whether a store or an exchange came last if two threads did them, and so
/// reports what cannot be: an exchange that found the value of before the store came before it.
macro_rules! atomics {
    ($($name:ident: $value:ty,)*) => {$(
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.0.swap(value, order);
            }
        }

        impl Deref for $name {
            type Target = atomic::$name;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    )*};
}

atomics! {
    AtomicIsize: isize,
    AtomicU8: u8,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
}

/// A lock as parking_lot has it.
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// pingora's estimator with one place, where all keys meet. Its accesses are the same.
pub struct Estimator(AtomicIsize);

impl Estimator {
    pub fn new(_hashes: usize, _slots: usize) -> Self {
        Self(AtomicIsize::new(0))
    }

    pub fn incr(&self, _key: u64, value: isize) -> isize {
        self.0.fetch_add(value, Ordering::Relaxed) + value
    }

    pub fn decr(&self, _key: u64, value: isize) {
        self.0.fetch_sub(value, Ordering::Relaxed);
    }

    pub fn get(&self, _key: u64) -> isize {
        self.0.load(Ordering::Relaxed)
    }

    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// An atomic of another kind, in one of those files, would be one that loom does not see.
pub fn assert_that_loom_sees_all() {
    for text in [
        include_str!("../../src/limit/breaker.rs"),
        include_str!("../../src/limit/gate.rs"),
        include_str!("../../src/limit/hot.rs"),
        include_str!("../../src/limit/sketch.rs"),
        include_str!("../../src/limit/watch.rs"),
        include_str!("../../src/store/redis/places.rs"),
    ] {
        for unseen in ["std::sync::atomic", "std::cell", "parking_lot", "once_cell"] {
            assert!(!text.contains(unseen), "{unseen} in\n{text}");
        }
    }
}
