//! What every bucket store must do, run against each of them alike.

#![allow(clippy::unwrap_used)]

mod harness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aforo::limit::{Ask, BucketKey, BucketStore, Grant, ManualClock, Rule};
use aforo::store::redis::access::TlsFiles;
use aforo::store::redis::{RedisStore, Settings, key};
use aforo::store::{MemoryStore, Store};
use harness::Redis;

/// A store, and a way to let time pass for one of its buckets.
trait Subject {
    fn store(&self) -> &dyn BucketStore;
    fn pass_time(&self, key: &BucketKey<'_>, time: Duration);
}

struct InMemory {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

struct InRedis {
    store: Arc<RedisStore>,
    redis: Redis,
}

impl Subject for InMemory {
    fn store(&self) -> &dyn BucketStore {
        &self.store
    }

    fn pass_time(&self, _key: &BucketKey<'_>, time: Duration) {
        self.clock.advance(time);
    }
}

impl Subject for InRedis {
    fn store(&self) -> &dyn BucketStore {
        &*self.store
    }

    /// Moves the bucket's stored time back, which to the script is the same.
    fn pass_time(&self, bucket: &BucketKey<'_>, time: Duration) {
        self.redis
            .shift_time(&key::bucket_key(bucket), time.as_millis() as i64);
    }
}

fn in_memory() -> InMemory {
    let clock = ManualClock::default();
    InMemory {
        store: MemoryStore::new(clock.clone(), 1000),
        clock,
    }
}

async fn in_redis() -> InRedis {
    let redis = Redis::start();
    let url = redis.url();
    let settings = Settings {
        tls: &TlsFiles::default(),
        url: &url,
        budget: Duration::from_secs(5),
        max_in_flight: 1000,
    };
    let store = Arc::new(RedisStore::new(&settings).unwrap());
    store.connect(Duration::from_secs(10)).await;
    InRedis { store, redis }
}

/// Each test once for each store.
macro_rules! for_each_store {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $test() { super::$test(&super::in_memory()).await; })*
        }
        mod redis {
            $(#[tokio::test] async fn $test() { super::$test(&super::in_redis().await).await; })*
        }
    };
}

for_each_store!(
    a_full_bucket_gives_its_capacity_and_no_more,
    refill_comes_back_with_time_and_stops_at_the_capacity,
    a_take_that_is_turned_down_changes_nothing,
    buckets_do_not_touch_each_other,
    requests_are_served_in_whole_costs_before_any_extra,
    a_seed_counts_only_where_there_is_no_bucket,
    a_debt_is_paid_before_anything_is_granted,
    a_changed_rule_holds_from_the_next_take_on,
    slow_rates_are_exact_to_the_second,
    a_thousand_takes_at_once_get_what_is_there,
    what_is_given_back_can_be_taken_again,
    what_is_given_back_fills_no_bucket_beyond_its_capacity,
    what_is_given_back_to_no_bucket_makes_none,
);

const KEY: BucketKey<'_> = BucketKey {
    tenant: "shop-a",
    route: "create-order",
};

/// So slow that the time a test takes brings nothing: a token in three years.
const NEVER: f64 = 1e-8;

fn rule(capacity: u32, refill: f64) -> Rule {
    Rule::new(capacity, refill).unwrap()
}

async fn take(subject: &impl Subject, rule: &Rule, ask: Ask) -> Grant {
    take_from(subject, &KEY, rule, ask).await
}

async fn take_from(subject: &impl Subject, key: &BucketKey<'_>, rule: &Rule, ask: Ask) -> Grant {
    subject
        .store()
        .take(key, rule, &ask)
        .finish()
        .await
        .unwrap()
}

async fn a_full_bucket_gives_its_capacity_and_no_more(subject: &impl Subject) {
    let rule = rule(3, NEVER);
    for left in [2.0, 1.0, 0.0] {
        let grant = take(subject, &rule, Ask::one(1)).await;
        assert_eq!((grant.granted, grant.level.round()), (1, left));
    }
    assert_eq!(take(subject, &rule, Ask::one(1)).await.granted, 0);
}

async fn refill_comes_back_with_time_and_stops_at_the_capacity(subject: &impl Subject) {
    let rule = rule(10, 0.01);
    assert_eq!(take(subject, &rule, Ask::one(10)).await.granted, 10);
    subject.pass_time(&KEY, Duration::from_secs(200));
    let grant = take(subject, &rule, Ask::one(1)).await;
    assert_eq!((grant.granted, grant.level.round()), (1, 1.0));
    subject.pass_time(&KEY, Duration::from_secs(1_000_000));
    let grant = take(subject, &rule, Ask::one(1)).await;
    assert_eq!(grant.level.round(), 9.0, "no more than the capacity");
}

async fn a_take_that_is_turned_down_changes_nothing(subject: &impl Subject) {
    let rule = rule(10, NEVER);
    assert_eq!(take(subject, &rule, Ask::one(8)).await.granted, 8);
    for _ in 0..100 {
        let grant = take(subject, &rule, Ask::one(5)).await;
        assert_eq!((grant.granted, grant.level.round()), (0, 2.0));
    }
    assert_eq!(take(subject, &rule, Ask::one(2)).await.granted, 2);
}

async fn buckets_do_not_touch_each_other(subject: &impl Subject) {
    let rule = rule(1, NEVER);
    for (tenant, route) in [
        ("a", "r"),
        ("b", "r"),
        ("a", "s"),
        ("a:r", "s"),
        ("a}", "{r"),
    ] {
        let key = BucketKey { tenant, route };
        let first = take_from(subject, &key, &rule, Ask::one(1)).await;
        let second = take_from(subject, &key, &rule, Ask::one(1)).await;
        assert_eq!((first.granted, second.granted), (1, 0), "{key:?}");
    }
}

async fn requests_are_served_in_whole_costs_before_any_extra(subject: &impl Subject) {
    let rule = rule(100, NEVER);
    let ask = Ask {
        count: 4,
        extra: 50,
        divisor: 4,
        ..Ask::one(5)
    };
    // 20 for the requests; a quarter of the 80 that are left.
    let grant = take(subject, &rule, ask).await;
    assert_eq!((grant.granted, grant.level.round()), (40, 60.0));
    let many = Ask {
        count: 100,
        ..Ask::one(7)
    };
    assert_eq!(take(subject, &rule, many).await.granted, 56);
}

async fn a_seed_counts_only_where_there_is_no_bucket(subject: &impl Subject) {
    let rule = rule(10, NEVER);
    let seeded = Ask {
        seed: Some(4.0),
        ..Ask::one(1)
    };
    assert_eq!(take(subject, &rule, seeded).await.level.round(), 3.0);
    assert_eq!(take(subject, &rule, seeded).await.level.round(), 2.0);
}

async fn a_debt_is_paid_before_anything_is_granted(subject: &impl Subject) {
    let rule = rule(10, 0.01);
    let owing = Ask {
        debt: 12,
        ..Ask::one(1)
    };
    let grant = take(subject, &rule, owing).await;
    assert_eq!((grant.granted, grant.level), (0, 0.0));
    assert_eq!(
        grant.wait.as_secs_f64().round(),
        300.0,
        "2 below, and one more"
    );
    subject.pass_time(&KEY, Duration::from_secs(290));
    assert_eq!(take(subject, &rule, Ask::one(1)).await.granted, 0);
    subject.pass_time(&KEY, Duration::from_secs(15));
    assert_eq!(take(subject, &rule, Ask::one(1)).await.granted, 1);
}

async fn a_changed_rule_holds_from_the_next_take_on(subject: &impl Subject) {
    assert_eq!(
        take(subject, &rule(100, NEVER), Ask::one(1))
            .await
            .level
            .round(),
        99.0
    );
    assert_eq!(
        take(subject, &rule(10, NEVER), Ask::one(1))
            .await
            .level
            .round(),
        9.0
    );
    let raised = take(subject, &rule(100, NEVER), Ask::one(1)).await;
    assert_eq!(raised.level.round(), 8.0, "no fresh burst");
}

async fn slow_rates_are_exact_to_the_second(subject: &impl Subject) {
    for (route, seconds) in [("minute", 60_u64), ("hour", 3600), ("day", 86_400)] {
        let key = BucketKey { tenant: "t", route };
        let rule = rule(1, 1.0 / seconds as f64);
        let began = Instant::now();
        assert_eq!(
            take_from(subject, &key, &rule, Ask::one(1)).await.granted,
            1
        );
        let wait = take_from(subject, &key, &rule, Ask::one(1)).await.wait;
        assert!(
            wait <= Duration::from_secs(seconds),
            "one a {route}: {wait:?}"
        );
        let passed = began.elapsed() + Duration::from_millis(2);
        assert!(
            wait + passed >= Duration::from_secs(seconds),
            "one a {route}: {wait:?}"
        );
        subject.pass_time(&key, Duration::from_secs(seconds));
        assert_eq!(
            take_from(subject, &key, &rule, Ask::one(1)).await.granted,
            1
        );
    }
}

async fn a_thousand_takes_at_once_get_what_is_there(subject: &impl Subject) {
    let rule = rule(100, NEVER);
    let calls: Vec<_> = (0..1000)
        .map(|_| subject.store().take(&KEY, &rule, &Ask::one(1)))
        .collect();
    let mut granted = 0;
    for call in calls {
        granted += call.finish().await.unwrap().granted;
    }
    assert_eq!(granted, 100);
}

#[test]
fn the_store_that_the_configuration_chooses_is_one_of_these() {
    let memory = Store::Memory(MemoryStore::new(Default::default(), 10));
    assert!(memory.is_local());
    assert_eq!((memory.local_buckets(), memory.in_flight(0)), (0, 0));
}

async fn give_back(subject: &impl Subject, rule: &Rule, tokens: u32) -> Grant {
    let call = subject.store().give_back(&KEY, rule, tokens);
    call.finish().await.unwrap()
}

async fn what_is_given_back_can_be_taken_again(subject: &impl Subject) {
    let rule = rule(10, NEVER);
    assert_eq!(take(subject, &rule, Ask::one(10)).await.granted, 10);
    let given = give_back(subject, &rule, 4).await;
    assert_eq!((given.granted, given.level.round()), (4, 4.0));
    assert_eq!(take(subject, &rule, Ask::one(5)).await.granted, 0);
    assert_eq!(take(subject, &rule, Ask::one(4)).await.granted, 4);
}

async fn what_is_given_back_fills_no_bucket_beyond_its_capacity(subject: &impl Subject) {
    let rule = rule(10, NEVER);
    assert_eq!(take(subject, &rule, Ask::one(3)).await.granted, 3);
    let given = give_back(subject, &rule, 50).await;
    assert_eq!((given.granted, given.level.round()), (3, 10.0));
    assert_eq!(take(subject, &rule, Ask::one(10)).await.granted, 10);
    // Nor beyond that of a rule that has been lowered meanwhile.
    let lowered = self::rule(4, NEVER);
    give_back(subject, &lowered, 10).await;
    assert_eq!(take(subject, &rule, Ask::one(1)).await.level.round(), 3.0);
    // The time that has passed counts first: what is full takes nothing.
    let slow = self::rule(10, 0.01);
    subject.pass_time(&KEY, Duration::from_secs(10_000));
    assert_eq!(give_back(subject, &slow, 5).await.granted, 0);
}

async fn what_is_given_back_to_no_bucket_makes_none(subject: &impl Subject) {
    let rule = rule(10, NEVER);
    assert_eq!(give_back(subject, &rule, 5).await.granted, 0);
    // It begins as any other does.
    let seeded = Ask {
        seed: Some(2.0),
        ..Ask::one(1)
    };
    assert_eq!(take(subject, &rule, seeded).await.level.round(), 1.0);
}
