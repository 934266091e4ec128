//! `/metrics`, and the health of the process beside it.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Answer, Config, Gateway, ONE_A_DAY, Redis, Upstream, burst, eventually, free_port};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn every_known_series_is_there_from_the_start_at_zero() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .route("id: create-order, methods: [POST], path: /orders")
        .route("id: default, path: /*")
        .rule("shop-a", "create-order", 10, ONE_A_DAY)
        .redis(&redis, 1, "");
    let gateway = Gateway::start(&config);
    let metrics = gateway.metrics();

    let mut expected = vec![
        "aforo_requests_total{route=\"none\",outcome=\"no_route\"}".to_owned(),
        "aforo_requests_total{route=\"none\",outcome=\"error\"}".to_owned(),
        "aforo_decision_seconds_count".to_owned(),
        "aforo_store_call_seconds_count".to_owned(),
        "aforo_upstream_seconds_count{upstream=\"main\"}".to_owned(),
        "aforo_store_late_total{node=\"0\"}".to_owned(),
        "aforo_store_in_flight{node=\"0\"}".to_owned(),
        "aforo_breaker_state{node=\"0\"}".to_owned(),
        "aforo_config_reload_total{result=\"ok\"}".to_owned(),
        "aforo_config_reload_total{result=\"error\"}".to_owned(),
        "aforo_rules_reload_total{result=\"ok\"}".to_owned(),
        "aforo_rules_reload_total{result=\"error\"}".to_owned(),
        "aforo_rules_age_seconds".to_owned(),
    ];
    for route in ["create-order", "default"] {
        expected.push(format!("aforo_request_seconds_count{{route=\"{route}\"}}"));
        for outcome in [
            "allowed",
            "limited",
            "shadow_limited",
            "unauthorized",
            "error",
        ] {
            expected.push(format!(
                "aforo_requests_total{{route=\"{route}\",outcome=\"{outcome}\"}}"
            ));
        }
    }
    for source in ["store", "fallback", "memory"] {
        expected.push(format!("aforo_decisions_total{{source=\"{source}\"}}"));
    }
    for kind in ["connect", "timeout", "reset"] {
        expected.push(format!(
            "aforo_upstream_errors_total{{upstream=\"main\",kind=\"{kind}\"}}"
        ));
    }
    for op in ["take", "probe", "heartbeat"] {
        for result in ["ok", "short", "error", "timeout"] {
            expected.push(format!(
                "aforo_store_calls_total{{op=\"{op}\",result=\"{result}\"}}"
            ));
        }
    }
    for to in ["closed", "half_open", "open"] {
        expected.push(format!(
            "aforo_breaker_transitions_total{{node=\"0\",to=\"{to}\"}}"
        ));
    }
    for event in ["recorded", "posted", "cancelled"] {
        expected.push(format!("aforo_debt_tokens_total{{event=\"{event}\"}}"));
    }
    for series in expected {
        assert_eq!(metrics.get(&series), 0.0, "{series}");
    }
}

#[test]
fn gauges_describe_the_process_and_its_configuration() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .rule("shop-a", "r", 10, ONE_A_DAY)
        .rule("shop-b", "r", 10, ONE_A_DAY);
    let gateway = Gateway::start(&config);
    let metrics = gateway.metrics();

    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        metrics.get(&format!("aforo_build_info{{version=\"{version}\"}}")),
        1.0
    );
    assert_eq!(metrics.get("aforo_limits_mode"), 2.0);
    assert_eq!(metrics.get("aforo_instances"), 1.0);
    assert_eq!(metrics.get("aforo_rules"), 2.0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let loaded = metrics.get("aforo_config_last_reload_timestamp_seconds");
    assert!((now.as_secs_f64() - loaded).abs() < 120.0, "{loaded}");
    for usual in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(metrics.contains(usual), "{usual}");
    }
}

#[test]
fn requests_are_counted_once_under_their_route_and_outcome() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .route("id: create-order, methods: [POST], path: /orders")
        .default_rule(3, ONE_A_DAY);
    let gateway = Gateway::start(&config);
    let post = |path: &str, key: &[(&str, &str)]| gateway.request("POST", path, key, b"").status;

    let key = [("X-Api-Key", "shop-a")];
    for status in [200, 200, 200, 429, 429] {
        assert_eq!(post("/orders", &key), status);
    }
    assert_eq!(post("/orders", &[]), 401);
    assert_eq!(post("/nowhere", &key), 404);
    assert_eq!(gateway.get("shop-a", "/orders").status, 405);
    assert_eq!(post("/a%2Fb", &key), 400);

    let counted = |route: &str, outcome: &str| {
        format!("aforo_requests_total{{route=\"{route}\",outcome=\"{outcome}\"}}")
    };
    eventually("all nine are counted", || {
        gateway.metrics().sum("aforo_requests_total") >= 9.0
    });
    let metrics = gateway.metrics();
    for (route, outcome, count) in [
        ("create-order", "allowed", 3.0),
        ("create-order", "limited", 2.0),
        ("create-order", "shadow_limited", 0.0),
        ("create-order", "unauthorized", 1.0),
        ("none", "no_route", 2.0),
        ("none", "error", 1.0),
    ] {
        let series = counted(route, outcome);
        assert_eq!(metrics.get(&series), count, "{series}");
    }
    assert_eq!(metrics.sum("aforo_requests_total"), 9.0);
    // Only those with a key and a route reached the limiter.
    assert_eq!(metrics.get("aforo_decisions_total{source=\"memory\"}"), 5.0);
    assert_eq!(metrics.sum("aforo_decisions_total"), 5.0);
    assert_eq!(
        metrics.get("aforo_upstream_seconds_count{upstream=\"main\"}"),
        3.0
    );
}

#[test]
fn a_request_that_was_passed_on_counts_as_allowed_whatever_the_upstream_did() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let gateway = Gateway::start(&Config::with_upstream_address(&nobody));
    assert_eq!(gateway.get("shop-a", "/x").status, 502);

    eventually("it is counted", || {
        gateway.metric("aforo_requests_total{route=\"r\",outcome=\"allowed\"}") == 1.0
    });
    assert_eq!(
        gateway.metric("aforo_requests_total{route=\"r\",outcome=\"error\"}"),
        0.0
    );
}

#[test]
fn calls_of_the_store_are_counted() {
    let upstream = Upstream::start();
    let redis = Redis::start();
    let config = Config::new(&upstream)
        .default_rule(2, ONE_A_DAY)
        .redis(&redis, 1, "timeout: 5s");
    let gateway = Gateway::start(&config);
    let decided = || gateway.metric("aforo_decisions_total{source=\"store\"}");
    eventually("Redis decides", || {
        gateway.get("warm", "/x");
        decided() > 0.0
    });

    let calls = || gateway.metric("aforo_store_calls_total{op=\"take\",result=\"ok\"}");
    let (calls_before, decided_before) = (calls(), decided());
    for n in 0..5 {
        assert_eq!(gateway.get(&format!("shop-{n}"), "/x").status, 200);
    }
    eventually("five calls are counted", || calls() >= calls_before + 5.0);
    eventually("five decisions are counted", || {
        decided() >= decided_before + 5.0
    });
    assert!(gateway.metric("aforo_store_call_seconds_count") >= 5.0);
}

#[test]
fn no_series_knows_a_tenant_a_path_or_an_address() {
    let upstream = Upstream::answering(Answer::Echo(Vec::new()));
    let redis = Redis::start();
    let gateway = Gateway::start(&Config::new(&upstream).redis(&redis, 1, ""));
    let series = || -> BTreeSet<String> { gateway.metrics().series().map(str::to_owned).collect() };
    gateway.get("first", "/x");
    let before = series();

    burst(&[&gateway], 1_000, "/secret-path", |n| {
        format!("tenant-{n}")
    })
    .assert_only(&[200, 429]);

    assert_eq!(series(), before);
    for name in before {
        let known = ["tenant-", "first", "secret-path", "127.0.0.1"];
        assert!(!known.iter().any(|word| name.contains(word)), "{name}");
    }
}

#[test]
fn health_and_readiness_answer_without_a_key() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream));
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(gateway.try_admin(path).unwrap().status, 200, "{path}");
    }
    assert_eq!(gateway.try_admin("/nothing").unwrap().status, 404);
    // They are not on the public port.
    assert!(
        gateway
            .get("shop-a", "/metrics")
            .text()
            .starts_with("GET /metrics")
    );
}
