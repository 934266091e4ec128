use super::*;
use crate::limit::key::BucketKey;

mod hot;
mod tokens;

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
