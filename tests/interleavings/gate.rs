//! The stall gate: what it says of calls that other threads send, end and look at.

use std::sync::Arc;

use super::limit::gate::Gate;
use super::{BUDGET, at, check, together, work};

fn gate(places: usize) -> Arc<Gate> {
    Arc::new(Gate::new(BUDGET, places))
}

pub fn a_call_without_an_answer_is_not_hidden_by_others() {
    check(|| {
        let gate = gate(4);
        gate.sent(at(1));
        let (calls, looks) = (Arc::clone(&gate), Arc::clone(&gate));
        together([
            work(move || {
                let mark = calls.sent(at(2));
                calls.ended(mark, true, at(3));
            }),
            work(move || assert!(looks.holds(at(20)))),
        ]);
        assert!(gate.holds(at(20)));
    });
}

pub fn two_that_are_sent_at_once_have_a_mark_each() {
    check(|| {
        let gate = gate(4);
        let (ends, stays) = (Arc::clone(&gate), Arc::clone(&gate));
        together([
            work(move || {
                let mark = ends.sent(at(1));
                ends.ended(mark, true, at(2));
            }),
            work(move || {
                stays.sent(at(3));
            }),
        ]);
        assert!(gate.holds(at(20)));
        assert!(!gate.holds(at(7)), "that is the other's age");
    });
}

pub fn who_looks_passes_over_no_call_that_was_sent() {
    check(|| {
        let gate = gate(4);
        let ended = gate.sent(at(1));
        gate.sent(at(2));
        gate.ended(ended, true, at(3));
        // Both find the first one ended, and move on to the second.
        let (one, other) = (Arc::clone(&gate), Arc::clone(&gate));
        together([
            work(move || assert!(one.holds(at(20)))),
            work(move || assert!(other.holds(at(20)))),
        ]);
        assert!(gate.holds(at(20)));
    });
}

pub fn a_call_that_ends_leaves_the_mark_of_the_one_that_lapped_it() {
    check(|| {
        let gate = gate(1);
        let lapped = gate.sent(at(1));
        let (ends, laps) = (Arc::clone(&gate), Arc::clone(&gate));
        together([
            work(move || ends.ended(lapped, true, at(3))),
            work(move || {
                laps.sent(at(2));
            }),
        ]);
        assert!(gate.holds(at(20)));
    });
}

pub fn a_call_that_was_passed_over_hides_no_other() {
    check(|| {
        let gate = gate(4);
        let (sends, looks) = (Arc::clone(&gate), Arc::clone(&gate));
        together([
            work(move || {
                sends.sent(at(1));
            }),
            work(move || {
                looks.holds(at(2));
            }),
        ]);
        gate.sent(at(3));
        assert!(gate.holds(at(20)));
    });
}

pub fn nothing_is_left_of_calls_that_have_ended() {
    check(|| {
        // Fewer marks than calls, so that they lap each other.
        let gate = gate(1);
        let threads = [1, 2].map(|ms| {
            let gate = Arc::clone(&gate);
            work(move || {
                let mark = gate.sent(at(ms));
                gate.holds(at(20));
                gate.ended(mark, true, at(ms + 1));
            })
        });
        together(threads);
        assert!(!gate.holds(at(20)));
        assert!(gate.held_for(at(1_000)).is_zero());
    });
}

pub fn the_latest_answer_counts() {
    check(|| {
        let gate = gate(4);
        gate.sent(at(1));
        let threads = [9, 12].map(|ms| {
            let mark = gate.sent(at(2));
            let gate = Arc::clone(&gate);
            work(move || gate.ended(mark, true, at(ms)))
        });
        together(threads);
        assert_eq!(gate.held_for(at(20)), at(20).since(at(12)));
    });
}

pub fn what_is_forgotten_stays_forgotten() {
    check(|| {
        let gate = gate(4);
        gate.sent(at(1));
        gate.sent(at(11));
        let threads = [10, 12].map(|ms| {
            let gate = Arc::clone(&gate);
            work(move || gate.forget(at(ms)))
        });
        together(threads);
        assert!(!gate.holds(at(20)));
        gate.sent(at(13));
        assert!(gate.holds(at(20)));
    });
}
