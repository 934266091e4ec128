//! Every order in which threads can run what of the limiter is lock-free, tried by
//! [loom](https://docs.rs/loom): each model states what holds in all of them.
//!
//! Loom must see every access to an atomic. So the files are compiled here a second time, with loom's
//! atomics under the names that `limit::sync` has in the library: that takes no flag to the compiler
//! and no other build of the library. The crate has no test harness (`Cargo.toml`), which would run
//! the files' own tests as well.
//!
//! `cargo test --test interleavings -- NAME` tries the models whose names contain NAME.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod breaker;
mod gate;
mod lease;
mod places;
mod sketches;
mod sync;
mod watch;

/// What is lock-free, over loom's atomics. The rest is the library's.
// Models call a part of it, and the files' own tests are here without what calls their helpers.
#[allow(dead_code, unused_imports)]
#[path = "../../src/limit"]
mod limit {
    pub use aforo::limit::{bucket, clock, counters, rule, store};

    pub(crate) use super::sync;

    pub mod breaker;
    pub mod gate;
    pub mod hot;
    #[path = "../store/redis/places.rs"]
    pub mod places;
    pub mod sketch;
    pub mod watch;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aforo::limit::Timestamp;

/// A model, and its name.
type Model = (&'static str, fn());

/// Names the functions of a module as its models.
macro_rules! models {
    ($($module:ident :: $model:ident,)*) => {
        &[$((concat!(stringify!($module), "::", stringify!($model)), $module::$model),)*]
    };
}

const MODELS: &[Model] = models![
    gate::a_call_without_an_answer_is_not_hidden_by_others,
    gate::two_that_are_sent_at_once_have_a_mark_each,
    gate::who_looks_passes_over_no_call_that_was_sent,
    gate::a_call_that_ends_leaves_the_mark_of_the_one_that_lapped_it,
    gate::a_call_that_was_passed_over_hides_no_other,
    gate::nothing_is_left_of_calls_that_have_ended,
    gate::the_latest_answer_counts,
    gate::what_is_forgotten_stays_forgotten,
    breaker::of_several_failures_one_opens_it,
    breaker::there_is_one_probe_at_a_time_and_three_close_it,
    breaker::no_late_call_is_lost_within_a_window,
    breaker::a_new_window_is_not_ended_by_who_saw_the_old_one,
    watch::a_stall_that_lasts_opens_it_once,
    watch::who_finds_it_closed_finds_it_on_the_way_back,
    watch::one_of_several_complaints_is_said,
    sketches::demand_is_not_lost_once_the_window_has_turned,
    sketches::demand_of_long_ago_is_gone_once_the_window_has_turned,
    sketches::a_second_that_turns_leaves_the_next_but_one_its_share,
    places::there_are_never_more_calls_than_places,
    lease::an_answer_that_meets_its_deadline_loses_no_token,
    lease::requests_and_the_keeper_share_what_is_held,
];

fn main() {
    sync::assert_that_loom_sees_all();
    // Flags are the harness's, which others have.
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let is_meant = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f));
    for (name, model) in MODELS.iter().filter(|(name, _)| is_meant(name)) {
        let begun = Instant::now();
        print!("test {name} ... ");
        model();
        println!("ok ({} ms)", begun.elapsed().as_millis());
    }
}

/// Tries every order of a model's threads.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    loom::model(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let orders = orders.load(Ordering::Relaxed);
    assert!(orders > 1, "threads that do not meet show nothing");
    print!("{orders} orders ");
}

/// Runs the works as threads of a model, and waits for them all.
fn together<const N: usize>(works: [Box<dyn FnOnce() + Send>; N]) {
    let threads = works.map(loom::thread::spawn);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A thread's work.
fn work(work: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    Box::new(work)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

const BUDGET: Duration = Duration::from_millis(5);
