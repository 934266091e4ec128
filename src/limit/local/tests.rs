use super::*;

fn key(tenant: &str) -> BucketKey<'_> {
    BucketKey { tenant, route: "r" }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn passes(buckets: &LocalBuckets, tenant: &str, rule: &Rule, ms: u64) -> bool {
    buckets
        .take(&key(tenant), rule, &Ask::one(1), at(ms))
        .granted
        == 1
}

#[test]
fn tenants_and_routes_have_buckets_of_their_own() {
    let buckets = LocalBuckets::new(1000);
    let rule = Rule::new(1, 0.001).unwrap();
    assert!(passes(&buckets, "a", &rule, 0));
    assert!(!passes(&buckets, "a", &rule, 0));
    assert!(passes(&buckets, "b", &rule, 0));
    let other_route = BucketKey {
        tenant: "a",
        route: "s",
    };
    assert_eq!(
        buckets
            .take(&other_route, &rule, &Ask::one(1), at(0))
            .granted,
        1
    );
    assert_eq!(buckets.len(), 3);
}

#[test]
fn a_million_keys_take_no_more_room_than_the_bound_and_leave_known_ones_alone() {
    let buckets = LocalBuckets::new(1024);
    let slow = Rule::new(1000, 0.001).unwrap();
    for n in 0..100 {
        assert!(passes(&buckets, &format!("known-{n}"), &slow, 0));
    }
    for n in 0..1_000_000 {
        passes(&buckets, &n.to_string(), &slow, 1);
    }
    assert!(buckets.len() <= 1024, "{}", buckets.len());
    for n in 0..100 {
        let known = format!("known-{n}");
        let grant = buckets.take(&key(&known), &slow, &Ask::one(1), at(2));
        assert_eq!(grant.level.round(), 998.0, "{known} goes on where it was");
    }
}

#[test]
fn keys_that_do_not_fit_share_one_bucket_of_a_second() {
    let buckets = LocalBuckets::new(1);
    let rule = Rule::new(100, 5.0).unwrap();
    // One bucket for each shard, emptied for long, then all is full.
    for n in 0..10_000 {
        let early = format!("early-{n}");
        buckets.take(&key(&early), &rule, &Ask::one(100), at(0));
    }
    let late = (0..1000).filter(|n| passes(&buckets, &format!("late-{n}"), &rule, 1000));
    assert_eq!(late.count(), 5);
}

#[test]
fn buckets_that_are_full_again_make_room() {
    let buckets = LocalBuckets::new(64);
    let rule = Rule::new(10, 10.0).unwrap();
    for n in 0..10_000 {
        passes(&buckets, &n.to_string(), &rule, 0);
    }
    let held = buckets.len();
    // All of them are full after 100 ms; new keys take their places, with buckets of their own.
    for n in 0..10_000 {
        passes(&buckets, &format!("new-{n}"), &rule, 1000);
    }
    assert!(buckets.len() <= held.max(64), "{} of {held}", buckets.len());
    let own = (0..10_000).filter(|n| {
        let name = format!("new-{n}");
        let grant = buckets.take(&key(&name), &rule, &Ask::one(1), at(1000));
        grant.level == 8.0
    });
    assert!(
        own.count() > 0,
        "some of the new keys have a bucket of their own"
    );
}
