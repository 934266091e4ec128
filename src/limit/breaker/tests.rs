use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn breaker() -> Breaker {
    Breaker::new(5)
}

/// What one row of a table does to the breaker.
#[derive(Clone, Copy, Debug)]
enum Event {
    InTime,
    Late,
    Failed,
    Silent(u64),
}
use Event::{Failed, InTime, Late, Silent};

fn apply(breaker: &Breaker, event: Event, ms: u64) -> Option<Change> {
    match event {
        InTime => breaker.answered(false, at(ms)),
        Late => breaker.answered(true, at(ms)),
        Failed => breaker.failed(),
        Silent(held) => breaker.silent(Duration::from_millis(held)),
    }
}

/// `times` events, `every` ms.
fn run(breaker: &Breaker, events: &[Event], every: u64) -> Option<(usize, Change)> {
    events.iter().enumerate().find_map(|(n, event)| {
        apply(breaker, *event, 1 + n as u64 * every).map(|change| (n + 1, change))
    })
}

#[test]
fn what_opens_it_and_what_does_not() {
    let mixed = |late: usize, of: usize| -> Vec<Event> {
        (0..200)
            .map(|n| if n % of < late { Late } else { InTime })
            .collect()
    };
    let stall = |late: usize| -> Vec<Event> {
        let after = std::iter::repeat_n(InTime, 100);
        std::iter::repeat_n(Late, late).chain(after).collect()
    };
    // A name, the events, the ms between two of them, and after how many it opens.
    let table: Vec<(&str, Vec<Event>, u64, Option<usize>)> = vec![
        ("five errors", vec![Failed; 5], 0, Some(5)),
        ("four errors", vec![Failed; 4], 0, None),
        (
            "an answer between",
            [vec![Failed; 4], vec![InTime], vec![Failed; 4]].concat(),
            1,
            None,
        ),
        (
            "a late answer between is one, too",
            [vec![Failed; 4], vec![Late], vec![Failed; 4]].concat(),
            1,
            None,
        ),
        ("silence of 100 ms", vec![Silent(100)], 0, Some(1)),
        ("silence of 99 ms", vec![Silent(99); 50], 1, None),
        ("all late, 10 ms apart", mixed(1, 1), 10, Some(51)),
        ("all late, 100 ms apart", mixed(1, 1), 100, Some(20)),
        ("all late, 400 ms apart", mixed(1, 1), 400, Some(20)),
        ("every second one late", mixed(1, 2), 10, Some(51)),
        ("a third late", mixed(1, 3), 10, None),
        ("a tenth late", mixed(1, 10), 5, None),
        ("a stall that makes 20 late", stall(20), 0, None),
        ("a stall that makes 200 late", stall(200), 0, None),
        ("a stall of 34 ms at 450/s", stall(15), 2, None),
    ];
    for (name, events, every, opens) in table {
        let breaker = breaker();
        let opened = run(&breaker, &events, every);
        assert_eq!(opened.map(|(n, _)| n), opens, "{name}");
        let state = if opens.is_some() {
            State::Open
        } else {
            State::Closed
        };
        assert_eq!(breaker.state(), state, "{name}");
    }
}

#[test]
fn the_number_of_errors_is_configured() {
    let breaker = Breaker::new(2);
    assert_eq!(breaker.failed(), None);
    assert_eq!(breaker.failed(), Some(Change::Opened(Reason::Failures(2))));
    assert_eq!(breaker.failed(), None, "it is open already");
}

#[test]
fn three_good_probes_in_a_row_close_it_and_one_bad_one_begins_anew() {
    let breaker = breaker();
    breaker.silent(LONGEST_STALL).unwrap();
    let opened_again = Some(Change::Opened(Reason::Probe));
    for (good, change, next, state) in [
        (false, None, Next::Pause, State::Open),
        (true, Some(Change::HalfOpened), Next::Again, State::HalfOpen),
        (true, None, Next::Again, State::HalfOpen),
        (false, opened_again, Next::Pause, State::Open),
        (true, Some(Change::HalfOpened), Next::Again, State::HalfOpen),
        (true, None, Next::Again, State::HalfOpen),
        (true, Some(Change::Closed), Next::Done, State::Closed),
        (true, None, Next::Done, State::Closed),
    ] {
        assert_eq!(breaker.probed(good), (change, next));
        assert_eq!(breaker.state(), state);
    }
}

#[test]
fn calls_from_before_do_not_touch_a_breaker_that_is_open_or_closes() {
    let breaker = breaker();
    breaker.silent(LONGEST_STALL).unwrap();
    for n in 0..100 {
        assert_eq!(breaker.failed(), None);
        assert_eq!(breaker.answered(n % 2 == 0, at(n * 20)), None);
    }
    for _ in 0..3 {
        breaker.probed(true);
    }
    assert_eq!(breaker.state(), State::Closed);
    for _ in 0..4 {
        assert_eq!(breaker.failed(), None, "it counts from nothing again");
    }
}

#[test]
fn late_calls_of_long_ago_do_not_count() {
    let breaker = breaker();
    // Ten stalls, a second and a half apart, among calls that are fine.
    for n in 0..1_500 {
        let late = n % 150 < 10;
        assert_eq!(breaker.answered(late, at(1 + n * 10)), None, "{n}");
    }
}

fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
    let event = prop_oneof![
        4 => Just(InTime),
        3 => Just(Late),
        2 => Just(Failed),
        1 => (0_u64..120).prop_map(Silent),
    ];
    proptest::collection::vec((event, 0_u64..60), 1..300)
}

proptest! {
    /// Whatever happens, it opens for one of the three reasons only, each of which holds.
    #[test]
    fn it_never_opens_without_its_reason(events in events()) {
        let breaker = breaker();
        let mut now = 1;
        let mut seen: Vec<(Event, u64)> = Vec::new();
        for (event, pause) in events {
            now += pause;
            seen.push((event, now));
            let Some(change) = apply(&breaker, event, now) else { continue };
            let in_a_row = seen.iter().rev()
                .filter(|(event, _)| !matches!(event, Silent(_)))
                .take_while(|(event, _)| matches!(event, Failed))
                .count();
            let timed: Vec<(bool, u64)> = seen.iter().filter_map(|(event, ms)| match event {
                InTime => Some((false, *ms)),
                Late => Some((true, *ms)),
                _ => None,
            }).collect();
            match change {
                Change::Opened(Reason::Failures(n)) => {
                    prop_assert!(n >= 5 && in_a_row >= 5, "{in_a_row}");
                }
                Change::Opened(Reason::Silence(time)) => {
                    prop_assert!(time >= Duration::from_millis(100));
                }
                Change::Opened(Reason::Slow { late, calls }) => {
                    prop_assert!(calls >= 20 && late * 2 >= calls);
                    let counted = &timed[timed.len() - calls as usize..];
                    let times: Vec<u64> =
                        counted.iter().filter(|(late, _)| *late).map(|(_, ms)| *ms).collect();
                    prop_assert_eq!(times.len(), late as usize);
                    prop_assert!(times[times.len() - 1] - times[0] >= 500);
                }
                other => prop_assert!(false, "{other:?}"),
            }
            return Ok(());
        }
        prop_assert_eq!(breaker.state(), State::Closed);
    }

    /// From any history of probes, the last three decide.
    #[test]
    fn it_is_closed_exactly_after_three_good_probes_in_a_row(probes in proptest::collection::vec(any::<bool>(), 0..50)) {
        let breaker = breaker();
        breaker.silent(LONGEST_STALL).unwrap();
        let mut in_a_row = 0;
        for good in probes {
            in_a_row = if good { in_a_row + 1 } else { 0 };
            let (_, next) = breaker.probed(good);
            let expected = match in_a_row {
                0 => State::Open,
                1 | 2 => State::HalfOpen,
                _ => State::Closed,
            };
            prop_assert_eq!(breaker.state(), expected);
            prop_assert_eq!(next == Next::Done, expected == State::Closed);
            if expected == State::Closed {
                break;
            }
        }
    }
}
