use super::*;
use crate::limit::bucket::{Ask, Bucket};
use crate::limit::rule::Rule;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn keys(instances: u32, max: usize) -> Keys {
    Keys::new(Arc::new(Instances::new(instances)), max)
}

fn id(keys: &Keys, tenant: &str) -> KeyId {
    keys.id(&BucketKey { tenant, route: "r" })
}

/// The store answers for a tenant, leaving `level`.
fn told(keys: &Keys, tenant: &str, rule: &Rule, level: f64, ms: u64) {
    let grant = Bucket::new(rule, Some(level), at(ms)).take(
        rule,
        &Ask {
            count: 0,
            ..Ask::one(1)
        },
        at(ms),
    );
    let id = id(keys, tenant);
    keys.with_new(id, at(ms), |entry| {
        entry
            .account()
            .heard(rule, keys.instances.get(), &grant, true, at(ms))
    });
}

fn passed(keys: &Keys, tenant: &str, rule: &Rule, asked: u32, ms: u64) -> u32 {
    let id = id(keys, tenant);
    (0..asked)
        .map(|_| keys.take(id, rule, 1, at(ms)).grant.granted)
        .sum()
}

#[test]
fn tenants_and_routes_have_shares_of_their_own() {
    let keys = keys(2, 1_000);
    let rule = Rule::new(4, 0.001).unwrap();
    told(&keys, "a", &rule, 4.0, 0);
    assert_eq!(passed(&keys, "a", &rule, 10, 0), 2);
    assert_eq!(passed(&keys, "b", &rule, 10, 0), 1);
    let other = keys.id(&BucketKey {
        tenant: "a",
        route: "s",
    });
    assert_eq!(keys.take(other, &rule, 1, at(0)).grant.granted, 1);
    assert_eq!(keys.len(), 3);
}

#[test]
fn the_level_is_that_of_the_whole_bucket() {
    let keys = keys(4, 1_000);
    let rule = Rule::new(100, 0.001).unwrap();
    told(&keys, "a", &rule, 80.0, 0);
    let share = keys.take(id(&keys, "a"), &rule, 1, at(0));
    assert_eq!(
        (share.grant.granted, share.grant.level, share.owed),
        (1, 76.0, 1)
    );
}

#[test]
fn a_million_keys_take_no_more_room_than_the_bound_and_leave_known_tenants_their_share() {
    let keys = keys(2, 2_048);
    let rule = Rule::new(20, 10.0).unwrap();
    for n in 0..100 {
        told(&keys, &format!("known-{n}"), &rule, 20.0, 0);
    }
    let mut strangers = 0;
    for n in 0..1_000_000_u32 {
        // Ten seconds of it; the known ones go on with three requests a second.
        let ms = u64::from(n / 100);
        strangers += passed(&keys, &n.to_string(), &rule, 1, ms);
        if n % 33_333 == 0 {
            for known in 0..100 {
                assert_eq!(passed(&keys, &format!("known-{known}"), &rule, 1, ms), 1);
            }
        }
    }
    assert!(keys.len() <= 2_048, "{}", keys.len());
    // A place each, now and then, for those that fit; five a second for all others together.
    assert!(strangers < 30_000, "{strangers}");
}

#[test]
fn keys_without_a_place_have_no_account_and_still_a_limit() {
    let keys = keys(1, 1);
    let slow = Rule::new(100, 0.001).unwrap();
    for n in 0..10_000 {
        told(&keys, &n.to_string(), &slow, 0.0, 0);
    }
    let held = keys.len();
    let rule = Rule::new(100, 5.0).unwrap();
    let late: u32 = (0..1_000)
        .map(|n| passed(&keys, &format!("late-{n}"), &rule, 1, 1_000))
        .sum();
    assert_eq!((late, keys.len()), (5, held));
}

#[test]
fn a_share_follows_the_number_of_gateways() {
    let instances = Arc::new(Instances::new(2));
    let keys = Keys::new(Arc::clone(&instances), 1_000);
    let rule = Rule::new(100, 0.001).unwrap();
    told(&keys, "a", &rule, 100.0, 0);
    told(&keys, "b", &rule, 100.0, 0);
    assert_eq!(passed(&keys, "a", &rule, 100, 0), 50);
    instances.heard(10, at(0));
    assert_eq!(passed(&keys, "b", &rule, 100, 0), 10);
}
