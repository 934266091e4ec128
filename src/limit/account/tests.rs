use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn rule(capacity: u32, refill: f64) -> Rule {
    Rule::new(capacity, refill).unwrap()
}

/// An answer that leaves `level`.
fn left(level: f64) -> Grant {
    Grant {
        granted: 1,
        level,
        wait: Duration::ZERO,
    }
}

/// An account of which the store has just said `level`.
fn told(rule: &Rule, level: f64, ms: u64) -> Account {
    let mut account = Account::new(at(ms));
    account.ask(rule, 1, 1, true, at(ms));
    account.heard(rule, 1, &left(level), true, at(ms));
    account
}

/// How many of `asked` requests at one moment the share lets through.
fn passed(account: &mut Account, rule: &Rule, n: u32, asked: u32, ms: u64) -> u32 {
    (0..asked)
        .map(|_| account.take(rule, n, 1, at(ms)).0.granted)
        .sum()
}

#[test]
fn an_account_is_small() {
    assert!(size_of::<Account>() <= 56, "{}", size_of::<Account>());
}

#[test]
fn the_share_begins_at_its_part_of_what_the_store_said_last() {
    let rule = rule(100, 10.0);
    // What was said, how long ago, and what a quarter of the bucket lets through.
    for (level, ago, expected) in [
        (100.0, 0, 25),
        (40.0, 0, 10),
        (3.0, 0, 0),
        (0.0, 2_000, 5),
        (0.0, 60_000, 25),
    ] {
        let mut account = told(&rule, level, 0);
        let at_once = passed(&mut account, &rule, 4, 100, ago);
        assert_eq!(at_once, expected, "{level} {ago} ms ago");
    }
}

#[test]
fn a_key_that_nobody_knows_begins_with_a_second_of_its_share_at_most() {
    for (capacity, refill, n, expected) in [
        (100, 50.0, 5, 10),
        (100, 50.0, 20, 2),
        (4, 50.0, 2, 2),
        (1_000, 0.1, 20, 1),
    ] {
        let rule = rule(capacity, refill);
        let mut account = Account::new(at(0));
        assert_eq!(passed(&mut account, &rule, n, 100, 0), expected);
    }
}

#[test]
fn what_is_spent_here_is_asked_back_once() {
    let rule = rule(1_000, 1.0);
    let mut account = told(&rule, 500.0, 0);
    assert_eq!(passed(&mut account, &rule, 2, 10, 0), 10);
    let first = account.ask(&rule, 2, 1, true, at(0));
    assert_eq!((first.debt, first.seed), (10, Some(500.0)));
    let second = account.ask(&rule, 2, 1, true, at(0));
    assert_eq!((second.debt, second.seed), (0, Some(500.0)));
    // It is owed again only where it certainly did not arrive.
    account.refused(first.debt, at(0));
    assert_eq!(account.ask(&rule, 2, 1, true, at(0)).debt, 10);
    account.ended();
    assert_eq!(account.ask(&rule, 2, 1, true, at(0)).debt, 0);
}

#[test]
fn a_call_that_must_not_carry_the_debt_seeds_below_it() {
    let rule = rule(1_000, 1.0);
    let mut account = told(&rule, 500.0, 0);
    passed(&mut account, &rule, 2, 10, 0);
    let ask = account.ask(&rule, 2, 1, false, at(0));
    assert_eq!((ask.debt, ask.seed), (0, Some(490.0)));
}

#[test]
fn an_account_that_the_store_never_spoke_of_has_no_seed() {
    let rule = rule(10, 1.0);
    let mut account = Account::new(at(0));
    passed(&mut account, &rule, 1, 1, 0);
    let ask = account.ask(&rule, 1, 1, true, at(0));
    assert_eq!((ask.debt, ask.seed), (1, None));
}

#[test]
fn what_nobody_needs_pays_what_is_owed_in_whole_tokens() {
    let rule = rule(1_000, 100.0);
    let mut account = told(&rule, 500.0, 0);
    assert_eq!(passed(&mut account, &rule, 1, 3, 0), 3);
    assert_eq!(account.pay(&rule, 1, 2, at(1)), 2);
    assert_eq!(account.pay(&rule, 1, 5, at(1)), 1);
    assert_eq!(account.pay(&rule, 1, 5, at(1)), 0);
    assert_eq!(account.ask(&rule, 1, 1, true, at(1)).debt, 0);
}

#[test]
fn a_short_outage_owes_all_that_was_spent() {
    let rule = rule(1_000, 100.0);
    let mut account = told(&rule, 300.0, 0);
    // The store's bucket is not full for seven seconds.
    assert_eq!(passed(&mut account, &rule, 2, 100, 0), 100);
    assert_eq!(account.ask(&rule, 2, 1, true, at(6_900)).debt, 100);
}

#[test]
fn after_a_long_outage_the_bucket_stands_where_one_for_all_would() {
    let rule = rule(100, 50.0);
    // Three gateways under three times the limit for ten seconds.
    let mut gateways = [told(&rule, 0.0, 0); 3];
    for ms in (0..10_000).step_by(20) {
        for gateway in &mut gateways {
            gateway.take(&rule, 3, 1, at(ms));
        }
    }
    let owed: u32 = gateways
        .iter_mut()
        .map(|gateway| gateway.ask(&rule, 3, 1, true, at(10_000)).debt)
        .sum();
    // The store's bucket is full, and by rights empty: a burst of tokens short.
    assert!((95..=100).contains(&owed), "{owed}");

    // One that was silent until the end owes just its burst.
    let mut late = told(&rule, 0.0, 0);
    assert_eq!(passed(&mut late, &rule, 3, 100, 10_000), 33);
    assert_eq!(late.ask(&rule, 3, 1, true, at(10_000)).debt, 33);
    // And one that spends less than its share all the time owes next to nothing.
    let mut calm = told(&rule, 100.0, 0);
    for ms in (0..10_000).step_by(100) {
        assert_eq!(calm.take(&rule, 3, 1, at(ms)).0.granted, 1);
    }
    assert!(calm.ask(&rule, 3, 1, true, at(10_000)).debt <= 1);
}

#[test]
fn on_the_way_back_the_share_goes_on_beside_the_store() {
    let rule = rule(100, 10.0);
    let mut account = told(&rule, 12.0, 0);
    assert_eq!(
        account.take_beside(&rule, 4, 1, at(0)),
        None,
        "it knows the store only"
    );
    assert_eq!(passed(&mut account, &rule, 4, 1, 0), 1);
    for (granted, level) in [(1, 4.0), (1, 0.0), (0, 0.0)] {
        let grant = account.take_beside(&rule, 4, 1, at(0)).unwrap();
        assert_eq!((grant.granted, grant.level), (granted, level));
        account.ask(&rule, 4, 1, true, at(0));
        account.heard(&rule, 4, &left(50.0), false, at(0));
    }
    account.ask(&rule, 4, 1, true, at(0));
    account.heard(&rule, 4, &left(50.0), true, at(0));
    assert_eq!(account.take_beside(&rule, 4, 1, at(0)), None);
}

#[test]
fn a_changed_rule_holds_at_once() {
    let mut account = told(&rule(1_000, 1.0), 1_000.0, 0);
    assert_eq!(passed(&mut account, &rule(10, 1.0), 2, 100, 0), 5);
    let ask = account.ask(&rule(10, 1.0), 2, 1, true, at(0));
    assert_eq!((ask.debt, ask.seed), (5, Some(10.0)));
}

#[test]
fn it_may_be_forgotten_when_it_is_full_and_nobody_was_there_for_a_while() {
    let fast = rule(10, 10.0);
    let account = told(&fast, 9.0, 0);
    assert!(!account.may_be_forgotten(at(9_000)), "its tenant is known");
    assert!(account.may_be_forgotten(at(11_000)));
    let slow = told(&rule(10, 0.1), 0.0, 0);
    assert!(!slow.may_be_forgotten(at(99_000)));
    assert!(slow.may_be_forgotten(at(101_000)));
    let mut unknown = Account::new(at(0));
    unknown.take(&fast, 1, 1, at(0));
    assert!(unknown.may_be_forgotten(at(2_000)));
    unknown.ask(&fast, 1, 1, true, at(2_000));
    assert!(!unknown.may_be_forgotten(at(60_000)), "a call is under way");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u32),
    Call { late: bool, lost: bool },
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        3 => (1_u32..4).prop_map(Step::Take),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(late, lost)| Step::Call { late, lost }),
    ];
    proptest::collection::vec((step, 0_u64..500), 1..200)
}

proptest! {
    /// One gateway against one real bucket: whatever is late or lost, what both let through
    /// together stays within the capacity, the refill, and what may be held.
    #[test]
    fn store_and_share_together_keep_to_the_limit(steps in steps(), capacity in 4_u32..200, refill in 1_u32..100) {
        let rule = rule(capacity, f64::from(refill));
        let mut bucket = Bucket::new(&rule, None, at(0));
        let mut account = Account::new(at(0));
        let mut ms = 0;
        let mut spent = 0.0;
        for (step, pause) in steps {
            ms += pause;
            match step {
                Step::Take(cost) => spent += f64::from(account.take(&rule, 1, cost, at(ms)).0.granted),
                Step::Call { late, lost } => {
                    let mut ask = account.ask(&rule, 1, 1, true, at(ms));
                    // It was there all along.
                    ask.seed = None;
                    let grant = bucket.take(&rule, &ask, at(ms));
                    match (late, lost) {
                        (_, true) => account.ended(),
                        // What is left then goes back.
                        (true, false) => {
                            account.heard(&rule, 1, &grant, true, at(ms));
                            let paid = account.pay(&rule, 1, grant.granted, at(ms));
                            bucket.give_back(&rule, grant.granted - paid, at(ms));
                        }
                        (false, false) => {
                            account.heard(&rule, 1, &grant, true, at(ms));
                            spent += f64::from(grant.granted);
                        }
                    }
                }
            }
        }
        let whole = f64::from(capacity) + ms as f64 / 1_000.0 * f64::from(refill);
        // What one second lets through that is not known of.
        let bound = whole + f64::from(refill) + 4.0;
        prop_assert!(spent <= bound, "{spent} > {bound}");
    }
}
