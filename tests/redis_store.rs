//! Buckets in Redis: shared exactly, readable by others, and never in a client's way.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Config, Gateway, Load, ONE_A_DAY, ONE_A_MINUTE, Redis, Response, Upstream, assert_counts_down,
    bucket_key, burst, eventually,
};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A budget that a slow machine does not exceed: these tests are about what Redis decides.
const PATIENT: &str = "timeout: 5s, in_flight: 1000";

/// More than a client may ever wait with the usual budget of 5 ms, whatever the machine does
/// meanwhile. Waiting for a dead Redis takes longer by far, or for ever.
const NOBODY_WAITS: Duration = Duration::from_secs(2);

fn decisions(gateway: &Gateway, source: &str) -> f64 {
    gateway.metric(&format!("aforo_decisions_total{{source=\"{source}\"}}"))
}

/// Waits until Redis decides: a bucket of this tenant, unknown before, is in it.
#[track_caller]
fn wait_until_redis_decides(gateway: &Gateway, redis: &Redis, tenant: &str) {
    let before = decisions(gateway, "store");
    eventually("Redis decides", || {
        gateway.get(tenant, "/x");
        redis.exists(&bucket_key(tenant, "r"))
    });
    eventually("decisions of the store are counted", || {
        gateway.get(tenant, "/x");
        decisions(gateway, "store") > before
    });
}

#[track_caller]
fn assert_served(response: &Response) {
    assert!([200, 429].contains(&response.status), "{response:?}");
}

// One bucket, many gateways.

#[test]
fn three_gateways_let_exactly_the_capacity_of_one_bucket_through() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 100, ONE_A_MINUTE)
        .redis(&redis, 3, PATIENT);
    let gateways = [(); 3].map(|()| Gateway::start(&config));
    for (n, gateway) in gateways.iter().enumerate() {
        wait_until_redis_decides(gateway, &redis, &format!("warm-{n}"));
    }
    let before = upstream.count();

    let report = burst(
        &[&gateways[0], &gateways[1], &gateways[2]],
        1_000,
        "/x",
        |_| "shop-a".to_owned(),
    );

    report.assert_only(&[200, 429]);
    assert_eq!(report.count(200), 100);
    assert_eq!(report.count(429), 900);
    assert_eq!(upstream.count() - before, 100);
}

#[test]
fn tokens_that_another_gateway_takes_from_the_hash_are_gone() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("*", "r", 10, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");
    let key = bucket_key("shop-a", "r");

    // The other one was first, and left three and a half.
    redis.set_bucket(&key, 3.5, 0);
    assert_eq!(
        gateway.get("shop-a", "/x").number("X-RateLimit-Remaining"),
        2
    );
    // It takes one more.
    redis.set_bucket(&key, redis.tokens(&key) - 1.0, 0);
    assert_eq!(
        gateway.get("shop-a", "/x").number("X-RateLimit-Remaining"),
        0
    );
    assert_eq!(gateway.get("shop-a", "/x").status, 429);
}

// What is in Redis.

#[test]
fn a_bucket_is_a_hash_of_tokens_and_time_under_the_documented_key() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .route("id: create-order, path: /orders")
        .rule("shop-a", "create-order", 10, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);

    eventually("Redis decides", || {
        gateway.get("shop-a", "/orders");
        redis.exists("rl:{shop-a}:create-order")
    });
    // Only Redis's own takes show here: a first one may have been decided without it.
    let before = redis.tokens("rl:{shop-a}:create-order");
    gateway.get("shop-a", "/orders");

    let hash = redis.hash("rl:{shop-a}:create-order");
    let mut fields: Vec<&str> = hash.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["tokens", "ts"]);
    let tokens: f64 = hash["tokens"].parse().unwrap();
    assert!((before - tokens - 1.0).abs() < 0.01, "{before} {hash:?}");
    assert!(!hash["tokens"].contains(['e', 'E']), "{hash:?}");
    let age = redis.time_ms() - hash["ts"].parse::<i64>().unwrap();
    assert!((0..60_000).contains(&age), "{age}");
}

#[test]
fn names_cannot_break_out_of_their_key() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    for (tenant, key) in [
        ("shop-a", "rl:{shop-a}:r"),
        ("a{b}:c%", "rl:{a%7Bb%7D%3Ac%25}:r"),
        ("}:r", "rl:{%7D%3Ar}:r"),
        ("{}", "rl:{%7B%7D}:r"),
        ("%7B", "rl:{%257B}:r"),
        // Base64 and what else ordinary keys are made of stays as other gateways write it.
        ("aGk+/w==", "rl:{aGk+/w==}:r"),
        ("a.b-c_d~e!*'()\"\\", "rl:{a.b-c_d~e!*'()\"\\}:r"),
    ] {
        redis.flushall();
        gateway.get(tenant, "/x");
        assert_eq!(redis.keys("rl:{*"), [key], "{tenant}");
    }
}

#[test]
fn every_bucket_expires_after_twice_the_time_to_fill() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("usual", "r", 100, ONE_A_MINUTE)
        .rule("fraction", "r", 10, 3.0)
        .rule("fast", "r", 4, 10.0)
        .rule("slow", "r", 1_000_000, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    for (tenant, ttl) in [
        ("usual", 12_000_000),
        ("fraction", 6_667),
        // A second at least, 10^13 ms at most.
        ("fast", 1_000),
        ("slow", 10_000_000_000_000),
    ] {
        let start = Instant::now();
        assert_eq!(gateway.get(tenant, "/x").status, 200);
        let left: i64 = redis.query(&["PTTL", &bucket_key(tenant, "r")]);
        let passed = i64::try_from(start.elapsed().as_millis()).unwrap() + 1;
        // The fast one may have gone by now on a slow machine.
        if passed < ttl {
            assert!(left <= ttl && left >= ttl - passed, "{tenant}: {left}");
        }
    }
    let keys = redis.keys("rl:{*");
    for key in keys.iter().filter(|key| !key.contains("fast")) {
        let left: i64 = redis.query(&["PTTL", key]);
        assert!(left > 0 || left == -2, "{key} never expires");
    }
}

// The arithmetic, with time that passes for a bucket alone.

#[test]
fn one_token_in_ten_seconds_lets_four_of_sixty_takes_in_thirty_seconds_through() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 1, 0.1)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");
    let key = bucket_key("shop-a", "r");

    let start = Instant::now();
    let mut passed = 0.0;
    for _ in 0..60 {
        if gateway.get("shop-a", "/x").status == 200 {
            passed += 1.0;
        }
        redis.shift_time(&key, 500);
    }
    let bound = (1.0 + 0.1 * (30.0 + start.elapsed().as_secs_f64())).floor();
    assert!(passed >= 1.0 && passed <= bound, "{passed} > {bound}");

    // A rejection may be remembered for a moment; after it the token is there, and no second one.
    redis.shift_time(&key, 10_000);
    eventually("the token is there", || {
        gateway.get("shop-a", "/x").status == 200
    });
    assert_eq!(gateway.get("shop-a", "/x").status, 429);
}

#[test]
fn retry_after_is_rounded_up_to_whole_seconds_and_no_further() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("fifth", "r", 1, 1.0)
        .rule("two", "r", 1, 0.5)
        .rule("half-a-day", "r", 1, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    // Tokens and age of a bucket that no gateway knows yet, and how long its client has to wait.
    for (tenant, tokens, age_ms, seconds) in [
        ("two", 0.0, 0, 2),
        ("half-a-day", 0.0, 43_200_000, 43_200),
        ("fifth", 0.8, 0, 1),
    ] {
        let since = Instant::now();
        redis.set_bucket(&bucket_key(tenant, "r"), tokens, age_ms);
        let response = gateway.get(tenant, "/x");
        // The fifth of a second may be over by now on a slow machine.
        if response.status == 429 {
            let retry_after = response.number("Retry-After");
            assert!(retry_after >= 1);
            assert_counts_down(retry_after, seconds, since);
        } else {
            assert_eq!(tenant, "fifth", "{response:?}");
        }
    }
    redis.set_bucket(&bucket_key("half-a-day", "r"), 0.0, 86_400_000);
    eventually("a day later it is admitted", || {
        gateway.get("half-a-day", "/x").status == 200
    });
}

#[test]
fn a_rejected_take_leaves_the_bucket_as_it_was() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .route("id: import, path: /import, cost: 5")
        .route("id: default, path: /*")
        .rule("shop-a", "import", 7, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    eventually("Redis decides", || {
        gateway.get("warm", "/import");
        redis.exists(&bucket_key("warm", "import"))
    });
    let key = bucket_key("shop-a", "import");
    redis.set_bucket(&key, 2.0, 0);
    let before = redis.hash(&key);

    for _ in 0..3 {
        let response = gateway.get("shop-a", "/import");
        assert_eq!(response.status, 429);
        assert_eq!(response.number("X-RateLimit-Remaining"), 0);
    }
    assert_eq!(redis.hash(&key), before);
}

#[test]
fn big_numbers_lose_no_token() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 2_000_000_000, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    for remaining in [1_999_999_999_u64, 1_999_999_998] {
        let response = gateway.get("shop-a", "/x");
        assert_eq!(response.number("X-RateLimit-Remaining"), remaining);
        assert_eq!(response.number("X-RateLimit-Limit"), 2_000_000_000);
    }
    let tokens = redis.tokens(&bucket_key("shop-a", "r"));
    assert!((tokens - 1_999_999_998.0).abs() < 0.01, "{tokens}");
}

// Redis loses what it knew.

#[test]
fn a_lost_script_is_sent_again_and_redis_still_decides() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");
    let (store, fallback) = (
        decisions(&gateway, "store"),
        decisions(&gateway, "fallback"),
    );

    for n in 0..10 {
        redis.script_flush();
        let tenant = format!("shop-{n}");
        assert_eq!(gateway.get(&tenant, "/x").status, 200);
        assert!(redis.exists(&bucket_key(&tenant, "r")));
    }
    eventually("all ten are the store's", || {
        decisions(&gateway, "store") >= store + 10.0
    });
    assert_eq!(decisions(&gateway, "fallback"), fallback);
}

#[test]
fn no_client_sees_an_error_when_redis_forgets_or_restarts_under_load() {
    let upstream = Upstream::start();
    let mut redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, "");
    let gateway = Gateway::start(&config);
    let load = Load::start(&gateway, 4, "/x", |n| format!("shop-{}", n % 20));
    load.wait_for(50);

    for _ in 0..10 {
        redis.script_flush();
        load.wait_for(20);
        redis.flushall();
        load.wait_for(20);
    }
    for _ in 0..3 {
        redis.restart();
        load.wait_for(50);
    }
    let report = load.stop();

    report.assert_only(&[200, 429]);
    wait_until_redis_decides(&gateway, &redis, "afterwards");
}

// Redis is away.

#[test]
fn a_redis_that_hangs_keeps_no_client_waiting() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, "");
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    redis.pause();
    let report = burst(&[&gateway], 400, "/x", |n| format!("shop-{}", n % 100));
    redis.resume();

    report.assert_only(&[200, 429]);
    assert_eq!(report.count(200) + report.count(429), 400);
    assert!(report.slowest < NOBODY_WAITS, "{:?}", report.slowest);
    assert!(decisions(&gateway, "fallback") > 0.0);
    wait_until_redis_decides(&gateway, &redis, "afterwards");
}

#[test]
fn a_gateway_starts_without_redis_on_its_share_and_moves_to_redis_when_it_comes() {
    let upstream = Upstream::start();
    let mut redis = Redis::absent();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 10, ONE_A_MINUTE)
        .redis(&redis, 5, "");
    let gateway = Gateway::start(&config);

    // A fifth of ten.
    let mut passed = 0;
    for _ in 0..10 {
        let response = gateway.get("shop-a", "/x");
        assert_served(&response);
        assert_eq!(response.number("X-RateLimit-Limit"), 10);
        passed += u32::from(response.status == 200);
    }
    assert!((1..=2).contains(&passed), "{passed}");
    eventually("decisions without Redis are counted", || {
        decisions(&gateway, "fallback") > 0.0
    });
    assert_eq!(decisions(&gateway, "store"), 0.0);

    redis.restart();
    wait_until_redis_decides(&gateway, &redis, "shop-b");
}

#[test]
fn a_rejection_without_redis_carries_the_same_headers_as_any_other() {
    let upstream = Upstream::start();
    let redis = Redis::absent();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 10, ONE_A_MINUTE)
        .redis(&redis, 5, "");
    let gateway = Gateway::start(&config);

    let since = Instant::now();
    let mut response = gateway.get("shop-a", "/x");
    while response.status == 200 {
        response = gateway.get("shop-a", "/x");
    }

    let problem = response.problem(429);
    assert_eq!(
        problem["type"].as_str(),
        Some("https://iana.org/assignments/http-problem-types#quota-exceeded")
    );
    assert_eq!(response.number("X-RateLimit-Limit"), 10);
    assert_eq!(response.number("X-RateLimit-Remaining"), 0);
    assert!(response.number("X-RateLimit-Reset") >= 1);
    // One token of this gateway's fifth of one a minute.
    assert_counts_down(response.number("Retry-After"), 300, since);
}

#[test]
fn an_address_that_swallows_everything_keeps_nobody_waiting_and_no_gateway_from_starting() {
    // Connections are made by the kernel, and nobody ever reads from them.
    let black_hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", black_hole.local_addr().unwrap());
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream).redis_url(&url, 1, ""));

    let report = burst(&[&gateway], 200, "/x", |n| format!("shop-{n}"));

    report.assert_only(&[200]);
    assert!(report.slowest < NOBODY_WAITS, "{:?}", report.slowest);
    assert_eq!(decisions(&gateway, "store"), 0.0);
}

#[test]
fn a_key_of_the_wrong_type_is_decided_locally_and_no_other_is() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .default_rule(2, ONE_A_DAY)
        .redis(&redis, 1, PATIENT);
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");
    let fallback = decisions(&gateway, "fallback");
    let broken = bucket_key("broken", "r");
    redis.query::<()>(&["SET", &broken, "not a hash"]);

    for n in 0..20 {
        assert_served(&gateway.get("broken", "/x"));
        let tenant = format!("shop-{n}");
        assert_eq!(gateway.get(&tenant, "/x").status, 200);
        assert!(redis.exists(&bucket_key(&tenant, "r")), "{tenant}");
    }
    eventually("decisions without Redis are counted", || {
        decisions(&gateway, "fallback") > fallback
    });
    assert!(decisions(&gateway, "fallback") <= fallback + 20.0);
    // The limit holds for it too: two at most, from this gateway's share.
    assert_eq!(gateway.get("broken", "/x").status, 429);
    let value: String = redis.query(&["GET", &broken]);
    assert_eq!(value, "not a hash");
}

#[test]
fn calls_in_flight_are_bounded_and_a_request_at_the_bound_is_decided_locally() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, "timeout: 200ms, in_flight: 4");
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    redis.pause();
    let report = burst(&[&gateway], 100, "/x", |n| format!("shop-{n}"));
    let in_flight = gateway.metric("aforo_store_in_flight{node=\"0\"}");
    redis.resume();

    report.assert_only(&[200]);
    assert!(in_flight <= 4.0, "{in_flight}");
    eventually("nothing is in flight any more", || {
        gateway.metric("aforo_store_in_flight{node=\"0\"}") == 0.0
    });
    let arrived = redis.keys("rl:{shop-*");
    assert!(arrived.len() <= 4, "{arrived:?}");
}

#[test]
fn nothing_that_was_decided_while_redis_was_away_is_sent_to_it_later() {
    let upstream = Upstream::start();
    let mut redis = Redis::start();
    let config = Config::new(&upstream).redis(&redis, 1, "");
    let gateway = Gateway::start(&config);
    wait_until_redis_decides(&gateway, &redis, "warm");

    redis.kill();
    for n in 0..50 {
        assert_eq!(gateway.get(&format!("away-{n}"), "/x").status, 200);
    }
    redis.restart();
    wait_until_redis_decides(&gateway, &redis, "back");

    // Calls are answered in order: whatever had waited for the connection would be here by now.
    assert_eq!(redis.keys("rl:{away-*"), Vec::<String>::new());
}
