use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn rule(capacity: u32, refill: f64) -> Rule {
    Rule::new(capacity, refill).unwrap()
}

fn terms(rule: &Rule, instances: u32) -> Terms<'_> {
    Terms {
        rule,
        instances,
        batch: 50,
        cost: 1,
    }
}

/// Large enough for any lease.
fn large() -> Rule {
    rule(40_000, 20_000.0)
}

#[test]
fn all_gateways_together_hold_a_twentieth_of_a_limit_at_most() {
    // The cap by ε, by half the capacity, and by the batch.
    for (capacity, refill, instances, expected) in [
        (2, 1.0, 20, 0),
        (20, 10.0, 20, 0),
        (400, 399.0, 20, 1),
        (400, 400.0, 20, 2),
        (1_000, 500.0, 20, 3),
        (1_000, 500.0, 1, 75),
        (4_000, 2_000.0, 20, 15),
        (100, 20_000.0, 20, 2),
        (4, 20_000.0, 1, 2),
        (40_000, 20_000.0, 20, 100),
        (40_000, 20_000.0, 1, 100),
    ] {
        let rule = rule(capacity, refill);
        let terms = terms(&rule, instances);
        assert_eq!(
            terms.most_held(),
            expected,
            "{capacity}/{refill} by {instances}"
        );
        assert_eq!(terms.allows_leases(), expected >= 2);
    }
    let large = large();
    let off = Terms {
        batch: 0,
        ..terms(&large, 1)
    };
    assert!(!off.allows_leases());
    let dear = Terms {
        cost: 51,
        ..terms(&large, 1)
    };
    assert!(!dear.allows_leases(), "not twice its cost");
}

#[test]
fn a_call_asks_for_what_fifty_milliseconds_spend() {
    let large = large();
    for (rate, cost, expected) in [
        (49.0, 1, 0),
        (60.0, 1, 3),
        (61.0, 1, 4),
        (900.0, 1, 45),
        (5_000.0, 1, 50),
        (100.0, 5, 5),
        (1_000.0, 7, 49),
    ] {
        let terms = Terms {
            cost,
            ..terms(&large, 20)
        };
        let mut lease = Lease::new(&terms, rate, at(0));
        assert_eq!(lease.ask_along(&terms, at(0)), expected, "{rate} by {cost}");
    }
}

#[test]
fn what_is_held_and_asked_for_never_passes_the_cap() {
    let large = large();
    let terms = terms(&large, 20);
    let mut lease = Lease::new(&terms, 5_000.0, at(0));
    let asked: u32 = (0..10).map(|_| lease.ask_along(&terms, at(0))).sum();
    assert_eq!(asked, 100);
    lease.call_ended(50, false);
    assert_eq!(lease.hold(50, &terms, at(0)), 0);
    assert_eq!(lease.ask_along(&terms, at(0)), 0);
    // More than was asked for, by whatever way: what is too much goes back.
    assert_eq!(lease.hold(80, &terms, at(0)), 30);
    assert_eq!(lease.held(), 100);
}

#[test]
fn a_refill_begins_at_the_low_water_and_one_at_a_time() {
    let large = large();
    let terms = terms(&large, 20);
    let mut lease = Lease::new(&terms, 1_000.0, at(0));
    lease.hold(5, &terms, at(0));
    assert_eq!(lease.refill(&terms, at(0)), None);
    assert!(lease.spend(2));
    assert_eq!(lease.refill(&terms, at(0)), Some(50));
    assert_eq!(lease.refill(&terms, at(0)), None, "one is under way");
    lease.call_ended(50, true);
    lease.hold(50, &terms, at(0));
    assert_eq!(lease.refill(&terms, at(0)), None);

    let mut cold = Lease::new(&terms, 49.0, at(0));
    assert_eq!(cold.refill(&terms, at(0)), None);
}

#[test]
fn tokens_go_back_when_nobody_comes_or_they_are_old() {
    let large = large();
    let terms = terms(&large, 20);
    let mut lease = Lease::new(&terms, 100.0, at(0));
    lease.hold(40, &terms, at(0));
    for ms in (0..1_000).step_by(200) {
        lease.arrive(&terms, at(ms));
        assert_eq!(lease.due_back(&terms, at(ms)), 0);
    }
    assert_eq!(lease.due_back(&terms, at(999)), 0);
    assert_eq!(lease.due_back(&terms, at(1_000)), 40, "old");

    lease.hold(40, &terms, at(1_000));
    lease.arrive(&terms, at(1_100));
    assert_eq!(lease.back_at(), at(1_350));
    assert_eq!(lease.due_back(&terms, at(1_349)), 0);
    assert_eq!(lease.due_back(&terms, at(1_350)), 40, "idle");
    assert_eq!(lease.due_back(&terms, at(1_350)), 0, "once");
}

#[test]
fn more_gateways_hold_less_each() {
    let rule = rule(4_000, 2_000.0);
    let few = terms(&rule, 4);
    let mut lease = Lease::new(&few, 1_000.0, at(0));
    assert_eq!(lease.hold(75, &few, at(0)), 0);
    assert_eq!(lease.due_back(&terms(&rule, 20), at(0)), 60);
    assert_eq!(lease.held(), 15);
}

#[test]
fn tokens_die_with_their_rule() {
    let (old, new) = (large(), rule(40_000, 10_000.0));
    let mut lease = Lease::new(&terms(&old, 20), 1_000.0, at(0));
    lease.hold(40, &terms(&old, 20), at(0));
    assert_eq!(lease.arrive(&terms(&new, 20), at(1)), 40);
    assert_eq!(lease.arrive(&terms(&new, 20), at(1)), 0);
    // An answer to a call that was made under the old one.
    assert_eq!(lease.hold(40, &terms(&old, 20), at(0)), 40);
    assert_eq!(lease.held(), 0);
}

#[test]
fn a_saturated_key_polls_until_a_poll_brings_all_it_asked_for() {
    let large = large();
    let terms = terms(&large, 20);
    let mut lease = Lease::new(&terms, 1_000.0, at(0));
    assert!(lease.heard(true, false, &terms, at(0)), "polls begin");
    assert!(!lease.heard(true, false, &terms, at(1)), "once");
    assert_eq!(lease.refill(&terms, at(1)), None);
    let pause = lease.poll_pause(&terms, 1, at(0));
    assert_eq!(pause, Duration::from_millis(20));
    assert_eq!(lease.poll(&terms, pause, at(0)), Some(20));
    assert_eq!(lease.poll(&terms, pause, at(0)), None, "one is under way");
    lease.call_ended(20, true);
    lease.heard(false, true, &terms, at(20));
    assert!(!lease.is_saturated());
}

#[test]
fn polls_are_rarer_for_slow_keys_and_among_many() {
    let large = large();
    let terms = terms(&large, 20);
    let pause =
        |rate, saturated| Lease::new(&terms, rate, at(0)).poll_pause(&terms, saturated, at(0));
    assert_eq!(pause(100.0, 1), Duration::from_millis(40));
    assert_eq!(pause(50.0, 1), Duration::from_millis(80));
    assert_eq!(pause(1_000.0, 500), Duration::from_millis(500));
}

#[test]
fn a_saturated_key_that_nobody_asks_for_is_saturated_no_longer() {
    let large = large();
    let terms = terms(&large, 20);
    let saturated = |rate| {
        let mut lease = Lease::new(&terms, rate, at(0));
        lease.heard(true, false, &terms, at(0));
        lease
    };
    assert!(saturated(1_000.0).still_saturated(at(99)));
    assert!(!saturated(1_000.0).still_saturated(at(100)));
    assert!(!saturated(51.0).still_saturated(at(10)), "no longer hot");
    // A key that is not hot has no polls to end it.
    assert!(!Lease::new(&terms, 40.0, at(0)).heard(true, false, &terms, at(0)));
}

#[test]
fn a_lease_is_over_when_its_key_is_cold_and_nothing_is_out() {
    let large = large();
    let terms = terms(&large, 20);
    let mut lease = Lease::new(&terms, 100.0, at(0));
    assert!(!lease.is_over(at(249)));
    assert!(lease.is_over(at(250)));
    lease.hold(1, &terms, at(0));
    assert!(!lease.is_over(at(10_000)));
    lease.clear();
    lease.poll(&terms, Duration::from_millis(20), at(0));
    assert!(!lease.is_over(at(10_000)), "a call is under way");
}
