use super::*;
use crate::limit::breaker::State;
use crate::limit::clock::Timestamp;
use crate::limit::watch::End;

fn watches() -> Watches {
    Watches::new(Duration::from_millis(5), 1, 8)
}

fn numbers(watches: &Watches) -> Vec<usize> {
    watches.iter().map(|(node, _)| node).collect()
}

#[test]
fn a_watch_is_there_from_when_its_number_is_first_heard_of() {
    let watches = watches();
    assert!(numbers(&watches).is_empty());
    assert_eq!(watches[5].state(), State::Closed);
    assert_eq!(watches[0].state(), State::Closed);
    assert_eq!(numbers(&watches), [0, 5]);
}

#[test]
fn each_number_is_judged_by_itself_and_keeps_what_is_known_of_it() {
    let watches = watches();
    assert!(watches[1].turned_down(End::Failed));
    for node in [0, 1, 2] {
        let expected = [State::Closed, State::Open, State::Closed][node];
        assert_eq!(watches[node].state(), expected, "{node}");
    }
}

#[test]
fn a_number_beyond_the_bound_has_a_watch_too() {
    let watches = watches();
    assert_eq!(watches[MAX_NODES + 7].state(), State::Closed);
    assert_eq!(numbers(&watches), [MAX_NODES - 1]);
}

#[test]
fn a_watch_whose_node_is_gone_has_nothing_against_the_next_one() {
    let watches = watches();
    let (sent_at, now) = (Timestamp::default(), Timestamp::from_nanos(1_000_000_000));
    watches[0].sent(sent_at);
    assert!(watches[0].turned_down(End::Failed));
    watches[0].vacated(now);
    assert_eq!(watches[0].state(), State::Closed);
    assert_eq!(watches[0].counters().closed.get(), 1);
    let (way, opened) = watches[0].way(now);
    assert_eq!((way, opened), (crate::limit::watch::Way::Wait, false));
    assert!(!watches[0].is_on_the_way_back(now), "nobody comes back");
    watches[0].vacated(now);
    assert_eq!(watches[0].counters().closed.get(), 1);
}
