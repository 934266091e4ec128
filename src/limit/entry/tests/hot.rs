//! A key with a lease.

use super::*;

/// A hot entry whose last call brought `held` tokens and left `level`.
fn hot(rule: &Rule, held: u32, level: f64) -> Entry {
    hot_at(rule, 1_000.0, held, level)
}

fn hot_at(rule: &Rule, rate: f64, held: u32, level: f64) -> Entry {
    let mut entry = Entry::new(at(0));
    entry.begin_lease(name(), &terms(rule), rate, at(0));
    let (errand, answered) = call(&mut entry, rule, 0);
    assert!(errand.ask.extra > 0 && errand.ask.divisor == 4);
    let after = answer(&mut entry, errand, grant(1 + held, level, 0), rule, 0);
    assert_eq!(
        (after.leased, after.give_back, granted(answered)),
        (held, 0, Some(1))
    );
    entry
}

#[test]
fn a_hot_key_spends_what_came_along_and_refills_before_it_is_empty() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 10, 30_000.0);
    let mut refills = Vec::new();
    for spent in 1..=10 {
        let spend = entry.spend(&terms(&rule), at(0)).unwrap();
        assert_eq!(spend.level, Some(30_000.0 + f64::from(10 - spent)));
        refills.extend(spend.refill);
    }
    assert_eq!(entry.spend(&terms(&rule), at(0)).unwrap().level, None);
    let [refill] = &refills[..] else {
        panic!("{refills:?}");
    };
    assert_eq!((refill.ask.count, refill.purpose), (0, Purpose::Refill));
    let refill = refills.remove(0);
    let after = answer(&mut entry, refill, grant(50, 29_000.0, 0), &rule, 1);
    assert_eq!((after.leased, after.poll), (50, false));
}

#[test]
fn who_is_covered_by_a_refill_waits_for_it_and_is_served_first() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot_at(&rule, 900.0, 1, 30_000.0);
    let refill = entry.spend(&terms(&rule), at(0)).unwrap().refill.unwrap();
    let asked = refill.ask.extra;
    assert!(asked < 50, "{asked}");
    let waiting: Vec<_> = (0..3).map(|_| wait(&mut entry, &rule, 0)).collect();
    assert_eq!(entry.direct, 0);
    // Those whom it does not cover ask for themselves.
    let _covered: Vec<_> = (3..asked).map(|_| wait(&mut entry, &rule, 0)).collect();
    let _call = call(&mut entry, &rule, 0);
    drop(_covered);
    let after = answer(&mut entry, refill, grant(10, 29_000.0, 0), &rule, 1);
    assert!(after.next.is_none());
    assert_eq!(after.leased, 7);
    assert!(
        waiting
            .into_iter()
            .all(|answered| granted(answered) == Some(1))
    );
}

#[test]
fn a_key_that_outruns_its_refill_is_brought_a_second_batch_and_no_third() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 1, 30_000.0);
    let refill = entry.spend(&terms(&rule), at(0)).unwrap().refill.unwrap();
    let (second, answered) = call(&mut entry, &rule, 0);
    assert_eq!((refill.ask.extra, second.ask.extra), (50, 50));
    // All that may be held is on its way.
    let waiting: Vec<_> = (0..20).map(|_| wait(&mut entry, &rule, 0)).collect();
    let after = answer(&mut entry, refill, grant(50, 29_000.0, 0), &rule, 1);
    assert_eq!((after.leased, after.give_back), (30, 0));
    assert!(after.next.is_none());
    assert!(
        waiting
            .into_iter()
            .all(|answered| granted(answered) == Some(1))
    );
    // The next refill brings a batch too, so it waits until there is room for one.
    assert!(entry.spend(&terms(&rule), at(1)).unwrap().refill.is_none());
    let after = answer(&mut entry, second, grant(51, 28_000.0, 0), &rule, 2);
    assert_eq!((after.leased, granted(answered)), (50, Some(1)));
}

#[test]
fn a_hot_key_that_is_granted_short_is_decided_on_its_lease_until_a_poll_brings_all() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 0, 0.0);
    let (errand, answered) = call(&mut entry, &rule, 1);
    let after = answer(&mut entry, errand, grant(0, 0.0, 1), &rule, 1);
    assert_eq!((granted(answered), after.poll), (Some(0), true));
    // Also long after what a rejection is remembered for.
    entry.spend(&terms(&rule), at(50));
    assert!(denied(&mut entry, &rule, 50).is_some());

    let Polled::Call(poll, _, pause) = entry.poll(1, 1, 50, at(50)) else {
        panic!("no poll");
    };
    assert_eq!(pause, Duration::from_millis(20));
    let asked = poll.ask.extra;
    answer(&mut entry, poll, grant(1, 2.0, 0), &rule, 51);
    assert_eq!(
        entry.spend(&terms(&rule), at(51)).unwrap().level,
        Some(42.0_f64.min(2.0))
    );
    assert!(denied(&mut entry, &rule, 51).is_some());
    let Polled::Call(poll, ..) = entry.poll(1, 1, 50, at(70)) else {
        panic!("no poll");
    };
    answer(&mut entry, poll, grant(asked, 100.0, 0), &rule, 71);
    assert!(denied(&mut entry, &rule, 71).is_none());
    assert!(matches!(entry.poll(1, 1, 50, at(90)), Polled::Over));
}

#[test]
fn nobody_polls_for_a_key_that_nobody_asks_for() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 0, 0.0);
    let (errand, _answered) = call(&mut entry, &rule, 0);
    assert!(answer(&mut entry, errand, grant(0, 0.0, 1), &rule, 0).poll);
    entry.spend(&terms(&rule), at(5));
    assert!(matches!(entry.poll(1, 1, 50, at(20)), Polled::Call(..)));
    assert!(matches!(entry.poll(1, 1, 50, at(105)), Polled::Over));
}

/// A key whose lease ended at 900 ms, while its poller slept on.
fn left_by_all_but_its_poller(rule: &Rule) -> Entry {
    let mut entry = hot(rule, 0, 0.0);
    let (errand, _answered) = call(&mut entry, rule, 0);
    assert!(answer(&mut entry, errand, grant(0, 0.0, 1), rule, 0).poll);
    let Polled::Call(poll, ..) = entry.poll(1, 1, 50, at(0)) else {
        panic!("no poll");
    };
    let asked = poll.ask.extra;
    answer(&mut entry, poll, grant(asked, 100.0, 0), rule, 1);
    // With many such keys a poller sleeps for longer than an idle lease lives.
    entry.keep(1, 50, at(300));
    entry.keep(1, 50, at(900));
    assert!(!entry.has_lease());
    entry
}

#[test]
fn one_poller_at_a_time_also_where_it_slept_while_the_key_was_nobodys() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = left_by_all_but_its_poller(&rule);
    // The key is back, and is saturated again.
    entry.begin_lease(name(), &terms(&rule), 1_000.0, at(901));
    let (errand, _answered) = call(&mut entry, &rule, 901);
    let after = answer(&mut entry, errand, grant(0, 0.0, 1), &rule, 901);
    assert!(entry.lease().is_some_and(Lease::is_saturated));
    assert!(!after.poll, "the one that sleeps goes on");
    assert!(matches!(entry.poll(1, 1, 50, at(902)), Polled::Call(..)));
}

#[test]
fn what_is_known_of_a_split_buckets_parts_keeps_no_key_and_outlives_its_lease() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = left_by_all_but_its_poller(&rule);
    let heard = |entry: &mut Entry, part, level, ms| {
        entry.heard_part(&name(), (part, 2), level, &rule, at(ms))
    };
    heard(&mut entry, 0, 10.0, 950);
    heard(&mut entry, 1, 20.0, 950);
    assert!(matches!(entry.poll(1, 1, 50, at(1_000)), Polled::Over));
    assert_eq!(heard(&mut entry, 0, 5.0, 1_001), 25.0);
    assert!(table::Entry::may_be_forgotten(&entry, at(60_000)));
}

#[test]
fn the_poller_of_a_key_without_a_lease_lets_it_be_forgotten() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = left_by_all_but_its_poller(&rule);
    assert!(!table::Entry::may_be_forgotten(&entry, at(60_000)));
    assert!(matches!(entry.poll(1, 1, 50, at(1_000)), Polled::Over));
    assert!(table::Entry::may_be_forgotten(&entry, at(60_000)));
}

#[test]
fn the_keeper_returns_what_is_idle_and_ends_with_the_lease() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 40, 30_000.0);
    assert_eq!(entry.keep(1, 50, at(100)).again_at, Some(at(250)));
    let kept = entry.keep(1, 50, at(250));
    assert_eq!((kept.give_back, kept.paid), (40, 0));
    assert!(entry.has_lease(), "its rate has not fallen yet");
    assert_eq!(entry.keep(1, 50, at(600)).again_at, None);
    assert!(!entry.has_lease());
    assert!(table::Entry::may_be_forgotten(&entry, at(60_000)));
}

#[test]
fn what_is_idle_pays_what_is_owed_first() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 40, 30_000.0);
    for _ in 0..3 {
        entry.account().take(&rule, 1, 1, at(0));
    }
    let kept = entry.keep(1, 50, at(250));
    assert_eq!((kept.give_back, kept.paid), (37, 3));
}

#[test]
fn the_end_takes_everything_out() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot(&rule, 40, 30_000.0);
    let (_, under, tokens) = entry.clear().unwrap();
    assert_eq!((under, tokens), (rule, 40));
    assert!(entry.clear().is_none());
}

#[test]
fn a_failed_call_frees_all_who_wait() {
    let rule = rule(40_000, 20_000.0);
    let mut entry = hot_at(&rule, 900.0, 1, 30_000.0);
    let refill = entry.spend(&terms(&rule), at(0)).unwrap().refill.unwrap();
    let _waiting: Vec<_> = (0..5).map(|_| wait(&mut entry, &rule, 0)).collect();
    assert_eq!(entry.failed(refill, true, at(1)).len(), 5);
    // What it asked for is asked for anew.
    let (errand, _answered) = call(&mut entry, &rule, 2);
    assert!(errand.ask.extra > 0);
    let _waiting: Vec<_> = (0..3).map(|_| wait(&mut entry, &rule, 2)).collect();
    assert_eq!(entry.failed(errand, false, at(3)).len(), 4);
    assert_eq!(entry.direct, 0);
}
