use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const BUDGET: Duration = Duration::from_millis(5);

fn at(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1_000)
}

fn gate() -> Gate {
    Gate::new(BUDGET, 8)
}

#[test]
fn nothing_under_way_holds_nobody() {
    let gate = gate();
    assert!(!gate.holds(at(1_000_000)));
    let mark = gate.sent(at(0));
    gate.ended(mark, true, at(400));
    assert!(!gate.holds(at(1_000_000)));
    assert_eq!(gate.held_for(at(1_000_000)), Duration::ZERO);
}

#[test]
fn it_holds_once_the_oldest_call_is_older_than_the_budget_and_not_before() {
    let gate = gate();
    let first = gate.sent(at(1_000));
    let second = gate.sent(at(4_000));
    assert!(!gate.holds(at(6_000)), "the whole budget may be used");
    assert!(gate.holds(at(6_001)));
    assert_eq!(gate.held_for(at(16_000)), Duration::from_millis(10));
    gate.ended(first, true, at(8_000));
    assert!(!gate.holds(at(9_000)), "the second is young");
    assert!(gate.holds(at(9_001)));
    gate.ended(second, true, at(10_000));
    assert!(!gate.holds(at(20_000)));
}

#[test]
fn any_answer_begins_the_silence_anew_and_an_error_of_the_connection_does_not() {
    let gate = gate();
    gate.sent(at(0));
    let later = gate.sent(at(1_000));
    let last = gate.sent(at(2_000));
    gate.ended(later, true, at(50_000));
    assert!(gate.holds(at(60_000)), "the first is still owed");
    assert_eq!(gate.held_for(at(60_000)), Duration::from_millis(10));
    gate.ended(last, false, at(61_000));
    assert_eq!(gate.held_for(at(70_000)), Duration::from_millis(20));
}

#[test]
fn what_was_sent_before_a_new_start_is_not_waited_for_any_more() {
    let gate = gate();
    let lost = gate.sent(at(0));
    assert!(gate.holds(at(100_000)));
    gate.forget(at(200_000));
    assert!(!gate.holds(at(200_000)));
    let fresh = gate.sent(at(200_000));
    assert!(gate.holds(at(205_001)));
    gate.ended(fresh, true, at(206_000));
    gate.ended(lost, false, at(300_000));
    assert!(!gate.holds(at(400_000)));
}

#[test]
fn more_calls_than_places_forget_the_oldest_and_never_stick() {
    let gate = gate();
    let marks: Vec<Mark> = (0..100).map(|n| gate.sent(at(n))).collect();
    assert!(gate.holds(at(50_000)));
    for mark in marks {
        gate.ended(mark, true, at(50_000));
    }
    assert!(!gate.holds(at(60_000)));
}

#[test]
fn calls_of_many_threads_all_end() {
    let gate = Gate::new(BUDGET, 64);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..10_000 {
                    let mark = gate.sent(at(n));
                    gate.holds(at(n));
                    gate.ended(mark, true, at(n));
                }
            });
        }
    });
    assert!(!gate.holds(at(1_000_000)));
}

proptest! {
    /// Against a plain list of what is under way, answers in any order.
    #[test]
    fn it_is_the_oldest_call_under_way_that_counts(
        steps in proptest::collection::vec((0_u64..4_000, any::<bool>(), any::<prop::sample::Index>()), 1..200)
    ) {
        let gate = Gate::new(BUDGET, 256);
        let mut under_way = BTreeMap::new();
        let mut now = 1;
        for (turn, (pause, send, which)) in steps.into_iter().enumerate() {
            now += pause;
            if send || under_way.is_empty() {
                under_way.insert(turn, (now, gate.sent(at(now))));
            } else {
                let turn = *under_way.keys().nth(which.index(under_way.len())).unwrap();
                let (_, mark) = under_way.remove(&turn).unwrap();
                gate.ended(mark, true, at(now));
            }
            let oldest = under_way.values().map(|(sent, _)| *sent).min();
            let expected = oldest.is_some_and(|sent| now - sent > 5_000);
            prop_assert_eq!(gate.holds(at(now)), expected);
        }
    }
}
