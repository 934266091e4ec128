use proptest::prelude::*;

use super::*;
use crate::limit::bucket::Bucket;
use crate::limit::key::BucketKey;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn rule(capacity: u32, refill: f64) -> Rule {
    Rule::new(capacity, refill).unwrap()
}

fn terms(rule: &Rule) -> Terms<'_> {
    Terms {
        rule,
        instances: 1,
        batch: 50,
        cost: 1,
    }
}

fn name() -> Name {
    Name::of(&BucketKey {
        tenant: "t",
        route: "r",
    })
}

fn grant(granted: u32, level: f64, wait_ms: u64) -> Grant {
    Grant {
        granted,
        level,
        wait: Duration::from_millis(wait_ms),
    }
}

fn call(entry: &mut Entry, rule: &Rule, ms: u64) -> (Errand, Answered) {
    match entry.join(&terms(rule), name, at(ms)) {
        Join::Call(errand, answered) => (errand, answered),
        other => panic!("{other:?}"),
    }
}

fn wait(entry: &mut Entry, rule: &Rule, ms: u64) -> Answered {
    match entry.join(&terms(rule), name, at(ms)) {
        Join::Wait(answered) => answered,
        other => panic!("{other:?}"),
    }
}

fn denied(entry: &mut Entry, rule: &Rule, ms: u64) -> Option<Grant> {
    match entry.join(&terms(rule), name, at(ms)) {
        Join::Denied(grant) => Some(grant),
        Join::Call(errand, _) => {
            entry.failed(errand, true, at(ms));
            None
        }
        Join::Wait(_) => None,
    }
}

fn answer(entry: &mut Entry, errand: Errand, grant: Grant, rule: &Rule, ms: u64) -> After {
    entry.answered(errand, &grant, &terms(rule), (at(ms), true), at(ms))
}

fn granted(mut answered: Answered) -> Option<u32> {
    answered
        .try_recv()
        .ok()
        .map(|answer| answer.unwrap().granted)
}

#[test]
fn an_entry_is_small() {
    assert!(size_of::<Entry>() <= 80, "{}", size_of::<Entry>());
}

#[test]
fn four_calls_are_under_way_and_the_next_answer_serves_those_who_wait() {
    let rule = rule(100, 1.0);
    let mut entry = Entry::new(at(0));
    let mut calls: Vec<_> = (0..4).map(|_| call(&mut entry, &rule, 0)).collect();
    let waiting: Vec<_> = (0..10).map(|_| wait(&mut entry, &rule, 0)).collect();
    assert_eq!(entry.direct, 4);

    let (first, of_first) = calls.remove(0);
    let after = answer(&mut entry, first, grant(1, 50.0, 0), &rule, 1);
    assert_eq!(granted(of_first), Some(1));
    let next = after.next.expect("one call for all of them");
    assert_eq!((next.ask.count, next.ask.extra, entry.direct), (10, 0, 4));

    // It brings less than they need: the first come first.
    answer(&mut entry, next, grant(7, 0.0, 900), &rule, 2);
    let served: Vec<_> = waiting
        .into_iter()
        .map(|answered| granted(answered).unwrap())
        .collect();
    assert_eq!(served, [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
}

#[test]
fn a_call_serves_one_cost() {
    let rule = rule(100, 1.0);
    let mut entry = Entry::new(at(0));
    let (first, _keep) = call(&mut entry, &rule, 0);
    for _ in 0..3 {
        call(&mut entry, &rule, 0);
    }
    let costs = [2, 2, 3, 2];
    let waiting: Vec<_> = costs
        .iter()
        .map(|cost| {
            let terms = Terms {
                cost: *cost,
                ..terms(&rule)
            };
            match entry.join(&terms, name, at(0)) {
                Join::Wait(answered) => answered,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let mut next = answer(&mut entry, first, grant(1, 50.0, 0), &rule, 1).next;
    let mut asked = Vec::new();
    while let Some(errand) = next {
        let Ask { count, cost, .. } = errand.ask;
        asked.push((count, cost));
        let terms = Terms {
            cost,
            ..terms(&rule)
        };
        let all = grant(count * cost, 40.0, 0);
        next = entry
            .answered(errand, &all, &terms, (at(1), true), at(1))
            .next;
    }
    assert_eq!(asked, [(2, 2), (1, 3), (1, 2)]);
    let served: Vec<_> = waiting
        .into_iter()
        .map(|answered| granted(answered).unwrap())
        .collect();
    assert_eq!(served, costs);
}

#[test]
fn who_is_gone_leaves_tokens_that_pay_a_debt_or_go_back() {
    let rule = rule(100, 1.0);
    let mut entry = Entry::new(at(0));
    let (errand, gone) = call(&mut entry, &rule, 0);
    drop(gone);
    let after = answer(&mut entry, errand, grant(1, 50.0, 0), &rule, 1);
    assert_eq!((after.give_back, after.paid), (1, 0));

    let (errand, gone) = call(&mut entry, &rule, 1);
    drop(gone);
    assert_eq!(entry.account().take(&rule, 1, 1, at(1)).1, 1);
    let after = answer(&mut entry, errand, grant(1, 50.0, 0), &rule, 2);
    assert_eq!((after.give_back, after.paid), (0, 1));
}

#[test]
fn a_rejection_is_remembered_until_the_store_has_one_more() {
    // As long as the store said, at least 10 ms, at most a second.
    for (refill, wait_ms, until) in [(100.0, 300, 300), (1_000.0, 1, 10), (0.1, 9_000, 1_000)] {
        let rule = rule(1_000, refill);
        let mut entry = Entry::new(at(0));
        let (errand, answered) = call(&mut entry, &rule, 0);
        answer(&mut entry, errand, grant(0, 0.0, wait_ms), &rule, 0);
        assert_eq!(granted(answered), Some(0));
        assert!(denied(&mut entry, &rule, until - 1).is_some(), "{refill}");
        assert!(denied(&mut entry, &rule, until).is_none(), "{refill}");
    }
    // A bucket that is full again in 4 ms is asked again after 2.
    let tiny = rule(4, 1_000.0);
    let mut entry = Entry::new(at(0));
    let (errand, _answered) = call(&mut entry, &tiny, 0);
    answer(&mut entry, errand, grant(0, 0.0, 1), &tiny, 0);
    assert!(denied(&mut entry, &tiny, 1).is_some());
    assert!(denied(&mut entry, &tiny, 2).is_none());
}

#[test]
fn the_call_that_must_fail_is_not_made() {
    let rule = rule(10, 10.0);
    let mut entry = Entry::new(at(0));
    let (errand, answered) = call(&mut entry, &rule, 0);
    // The last token.
    answer(&mut entry, errand, grant(1, 0.2, 80), &rule, 0);
    assert_eq!(granted(answered), Some(1));
    let rejected = denied(&mut entry, &rule, 30).unwrap();
    assert_eq!(rejected.wait, Duration::from_millis(50));
    // Then one call at a time.
    let (errand, _answered) = call(&mut entry, &rule, 80);
    wait(&mut entry, &rule, 80);
    answer(&mut entry, errand, grant(1, 5.0, 0), &rule, 81);
    for _ in 0..4 {
        let _ = call(&mut entry, &rule, 82);
    }
}

#[test]
fn the_wait_is_named_in_full_however_short_the_memory() {
    let rule = rule(10, 0.1);
    let mut entry = Entry::new(at(0));
    let (errand, _answered) = call(&mut entry, &rule, 0);
    answer(&mut entry, errand, grant(0, 0.0, 10_000), &rule, 0);
    let rejected = denied(&mut entry, &rule, 900).unwrap();
    assert_eq!(rejected.wait, Duration::from_millis(9_100));
}

#[test]
fn a_rejection_dies_with_its_rule_and_holds_for_larger_costs_only() {
    let rule = rule(10, 1.0);
    let mut entry = Entry::new(at(0));
    let dear = Terms {
        cost: 5,
        ..terms(&rule)
    };
    let Join::Call(errand, _answered) = entry.join(&dear, name, at(0)) else {
        panic!("nothing is known yet");
    };
    entry.answered(errand, &grant(0, 2.0, 3_000), &dear, (at(0), true), at(0));
    assert!(matches!(entry.join(&dear, name, at(1)), Join::Denied(_)));
    assert!(denied(&mut entry, &rule, 1).is_none(), "two are there");
    let raised = self::rule(10, 2.0);
    let dear = Terms {
        rule: &raised,
        ..dear
    };
    assert!(matches!(entry.join(&dear, name, at(1)), Join::Call(..)));
}

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

#[test]
fn a_failed_call_leaves_those_who_wait_to_another_one_that_is_under_way() {
    let rule = rule(20, 10.0);
    let mut entry = Entry::new(at(0));
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let (errand, answered) = call(&mut entry, &rule, 0);
        calls.push(errand);
        answers.push(answered);
    }
    let waiting = wait(&mut entry, &rule, 0);
    let last = calls.pop().unwrap();
    for errand in calls {
        assert_eq!(entry.failed(errand, true, at(1)).len(), 1);
    }
    let next = answer(&mut entry, last, grant(1, 5.0, 0), &rule, 1).next;
    let next = next.expect("a call for the one who waits");
    answer(&mut entry, next, grant(1, 4.0, 0), &rule, 2);
    assert_eq!(granted(waiting), Some(1));
}

#[test]
fn a_key_that_comes_back_makes_one_call_and_its_share_is_asked_first() {
    let rule = rule(20, 10.0);
    let mut entry = Entry::new(at(0));
    while entry.account().take(&rule, 1, 1, at(0)).0.granted > 0 {}
    let without_share = entry.come_back(&terms(&rule), at(0));
    assert!(matches!(without_share, ComeBack::Rejected(_)));
    let first = entry.come_back(&terms(&rule), at(200));
    assert!(matches!(first, ComeBack::Call(..)));
    let second = entry.come_back(&terms(&rule), at(200));
    assert!(matches!(second, ComeBack::UnderWay));
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

#[derive(Clone, Copy, Debug)]
enum Step {
    Request { cost: u32, patient: bool },
    Answer { which: usize, lost: bool },
    Keep,
    Poll,
    Rule(bool),
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        8 => (1_u32..4, any::<bool>()).prop_map(|(cost, patient)| Step::Request { cost, patient }),
        8 => (0_usize..8, proptest::bool::weighted(0.1)).prop_map(|(which, lost)| Step::Answer { which, lost }),
        1 => Just(Step::Keep),
        2 => Just(Step::Poll),
        1 => any::<bool>().prop_map(Step::Rule),
    ];
    proptest::collection::vec((step, 0_u64..6), 1..400)
}

proptest! {
    /// One gateway against one real bucket, in any order of calls and answers: each token that is
    /// spent was taken from the bucket before, none is spent twice, and no more is held than may
    /// be. Lost answers lose tokens, and never make any.
    #[test]
    fn no_token_is_made(steps in steps(), capacity in 50_u32..2_000, refill in 10_u32..2_000) {
        let rules = [rule(capacity, f64::from(refill)), rule(capacity, f64::from(refill) + 1.0)];
        let mut current = 0;
        let mut bucket = Bucket::new(&rules[0], None, at(0));
        let mut entry = Entry::new(at(0));
        entry.begin_lease(name(), &terms(&rules[0]), 500.0, at(0));
        let mut calls: Vec<(Errand, usize)> = Vec::new();
        let mut waiting: Vec<(u32, Answered)> = Vec::new();
        let (mut taken, mut spent, mut back) = (0_u64, 0_u64, 0_u64);
        let mut ms = 0;
        for (step, pause) in steps {
            ms += pause;
            let now = at(ms);
            let rule = &rules[current];
            match step {
                Step::Request { cost, patient } => {
                    let terms = Terms { cost, ..terms(rule) };
                    let mut paid = false;
                    if let Some(spend) = entry.spend(&terms, now) {
                        calls.extend(spend.refill.map(|errand| (errand, current)));
                        back += u64::from(spend.died);
                        paid = spend.level.is_some();
                        spent += if paid { u64::from(cost) } else { 0 };
                    }
                    if !paid {
                        let answered = match entry.join(&terms, name, now) {
                            Join::Denied(_) => None,
                            Join::Call(errand, answered) => {
                                calls.push((errand, current));
                                Some(answered)
                            }
                            Join::Wait(answered) => Some(answered),
                        };
                        waiting.extend(answered.filter(|_| patient).map(|answered| (cost, answered)));
                    }
                }
                Step::Answer { which, lost } => {
                    if calls.is_empty() {
                        continue;
                    }
                    let (errand, under) = calls.swap_remove(which % calls.len());
                    let rule = &rules[under];
                    let grant = bucket.take(rule, &Ask { seed: None, ..errand.ask }, now);
                    taken += u64::from(grant.granted);
                    if lost {
                        entry.failed(errand, false, now);
                        back += u64::from(grant.granted);
                    } else {
                        let terms = Terms { cost: errand.ask.cost, ..terms(rule) };
                        let after = entry.answered(errand, &grant, &terms, (now, true), now);
                        back += u64::from(after.give_back);
                        calls.extend(after.next.map(|errand| (errand, under)));
                    }
                }
                Step::Keep => back += u64::from(entry.keep(1, 50, now).give_back),
                Step::Poll => {
                    if let Polled::Call(errand, ..) = entry.poll(1, 1, 50, now) {
                        calls.push((errand, current));
                    }
                }
                Step::Rule(which) => current = usize::from(which),
            }
            waiting.retain_mut(|(cost, answered)| match answered.try_recv() {
                Ok(Ok(grant)) => {
                    assert!(grant.granted == 0 || grant.granted == *cost);
                    spent += u64::from(grant.granted);
                    false
                }
                Ok(Err(_)) => false,
                Err(_) => true,
            });
            let held = u64::from(entry.lease().map_or(0, Lease::held));
            prop_assert_eq!(taken, spent + back + held);
            let most = rules.iter().map(|rule| terms(rule).most_held()).max();
            prop_assert!(held <= u64::from(most.unwrap_or(0)));
            prop_assert!(entry.direct <= CALLS);
        }
    }
}
