//! Redis away, wrong or forgetful: the limits hold, nothing is spent twice, and everything comes
//! back. How long each takes is measured elsewhere; see `load/faults`.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Config, Gateway, ONE_A_DAY, PATIENCE, Redis, Upstream, bucket_key, eventually, free_port,
    within,
};

/// A budget that a slow machine does not exceed: these tests are about what becomes of tokens.
const PATIENT: &str = "timeout: 5s, in_flight: 1000";

fn state(gateway: &Gateway) -> f64 {
    gateway.metric("aforo_breaker_state{node=\"0\"}")
}

fn transitions(gateway: &Gateway, to: &str) -> f64 {
    gateway.metric(&format!(
        "aforo_breaker_transitions_total{{node=\"0\",to=\"{to}\"}}"
    ))
}

fn debt(gateway: &Gateway, event: &str) -> f64 {
    gateway.metric(&format!("aforo_debt_tokens_total{{event=\"{event}\"}}"))
}

fn decisions(gateway: &Gateway, source: &str) -> f64 {
    gateway.metric(&format!("aforo_decisions_total{{source=\"{source}\"}}"))
}

/// One request of a tenant's: 1 if it passed.
fn pass(gateway: &Gateway, tenant: &str) -> u32 {
    u32::from(gateway.get(tenant, "/x").status == 200)
}

/// Requests of another tenant's, until the breaker is in this state.
#[track_caller]
fn until_breaker_is(gateway: &Gateway, wanted: f64) {
    eventually("the breaker's state", || {
        gateway.get("other", "/x");
        state(gateway) == wanted
    });
}

/// Requests of another tenant's, until one is decided by Redis.
#[track_caller]
fn until_redis_decides(gateway: &Gateway) {
    let before = decisions(gateway, "store");
    eventually("Redis decides", || {
        gateway.get("other", "/x");
        decisions(gateway, "store") > before
    });
}

#[test]
fn a_bucket_that_redis_lost_goes_on_where_the_gateway_had_it() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 10, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);
    let mut passed = 0;
    for _ in 0..8 {
        passed += pass(&gateway, "shop-a");
    }
    for _ in 0..20 {
        redis.flushall();
        passed += pass(&gateway, "shop-a");
    }
    assert_eq!(passed, 10);
    // A tenant that no gateway has seen begins full.
    redis.flushall();
    assert_eq!(
        gateway.get("shop-b", "/x").number("X-RateLimit-Remaining"),
        19
    );
}

#[test]
fn what_was_spent_without_redis_is_taken_from_its_bucket_once() {
    let upstream = Upstream::start();
    let mut redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 100, ONE_A_DAY)
        // What a lease holds would be spent before the share, and make the numbers differ by it.
        .limits("prefetch: { batch: 0 }")
        .redis(&redis, 2, PATIENT);
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);
    let mut passed = 0;
    for _ in 0..10 {
        passed += pass(&gateway, "shop-a");
    }
    assert_eq!(passed, 10);

    redis.kill();
    // The half of 90 that is this gateway's.
    for _ in 0..100 {
        passed += pass(&gateway, "shop-a");
    }
    assert_eq!(passed, 55);
    eventually("the breaker is open", || state(&gateway) == 2.0);
    assert!(debt(&gateway, "recorded") >= 45.0);

    // Redis comes back, empty.
    redis.restart();
    within(PATIENCE, "the breaker closes", || state(&gateway) == 0.0);
    let key = bucket_key("shop-a", "r");
    eventually("the bucket is there", || {
        passed += pass(&gateway, "shop-a");
        redis.exists(&key)
    });
    for _ in 0..5 {
        passed += pass(&gateway, "shop-a");
    }
    let left = redis.tokens(&key);
    assert!(
        (left - f64::from(100 - passed)).abs() < 0.1,
        "{left} {passed}"
    );
    assert!(debt(&gateway, "posted") >= 45.0);
}

#[test]
fn a_redis_that_refuses_opens_the_breaker_and_its_return_closes_it() {
    let upstream = Upstream::start();
    let mut redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, "");
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);

    redis.kill();
    until_breaker_is(&gateway, 2.0);
    let (takes, store) = (gateway.metrics(), decisions(&gateway, "store"));
    let calls = |metrics: &harness::Metrics, result: &str| {
        metrics.get(&format!(
            "aforo_store_calls_total{{op=\"take\",result=\"{result}\"}}"
        ))
    };
    for _ in 0..50 {
        let response = gateway.get("other", "/x");
        assert!([200, 429].contains(&response.status), "{response:?}");
    }
    let after = gateway.metrics();
    for result in ["ok", "short"] {
        assert_eq!(calls(&after, result), calls(&takes, result));
    }
    assert_eq!(decisions(&gateway, "store"), store);
    eventually("probes fail", || {
        gateway.metric("aforo_store_calls_total{op=\"probe\",result=\"error\"}") > 0.0
    });

    redis.restart();
    // Nobody has to ask for it.
    eventually("the breaker closes", || state(&gateway) == 0.0);
    until_redis_decides(&gateway);
    assert!(gateway.metric("aforo_store_calls_total{op=\"probe\",result=\"ok\"}") >= 3.0);
    let opened = transitions(&gateway, "open");
    assert!(opened >= 1.0 && transitions(&gateway, "closed") >= 1.0);
    let log = gateway.log();
    assert!(log.contains("the store is away"), "{log}");
    assert!(log.contains("the store is back"), "{log}");
}

#[test]
fn a_silent_redis_is_no_longer_asked_and_asked_again_when_it_speaks() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, "");
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);

    redis.pause();
    until_breaker_is(&gateway, 2.0);
    redis.resume();
    eventually("the breaker closes", || state(&gateway) == 0.0);
    until_redis_decides(&gateway);
}

#[test]
fn a_replica_is_no_store_until_it_is_promoted() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);

    let nobody = free_port().to_string();
    redis.query::<()>(&["REPLICAOF", "127.0.0.1", &nobody]);
    until_breaker_is(&gateway, 2.0);
    let failed = gateway.metric("aforo_store_calls_total{op=\"probe\",result=\"error\"}");
    eventually("probes do not pass", || {
        gateway.metric("aforo_store_calls_total{op=\"probe\",result=\"error\"}") > failed + 2.0
    });
    assert_eq!(state(&gateway), 2.0);

    redis.query::<()>(&["REPLICAOF", "NO", "ONE"]);
    eventually("the breaker closes", || state(&gateway) == 0.0);
    until_redis_decides(&gateway);
}

#[test]
fn a_full_redis_goes_on_deciding_and_a_policy_that_hurts_is_named() {
    let upstream = Upstream::start();
    for (policy, warns) in [("noeviction", true), ("volatile-ttl", false)] {
        let redis = Redis::start();
        redis.query::<()>(&["CONFIG", "SET", "maxmemory-policy", policy]);
        redis.query::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        let config = Config::new(&upstream).redis(&redis, 1, PATIENT);
        let gateway = Gateway::start(&config);
        until_redis_decides(&gateway);
        let before = decisions(&gateway, "fallback");
        for n in 0..50 {
            assert_eq!(pass(&gateway, &format!("shop-{n}")), 1);
        }
        assert_eq!(decisions(&gateway, "fallback"), before);
        assert_eq!(state(&gateway), 0.0);
        let log = gateway.log();
        assert_eq!(
            log.contains("maxmemory-policy is noeviction"),
            warns,
            "{log}"
        );
    }
}

#[test]
fn a_rule_says_what_happens_without_redis() {
    let upstream = Upstream::start();
    let redis = Redis::absent();
    let config = Config::new(&upstream)
        .rule_with("strict", "r", 10, ONE_A_DAY, "on_store_failure: closed")
        .rule_with("vital", "r", 10, ONE_A_DAY, "on_store_failure: open")
        .rule_with(
            "watched",
            "r",
            10,
            ONE_A_DAY,
            "on_store_failure: closed, shadow: true",
        )
        .redis(&redis, 1, "");
    let gateway = Gateway::start(&config);

    let seen = upstream.count();
    for _ in 0..20 {
        let response = gateway.get("strict", "/x");
        response.problem(503);
        assert_eq!(response.number("Retry-After"), 1);
        assert_eq!(response.header("X-RateLimit-Remaining"), None);
    }
    assert_eq!(upstream.count(), seen);
    eventually("they are counted, and not as decisions", || {
        gateway.metric("aforo_requests_total{route=\"r\",outcome=\"error\"}") == 20.0
    });
    assert_eq!(gateway.metrics().sum("aforo_decisions_total"), 0.0);
    for _ in 0..20 {
        let response = gateway.get("vital", "/x");
        assert_eq!(response.status, 200);
        assert_eq!(response.number("X-RateLimit-Remaining"), 10);
        assert_eq!(gateway.get("watched", "/x").status, 200);
    }
    assert_eq!(debt(&gateway, "recorded"), 0.0);
}

#[test]
fn gateways_count_each_other_through_redis_and_remember_it_without() {
    let upstream = Upstream::start();
    let mut redis = Redis::start();
    let config = Config::new(&upstream)
        .section(&format!(
            "store: {{ redis: {{ url: \"{}\" }} }}",
            redis.url()
        ))
        .section("cluster: { instances: auto, at_least: 2 }");
    let first = Gateway::start(&config);
    let instances = |gateway: &Gateway| gateway.metric("aforo_instances");
    assert_eq!(instances(&first), 2.0, "at least");
    let others = [(); 2].map(|()| Gateway::start(&config));
    eventually("three are counted", || instances(&first) == 3.0);
    let ttl: i64 = redis.query(&["PTTL", "rl:aforo:instances"]);
    assert!(ttl > 0, "{ttl}");
    assert!(gateway_beats(&first) >= 1.0);

    redis.kill();
    drop(others);
    eventually("a heartbeat is missed", || {
        let failed = |result| {
            first.metric(&format!(
                "aforo_store_calls_total{{op=\"heartbeat\",result=\"{result}\"}}"
            ))
        };
        failed("error") + failed("timeout") > 0.0
    });
    assert_eq!(instances(&first), 3.0);
}

fn gateway_beats(gateway: &Gateway) -> f64 {
    gateway.metric("aforo_store_calls_total{op=\"heartbeat\",result=\"ok\"}")
}
