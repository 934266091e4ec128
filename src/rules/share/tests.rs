use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{FLOOR, Lease, Regional, Shares, is_elsewhere};
use crate::limit::demand::Demand;
use crate::limit::{BucketKey, Clock, ManualClock, Rule};

fn shares(base: f64, share: f64) -> Shares {
    Shares {
        share,
        ..Shares::unheard(base)
    }
}

#[test]
fn a_large_rule_moves_with_the_share_and_with_that_of_its_tenant() {
    let shares = Shares {
        tenants: HashMap::from_iter([("busy".into(), 0.9)]),
        ..shares(0.5, 0.2)
    };
    assert_eq!(shares.part("any", 100.0, 1, false), 0.2);
    assert_eq!(shares.part("busy", 100.0, 1, false), 0.9);
    assert_eq!(shares.part("busy", 100.0, 1, true), 0.5);
    assert_eq!(shares.part("any", 100.0, 1, true), 0.2);
    assert_eq!(shares.part("any", 20.0, 1, false), 0.2, "5 % of 20 is one");
    assert_eq!(shares.part("any", 100.0, 5, false), 0.2, "20 requests of 5");
}

#[test]
fn a_small_rule_stays_split_by_the_base_shares() {
    let away = shares(0.3, 0.9);
    assert_eq!(away.part("any", 19.0, 1, false), 0.3);
    assert_eq!(away.part("any", 4.0, 1, false), 0.3);
    assert_eq!(away.part("any", 3.0, 1, false), 0.0, "0.9 tokens are none");
    assert_eq!(away.part("any", 100.0, 10, false), 0.3, "ten requests");
    let home = Shares {
        home: Some(vec![0.3]),
        ..shares(0.7, 0.1)
    };
    assert_eq!(home.part("any", 4.0, 1, false), 0.7);
    assert_eq!(home.part("any", 3.0, 1, false), 1.0, "all of it is at home");
    assert_eq!(home.part("any", 1.0, 1, false), 1.0);
}

#[test]
fn without_a_database_the_larger_half_is_home() {
    assert_eq!(Shares::fixed(0.7).home, Some(vec![1.0 - 0.7]));
    assert_eq!(Shares::fixed(0.5).home, None);
    assert_eq!(Shares::fixed(0.3).home, None);
    assert_eq!(Shares::fixed(0.3).share, 0.3);
    assert_eq!(Shares::fixed(0.7).part("any", 2.0, 1, false), 1.0);
    assert_eq!(Shares::fixed(0.3).part("any", 2.0, 1, false), 0.0);
}

#[test]
fn what_is_above_the_base_share_ends_with_the_lease_and_not_before() {
    let clock = ManualClock::default();
    let lease = Arc::<Lease>::default();
    let demand = Arc::new(Demand::new(clock.now()));
    let lent = Regional::new(
        shares(0.3, 0.8),
        Arc::clone(&lease),
        Arc::clone(&demand),
        Arc::new(clock.clone()),
    );
    let rule = Rule::new(1_000, 500.0).unwrap();
    let key = BucketKey {
        tenant: "a",
        route: "r",
    };
    lease.extend(clock.now() + Duration::from_secs(6));
    clock.advance(Duration::from_millis(5_999));
    assert_eq!(lent.hold(&key, &rule, 1, 1), rule.part(0.8));
    assert_eq!(lent.share(), 0.8);
    clock.advance(Duration::from_millis(1));
    assert_eq!(lent.hold(&key, &rule, 1, 1), rule.part(0.3));
    assert_eq!(lent.share(), 0.3);
    lease.extend(clock.now() + Duration::from_secs(6));
    assert_eq!(lent.hold(&key, &rule, 1, 1), rule.part(0.8));

    let pinned = lent.hold(&key, &Rule::new(1, 500.0).unwrap(), 1, 1);
    assert!(is_elsewhere(&pinned));
    let counted = demand.read(clock.now());
    assert_eq!(counted[0].tokens_per_second * 6.0, 4.0, "each was counted");
    assert_eq!(counted[0].refill_per_second, 500.0, "of the whole limit");
}

proptest! {
    /// However small a rule is, and whatever the shares are, all regions together hold no more
    /// than all of it, and who holds any of a small one holds a request's worth.
    #[test]
    fn parts_sum_to_at_most_one(
        weights in prop::collection::vec(1.0..10.0f64, 2..5),
        moved in prop::collection::vec(0.0..1.0f64, 5),
        capacity in 1u32..100,
        cost in 1u32..8,
    ) {
        let sum: f64 = weights.iter().sum();
        let bases: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        prop_assume!(bases.iter().all(|base| *base >= FLOOR) && cost <= capacity);
        let moved_sum: f64 = moved[..bases.len()].iter().sum::<f64>().max(1e-9);
        let home = (0..bases.len()).max_by(|a, b| bases[*a].total_cmp(&bases[*b])).unwrap();
        let mut all = 0.0;
        for (place, base) in bases.iter().enumerate() {
            let others = bases.iter().enumerate().filter(|(other, _)| *other != place);
            let region = Shares {
                home: (place == home).then(|| others.map(|(_, base)| *base).collect()),
                ..shares(*base, FLOOR + (1.0 - FLOOR * bases.len() as f64) * moved[place] / moved_sum)
            };
            let part = region.part("any", f64::from(capacity), cost, false);
            let held = part * f64::from(capacity);
            prop_assert!(held == 0.0 || held + 1e-6 >= f64::from(cost), "{held} of {capacity}");
            all += part;
        }
        prop_assert!(all <= 1.0 + 1e-9, "{all}");
        prop_assert!(all > 0.99, "nothing is lost: {all}");
    }
}
