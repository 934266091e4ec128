use super::*;
use crate::limit::bucket::Bucket;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn fallback(instances: u32, max: usize) -> Fallback {
    Fallback::new(Arc::new(Instances::new(instances)), max)
}

fn id(fallback: &Fallback, tenant: &str) -> KeyId {
    fallback.id(&BucketKey { tenant, route: "r" })
}

/// The store answers for a tenant, leaving `level`.
fn told(fallback: &Fallback, tenant: &str, rule: &Rule, level: f64, ms: u64) {
    let grant = Bucket::new(rule, Some(level), at(ms)).take(
        rule,
        &Ask {
            count: 0,
            ..Ask::one(1)
        },
        at(ms),
    );
    fallback.heard(id(fallback, tenant), rule, &grant, true, at(ms));
}

fn passed(fallback: &Fallback, tenant: &str, rule: &Rule, asked: u32, ms: u64) -> u32 {
    let id = id(fallback, tenant);
    (0..asked)
        .map(|_| fallback.take(id, rule, 1, at(ms)).grant.granted)
        .sum()
}

#[test]
fn tenants_and_routes_have_shares_of_their_own() {
    let fallback = fallback(2, 1_000);
    let rule = Rule::new(4, 0.001).unwrap();
    told(&fallback, "a", &rule, 4.0, 0);
    assert_eq!(passed(&fallback, "a", &rule, 10, 0), 2);
    assert_eq!(passed(&fallback, "b", &rule, 10, 0), 1);
    let other = fallback.id(&BucketKey {
        tenant: "a",
        route: "s",
    });
    assert_eq!(fallback.take(other, &rule, 1, at(0)).grant.granted, 1);
    assert_eq!(fallback.len(), 3);
}

#[test]
fn the_level_is_that_of_the_whole_bucket() {
    let fallback = fallback(4, 1_000);
    let rule = Rule::new(100, 0.001).unwrap();
    told(&fallback, "a", &rule, 80.0, 0);
    let share = fallback.take(id(&fallback, "a"), &rule, 1, at(0));
    assert_eq!(
        (share.grant.granted, share.grant.level, share.owed),
        (1, 76.0, 1)
    );
}

#[test]
fn a_million_keys_take_no_more_room_than_the_bound_and_leave_known_tenants_their_share() {
    let fallback = fallback(2, 2_048);
    let rule = Rule::new(20, 10.0).unwrap();
    for n in 0..100 {
        told(&fallback, &format!("known-{n}"), &rule, 20.0, 0);
    }
    let mut strangers = 0;
    for n in 0..1_000_000_u32 {
        // Ten seconds of it; the known ones go on with three requests a second.
        let ms = u64::from(n / 100);
        strangers += passed(&fallback, &n.to_string(), &rule, 1, ms);
        if n % 33_333 == 0 {
            for known in 0..100 {
                assert_eq!(
                    passed(&fallback, &format!("known-{known}"), &rule, 1, ms),
                    1
                );
            }
        }
    }
    assert!(fallback.len() <= 2_048, "{}", fallback.len());
    // A place each, now and then, for those that fit; five a second for all others together.
    assert!(strangers < 30_000, "{strangers}");
}

#[test]
fn keys_without_a_place_have_no_account_and_still_a_limit() {
    let fallback = fallback(1, 1);
    let slow = Rule::new(100, 0.001).unwrap();
    for n in 0..10_000 {
        told(&fallback, &n.to_string(), &slow, 0.0, 0);
    }
    let held = fallback.len();
    let rule = Rule::new(100, 5.0).unwrap();
    let late: u32 = (0..1_000)
        .map(|n| passed(&fallback, &format!("late-{n}"), &rule, 1, 1_000))
        .sum();
    assert_eq!((late, fallback.len()), (5, held));
    let nobody = id(&fallback, "late-1");
    assert_eq!(fallback.ask(nobody, &rule, 1, true, at(1_000)), Ask::one(1));
    assert!(!fallback.is_on_the_way_back(nobody));
}

#[test]
fn one_call_for_a_key_is_enough_on_the_way_back() {
    let fallback = fallback(1, 1_000);
    let rule = Rule::new(100, 5.0).unwrap();
    told(&fallback, "a", &rule, 50.0, 0);
    let a = id(&fallback, "a");
    assert!(!fallback.is_on_the_way_back(a));
    fallback.ask(a, &rule, 1, true, at(0));
    assert!(fallback.is_on_the_way_back(a));
    fallback.lost(a);
    assert!(!fallback.is_on_the_way_back(a));
}

#[test]
fn a_share_follows_the_number_of_gateways() {
    let instances = Arc::new(Instances::new(2));
    let fallback = Fallback::new(Arc::clone(&instances), 1_000);
    let rule = Rule::new(100, 0.001).unwrap();
    told(&fallback, "a", &rule, 100.0, 0);
    told(&fallback, "b", &rule, 100.0, 0);
    assert_eq!(passed(&fallback, "a", &rule, 100, 0), 50);
    instances.heard(10, at(0));
    assert_eq!(passed(&fallback, "b", &rule, 100, 0), 10);
}
