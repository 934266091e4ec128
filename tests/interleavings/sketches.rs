//! The two sketches, where a window ends: one thread turns them over while others count.

use std::sync::Arc;

use aforo::limit::Rule;

use super::limit::hot::HotKeys;
use super::limit::sketch::Sketch;
use super::{at, check, together, work};

const KEY: u64 = 7;
/// Windows of demand in a second.
const WINDOWS: f64 = 5.0;

/// Tokens that are counted for the key, rounded; the part of the window before is `part`.
fn demand(keys: &HotKeys, ms: u64) -> f64 {
    (keys.observe(KEY, 1, at(ms)) / WINDOWS).round()
}

pub fn demand_is_not_lost_once_the_window_has_turned() {
    check(|| {
        let keys = Arc::new(HotKeys::new());
        keys.observe(KEY, 100, at(100));
        // Both find that the window of 200 ms is over.
        let threads = [(); 2].map(|()| {
            let keys = Arc::clone(&keys);
            work(move || {
                keys.observe(KEY, 1, at(300));
            })
        });
        together(threads);
        // Half of the 100, this one, and those of the threads, of which one may have been lost
        // while the other one cleaned up.
        let now = demand(&keys, 300);
        assert!(now == 52.0 || now == 53.0, "{now}");
    });
}

pub fn demand_of_long_ago_is_gone_once_the_window_has_turned() {
    check(|| {
        let keys = Arc::new(HotKeys::new());
        keys.observe(KEY, 100, at(100));
        keys.observe(KEY, 100, at(300));
        let threads = [(); 2].map(|()| {
            let keys = Arc::clone(&keys);
            work(move || {
                keys.observe(KEY, 1, at(1_000));
            })
        });
        together(threads);
        let now = demand(&keys, 1_000);
        assert!(now == 2.0 || now == 3.0, "{now}");
    });
}

pub fn a_second_that_turns_leaves_the_next_but_one_its_share() {
    check(|| {
        let sketch = Arc::new(Sketch::new());
        let rule = Rule::new(10, 3.0).unwrap();
        let take = move |sketch: &Sketch, ms| sketch.take(KEY, &rule, &rule, 1, at(ms)).granted;
        assert_eq!([0; 4].map(|_| take(&sketch, 1_000)), [1, 1, 1, 0]);
        // One comes at the end of the second and is too much, unless it is counted in the next one
        // already; the other begins that.
        let (late, turns) = (Arc::clone(&sketch), Arc::clone(&sketch));
        together([
            work(move || {
                take(&late, 1_999);
            }),
            work(move || {
                take(&turns, 2_000);
            }),
        ]);
        // The sketch that counts now is the one that was cleaned meanwhile.
        let asked = [3_000, 3_000, 3_000, 3_999, 3_999];
        let passed: u32 = asked.map(|ms| take(&sketch, ms)).into_iter().sum();
        // One less or one more, for the first of the threads may have counted on what was clean
        // already, or have taken its count back from it.
        assert!((2..=4).contains(&passed), "{passed}");
    });
}
