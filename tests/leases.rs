//! Leases, seen from outside: hot keys spend tokens that were taken beforehand, and nothing is
//! lost or won by it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod harness;

use std::time::Duration;

use harness::{
    Config, Gateway, ONE_A_DAY, PATIENCE, Redis, Upstream, bucket_key, eventually, within,
};

/// So large that a gateway may hold a whole batch twice.
const CAPACITY: u64 = 100_000;

fn decided(gateway: &Gateway, source: &str) -> f64 {
    gateway.metric(&format!("aforo_decisions_total{{source=\"{source}\"}}"))
}

fn tokens(gateway: &Gateway, event: &str) -> f64 {
    gateway.metric(&format!("aforo_lease_tokens_total{{event=\"{event}\"}}"))
}

fn held(gateway: &Gateway) -> f64 {
    gateway.metric("aforo_leased_tokens")
}

fn config(upstream: &Upstream, redis: &Redis) -> Config {
    Config::new(upstream)
        .default_rule(CAPACITY, ONE_A_DAY)
        .redis(redis, 1, "timeout: 5s, in_flight: 1000")
}

/// Requests on one connection, until some of them were decided by a lease. Says how many passed.
fn until_leased(gateway: &Gateway, tenant: &str) -> u64 {
    let before = decided(gateway, "lease");
    let mut client = gateway.connect();
    let mut passed = 0;
    within(PATIENCE, "a lease decides", || {
        for _ in 0..100 {
            let response = client.get(tenant, "/x").unwrap();
            passed += u64::from(response.status == 200);
        }
        decided(gateway, "lease") - before > 100.0
    });
    passed
}

#[test]
fn a_hot_key_is_decided_here_and_counted_there() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let gateway = Gateway::start(&config(&upstream, &redis));
    let passed = until_leased(&gateway, "shop-a") as f64;

    // What the client is told counts what is held; a token is spent, held, or in Redis.
    let response = gateway.get("shop-a", "/x");
    let left = CAPACITY as f64 - passed - 1.0;
    assert_eq!(response.number("X-RateLimit-Remaining") as f64, left);
    let key = bucket_key("shop-a", "r");
    eventually("what is idle goes back", || {
        held(&gateway) == 0.0 && redis.tokens(&key).round() == left
    });
    let events = ["spent", "returned", "expired"].map(|event| tokens(&gateway, event));
    assert_eq!(tokens(&gateway, "granted"), events.iter().sum::<f64>());
    assert!(events[1] > 0.0);
    assert_eq!(events[2], 0.0);
    let calls = gateway.metric("aforo_store_calls_total{op=\"give_back\",result=\"ok\"}");
    assert!(calls >= 1.0);
}

#[test]
fn without_prefetch_each_request_asks() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let off = config(&upstream, &redis).limits("prefetch: { batch: 0 }");
    let gateway = Gateway::start(&off);
    let mut client = gateway.connect();
    for _ in 0..500 {
        assert_eq!(client.get("shop-a", "/x").unwrap().status, 200);
    }
    assert_eq!(
        (decided(&gateway, "lease"), tokens(&gateway, "granted")),
        (0.0, 0.0)
    );
    assert!(decided(&gateway, "store") >= 500.0);
}

#[test]
fn prefetch_is_turned_off_and_on_by_a_reload() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let on = config(&upstream, &redis);
    let gateway = Gateway::start(&on);
    until_leased(&gateway, "shop-a");
    gateway.reload_with(&on.clone().limits("prefetch: { batch: 0 }"));
    eventually("nothing is held", || held(&gateway) == 0.0);
    let before = decided(&gateway, "lease");
    let mut client = gateway.connect();
    for _ in 0..300 {
        client.get("shop-a", "/x").unwrap();
    }
    assert_eq!(decided(&gateway, "lease"), before);
    gateway.reload_with(&on);
    until_leased(&gateway, "shop-a");
}

#[test]
fn a_gateway_that_ends_gives_its_leases_back() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let mut gateway = Gateway::start(&config(&upstream, &redis));
    let passed: u64 = ["shop-a", "shop-b", "shop-c"]
        .map(|tenant| until_leased(&gateway, tenant))
        .iter()
        .sum();
    gateway.signal("TERM");
    let status = gateway.wait_exit(PATIENCE);
    assert!(status.success(), "{status}\n{}", gateway.log());
    let left: f64 = ["shop-a", "shop-b", "shop-c"]
        .map(|tenant| redis.tokens(&bucket_key(tenant, "r")).round())
        .iter()
        .sum();
    assert_eq!(left, 3.0 * CAPACITY as f64 - passed as f64);
    assert!(
        gateway.log().contains("leases given back"),
        "{}",
        gateway.log()
    );
}

#[test]
fn a_gateway_that_is_killed_loses_at_most_what_it_may_hold() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let mut gateway = Gateway::start(&config(&upstream, &redis));
    let passed = until_leased(&gateway, "shop-a") as f64;
    gateway.signal("KILL");
    gateway.wait_exit(PATIENCE);
    let left = redis.tokens(&bucket_key("shop-a", "r")).round();
    let lost = CAPACITY as f64 - passed - left;
    assert!((0.0..=100.0).contains(&lost), "{lost}");
    // The others go on.
    let other = Gateway::start(&config(&upstream, &redis));
    let response = other.get("shop-a", "/x");
    assert_eq!(response.number("X-RateLimit-Remaining") as f64, left - 1.0);
}

#[test]
fn a_gateway_whose_redis_is_frozen_ends_all_the_same() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let mut gateway = Gateway::start(&config(&upstream, &redis));
    until_leased(&gateway, "shop-a");
    redis.pause();
    gateway.signal("TERM");
    let status = gateway.wait_exit(Duration::from_secs(8));
    redis.resume();
    assert!(status.success(), "{status}\n{}", gateway.log());
}

#[test]
fn what_is_held_is_spent_while_redis_is_away() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start());
    // A limit whose share per gateway is tiny beside what is held.
    let config = Config::new(&upstream)
        .default_rule(CAPACITY, ONE_A_DAY)
        .redis(&redis, 20, "timeout: 5s, in_flight: 1000");
    let gateway = Gateway::start(&config);
    until_leased(&gateway, "shop-a");
    let before = decided(&gateway, "lease");
    let fallback = decided(&gateway, "fallback");
    redis.kill();
    let mut client = gateway.connect();
    for _ in 0..20 {
        assert_eq!(client.get("shop-a", "/x").unwrap().status, 200);
    }
    let by_lease = decided(&gateway, "lease") - before;
    let by_share = decided(&gateway, "fallback") - fallback;
    assert_eq!(by_lease + by_share, 20.0);
    assert!(by_lease > 0.0);
}

#[test]
fn a_rejected_client_is_answered_from_memory() {
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let small = Config::new(&upstream).default_rule(5, ONE_A_DAY).redis(
        &redis,
        1,
        "timeout: 5s, in_flight: 1000",
    );
    let gateway = Gateway::start(&small);
    let mut client = gateway.connect();
    let statuses: Vec<u16> = (0..200)
        .map(|_| client.get("shop-a", "/x").unwrap().status)
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5);
    assert!(decided(&gateway, "denied") >= 150.0);
    let last = client.get("shop-a", "/x").unwrap();
    assert_eq!(last.number("X-RateLimit-Remaining"), 0);
    assert!(
        (86_300..=86_400).contains(&last.number("Retry-After")),
        "{last:?}"
    );
    // A raised limit is seen at once, however long the rejection would have been remembered.
    gateway.reload_with(&small.clone().default_rule(1_000, 1_000.0));
    eventually("the raised limit lets it pass", || {
        client.get("shop-a", "/x").unwrap().status == 200
    });
}
