//! What a client sees: statuses, headers, bodies and connections.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Answer, Client, Config, Gateway, ONE_A_DAY, ONE_A_MINUTE, ONE_AN_HOUR, Response, Store,
    Upstream, assert_counts_down, burst, eventually, free_port,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Checks a 429 of a bucket of this capacity, one that has to wait `seconds` since `since`.
#[track_caller]
fn assert_limited(response: &Response, capacity: u64, seconds: u64, since: Instant) {
    let problem = response.problem(429);
    assert_eq!(problem["type"].as_str(), Some(QUOTA_EXCEEDED));
    let policies = problem["violated-policies"].as_sequence().unwrap();
    assert_eq!(policies.len(), 1, "{problem:?}");
    assert_eq!(policies[0].as_str(), Some("default"));
    assert_eq!(response.number("X-RateLimit-Limit"), capacity);
    assert_eq!(response.number("X-RateLimit-Remaining"), 0);
    assert!(response.number("X-RateLimit-Reset") >= 1);
    assert_counts_down(response.number("Retry-After"), seconds, since);
}

#[track_caller]
fn assert_rate(response: &Response, capacity: u64, remaining: u64) {
    assert_eq!(response.number("X-RateLimit-Limit"), capacity);
    assert_eq!(
        response.number("X-RateLimit-Remaining"),
        remaining,
        "{response:?}"
    );
}

// Within the limit and over it.

#[test]
fn a_request_within_the_limit_is_forwarded_as_it_came_with_the_rate_headers() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).rule("shop-a", "r", 2, ONE_A_MINUTE);
    let gateway = Gateway::start(&config);

    let response = gateway.request(
        "POST",
        "/orders/7?b=%20x&a=1",
        &[("X-Api-Key", "shop-a"), ("X-Other", "kept")],
        b"two apples",
    );

    assert_eq!(response.status, 200);
    assert_rate(&response, 2, 1);
    assert_eq!(response.number("X-RateLimit-Reset"), 60);
    assert_eq!(response.header("Retry-After"), None);
    assert!(response.text().starts_with("POST /orders/7?b=%20x&a=1\n"));
    let seen = upstream.only();
    assert_eq!(seen.all("X-Other"), ["kept"]);
    assert_eq!(seen.body, b"two apples");
}

#[test]
fn two_tokens_give_two_answers_then_429_and_one_more_after_the_time_in_retry_after() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .rule("shop-a", "r", 2, 0.5)
            .store(&store);
        let gateway = Gateway::start(&config);

        let since = Instant::now();
        assert_rate(&gateway.get("shop-a", "/x"), 2, 1);
        let second = gateway.get("shop-a", "/x");
        assert_eq!(second.status, 200);
        assert_rate(&second, 2, 0);
        assert_counts_down(second.number("X-RateLimit-Reset"), 4, since);
        let third = gateway.get("shop-a", "/x");
        assert_limited(&third, 2, 2, since);
        assert_eq!(upstream.count(), 2, "the third reached the upstream");

        std::thread::sleep(Duration::from_secs(third.number("Retry-After")));
        let fourth = gateway.get("shop-a", "/x");
        assert_eq!(fourth.status, 200);
        assert_rate(&fourth, 2, 0);
    }
}

#[test]
fn retry_after_is_exact_for_one_a_minute_an_hour_and_a_day() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .rule("minute", "r", 1, ONE_A_MINUTE)
            .rule("hour", "r", 1, ONE_AN_HOUR)
            .rule("day", "r", 1, ONE_A_DAY)
            .store(&store);
        let gateway = Gateway::start(&config);

        for (tenant, seconds) in [("minute", 60), ("hour", 3_600), ("day", 86_400)] {
            let since = Instant::now();
            assert_eq!(gateway.get(tenant, "/x").status, 200);
            let response = gateway.get(tenant, "/x");
            assert_limited(&response, 1, seconds, since);
            assert_counts_down(response.number("X-RateLimit-Reset"), seconds, since);
        }
    }
}

#[test]
fn a_cost_above_what_is_left_is_rejected_and_waits_for_the_tokens_that_are_missing() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .route("id: import, path: /import, cost: 5")
            .rule("shop-a", "import", 7, ONE_A_MINUTE)
            .store(&store);
        let gateway = Gateway::start(&config);

        let since = Instant::now();
        assert_rate(&gateway.get("shop-a", "/import"), 7, 2);
        for _ in 0..3 {
            // Three more tokens are needed, and no rejected try takes any.
            assert_limited(&gateway.get("shop-a", "/import"), 7, 180, since);
        }
    }
}

#[test]
fn a_fast_small_bucket_lets_its_capacity_through_and_what_refills_meanwhile() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .rule("shop-a", "r", 4, 10.0)
            .store(&store);
        let gateway = Gateway::start(&config);

        let start = Instant::now();
        let report = burst(&[&gateway], 1_000, "/x", |_| "shop-a".to_owned());
        let bound = 4.0 + 10.0 * start.elapsed().as_secs_f64();

        report.assert_only(&[200, 429]);
        let passed = report.count(200);
        assert!(passed >= 4 && passed as f64 <= bound, "{passed} > {bound}");
    }
}

#[test]
fn a_burst_across_the_edge_of_a_second_is_not_granted_twice() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .rule("shop-a", "r", 100, 100.0)
            .store(&store);
        let gateway = Gateway::start(&config);

        let into_second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let to_edge = 1_000 - u64::from(into_second.subsec_millis());
        std::thread::sleep(Duration::from_millis((to_edge + 960) % 1_000));
        let start = Instant::now();
        // Fewer than may be on their way to the store at once.
        let report = burst(&[&gateway], 200, "/x", |_| "shop-a".to_owned());
        let bound = 100.0 + 100.0 * start.elapsed().as_secs_f64();

        report.assert_only(&[200, 429]);
        let passed = report.count(200);
        assert!(
            passed >= 100 && passed as f64 <= bound,
            "{passed} > {bound}"
        );
    }
}

#[test]
fn an_empty_bucket_that_is_asked_all_the_time_still_refills_at_its_rate() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .rule("shop-a", "r", 40, 20.0)
            .store(&store);
        let gateway = Gateway::start(&config);
        let mut client = gateway.connect();

        // Ends on a rejection, so that less than one token is left.
        let start = Instant::now();
        let mut passed = 0.0;
        loop {
            match client.get("shop-a", "/x").unwrap().status {
                200 => passed += 1.0,
                429 if start.elapsed() > Duration::from_secs(3) => break,
                429 => {}
                other => panic!("{other}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let refilled = 20.0 * start.elapsed().as_secs_f64();

        assert!(
            passed <= 40.0 + refilled,
            "{passed} with {refilled} refilled"
        );
        // 3 s give 60 at least; a rejection that took a token or reset the clock leaves far fewer.
        assert!(passed >= 95.0, "{passed} with {refilled} refilled");
    }
}

#[test]
fn each_tenant_and_each_route_has_a_bucket_of_its_own() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .route("id: one, path: /one")
            .route("id: two, path: /two")
            .default_rule(1, ONE_A_DAY)
            .store(&store);
        let gateway = Gateway::start(&config);

        // Names that would meet if they were only put together.
        for tenant in ["a", "a:one", "a}:one", "{a}", "a%", "a%3A", "A", "*"] {
            for path in ["/one", "/two"] {
                assert_eq!(gateway.get(tenant, path).status, 200, "{tenant} {path}");
                assert_eq!(gateway.get(tenant, path).status, 429, "{tenant} {path}");
            }
        }
    }
}

#[test]
fn the_most_specific_rule_is_the_one_in_force() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .route("id: one, path: /one")
        .route("id: two, path: /two")
        .default_rule(10, ONE_A_DAY)
        .rule("*", "one", 20, ONE_A_DAY)
        .rule("shop-a", "*", 30, ONE_A_DAY)
        .rule("shop-a", "one", 40, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    for (tenant, path, capacity) in [
        ("shop-a", "/one", 40),
        ("shop-a", "/two", 30),
        ("shop-b", "/one", 20),
        ("shop-b", "/two", 10),
    ] {
        assert_rate(&gateway.get(tenant, path), capacity, capacity - 1);
    }
}

#[test]
fn without_rules_everybody_has_twenty_and_ten_a_second() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream));

    let response = gateway.get("anybody", "/x");
    assert_rate(&response, 20, 19);
    assert_eq!(response.number("X-RateLimit-Reset"), 1);
}

// Refused before the limit.

#[test]
fn a_missing_repeated_or_malformed_key_is_401_and_reaches_nobody() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream));
    let too_long = "k".repeat(65);

    let cases: &[(&str, &[(&str, &str)])] = &[
        ("none", &[]),
        ("empty", &[("X-Api-Key", "")]),
        ("twice", &[("X-Api-Key", "a"), ("X-Api-Key", "b")]),
        ("twice the same", &[("X-Api-Key", "a"), ("x-api-key", "a")]),
        ("one of two empty", &[("X-Api-Key", "a"), ("X-Api-Key", "")]),
        ("too long", &[("X-Api-Key", &too_long)]),
        ("a space", &[("X-Api-Key", "a b")]),
        ("a tab", &[("X-Api-Key", "a\tb")]),
        ("not ASCII", &[("X-Api-Key", "tiendá")]),
    ];
    for (case, headers) in cases {
        let response = gateway.request("GET", "/x", headers, b"");
        response.problem(401);
        assert_eq!(
            response.header("WWW-Authenticate"),
            Some(r#"ApiKey realm="aforo", header="X-Api-Key""#),
            "{case}"
        );
        response.assert_no_rate_headers();
    }
    // A control byte may be refused by the HTTP parser already.
    let response = gateway.request("GET", "/x", &[("X-Api-Key", "a\x01b")], b"");
    assert!([400, 401].contains(&response.status), "{response:?}");
    assert_eq!(upstream.count(), 0);

    let longest = "k".repeat(64);
    assert_eq!(gateway.get(&longest, "/x").status, 200);
}

#[test]
fn the_header_that_names_the_tenant_can_be_another_one() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .section("tenant: { header: X-Shop }")
        .rule("shop-a", "r", 3, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    let response = gateway.request("GET", "/x", &[("X-Shop", "shop-a")], b"");
    assert_rate(&response, 3, 2);
    let response = gateway.get("shop-a", "/x");
    response.problem(401);
    assert_eq!(
        response.header("WWW-Authenticate"),
        Some(r#"ApiKey realm="aforo", header="X-Shop""#)
    );
}

#[test]
fn a_path_without_a_route_is_404_before_the_key_is_asked_for_and_takes_no_token() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .route("id: orders, path: /orders")
        .default_rule(2, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    for headers in [&[][..], &[("X-Api-Key", "shop-a")]] {
        let response = gateway.request("GET", "/nowhere", headers, b"");
        response.problem(404);
        response.assert_no_rate_headers();
        assert_eq!(response.header("WWW-Authenticate"), None);
    }
    assert_eq!(upstream.count(), 0);
    assert_rate(&gateway.get("shop-a", "/orders"), 2, 1);
}

#[test]
fn a_known_path_with_another_method_is_405_and_names_those_that_are_allowed() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).route("id: create, methods: [POST], path: /orders");
    let gateway = Gateway::start(&config);

    for headers in [&[][..], &[("X-Api-Key", "shop-a")]] {
        let response = gateway.request("DELETE", "/orders", headers, b"");
        response.problem(405);
        assert_eq!(response.header("Allow"), Some("POST"));
        response.assert_no_rate_headers();
    }
    assert_eq!(upstream.count(), 0);
}

#[test]
fn a_path_with_no_honest_reading_is_400_whatever_else_is_wrong() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream));

    for path in ["/a%2Fb", "/a%5Cb", "/a%00b", "/a%zzb", "/a%2", "/../x"] {
        for headers in [&[][..], &[("X-Api-Key", "shop-a")]] {
            let response = gateway.request("GET", path, headers, b"");
            assert_eq!(response.status, 400, "{path}");
            response.assert_no_rate_headers();
        }
    }
    assert_eq!(upstream.count(), 0);
}

// Routes.

#[test]
fn exact_paths_and_prefixes_find_their_routes() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .route("id: create, methods: [POST], path: /orders")
        .route("id: list, methods: [GET], path: /orders")
        .route("id: below, path: /orders/*")
        .route("id: default, path: /*")
        .rule("*", "create", 1, ONE_A_DAY)
        .rule("*", "list", 2, ONE_A_DAY)
        .rule("*", "below", 3, ONE_A_DAY)
        .rule("*", "default", 4, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    for (method, target, capacity) in [
        ("POST", "/orders", 1),
        ("GET", "/orders", 2),
        ("GET", "/orders?page=2", 2),
        ("GET", "/orders/", 3),
        ("GET", "/orders/7", 3),
        ("PUT", "/orders/7/items/1?x", 3),
        ("GET", "/ordersandmore", 4),
        ("GET", "/Orders", 4),
        ("GET", "/", 4),
    ] {
        let tenant = format!("t{}", upstream.count());
        let response = gateway.request(method, target, &[("X-Api-Key", &tenant)], b"");
        assert_eq!(response.status, 200, "{method} {target}");
        assert_eq!(
            response.number("X-RateLimit-Limit"),
            capacity,
            "{method} {target}"
        );
        assert_eq!(upstream.targets().last().unwrap(), target);
    }
}

#[test]
fn no_spelling_of_a_path_escapes_its_limit() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .route("id: orders, path: /orders")
        .route("id: default, path: /*")
        .rule("*", "orders", 1, ONE_A_DAY)
        .rule("*", "default", 1_000, ONE_A_DAY);
    let gateway = Gateway::start(&config);
    assert_eq!(gateway.get("shop-a", "/orders").status, 200);

    for spelling in [
        "/orders?x",
        "/%6frders",
        "/%6Frder%73",
        "//orders",
        "/./orders",
        "/x/../orders",
        "/x/%2e%2e/orders",
    ] {
        // The same limit, or refused altogether.
        let response = gateway.get("shop-a", spelling);
        assert!([400, 429].contains(&response.status), "{spelling}");
    }
    assert_eq!(upstream.targets(), ["/orders"]);
}

// The upstream.

#[test]
fn the_rate_headers_are_ours_alone_whatever_the_upstream_sends() {
    let upstream = Upstream::answering(Answer::Echo(vec![
        ("X-RateLimit-Remaining", "999"),
        ("x-ratelimit-remaining", "998"),
        ("X-RATELIMIT-LIMIT", "999"),
        ("X-RateLimit-Reset", "0"),
        ("X-Other", "kept"),
    ]));
    let config = Config::new(&upstream).rule("shop-a", "r", 2, ONE_A_MINUTE);
    let gateway = Gateway::start(&config);

    let response = gateway.get("shop-a", "/x");
    assert_rate(&response, 2, 1);
    assert_eq!(response.number("X-RateLimit-Reset"), 60);
    assert_eq!(response.header("X-Other"), Some("kept"));
}

#[test]
fn an_upstream_that_refuses_is_502_with_the_rate_headers() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let config = Config::with_upstream_address(&nobody).rule("shop-a", "r", 2, ONE_A_MINUTE);
    let gateway = Gateway::start(&config);

    let response = gateway.get("shop-a", "/x");
    response.problem(502);
    assert_rate(&response, 2, 1);
    assert_eq!(response.number("X-RateLimit-Reset"), 60);
    assert_eq!(response.header("Retry-After"), None);
    // It was forwarded as far as we are concerned: the token is gone.
    gateway.get("shop-a", "/x").problem(502);
    gateway.get("shop-a", "/x").problem(429);
    eventually("the failures are counted", || {
        gateway.metric("aforo_upstream_errors_total{upstream=\"main\",kind=\"connect\"}") >= 2.0
    });
}

#[test]
fn an_upstream_that_hangs_up_is_502_with_the_rate_headers() {
    let upstream = Upstream::answering(Answer::Close);
    let config = Config::new(&upstream).rule("shop-a", "r", 2, ONE_A_MINUTE);
    let gateway = Gateway::start(&config);

    let response = gateway.get("shop-a", "/x");
    response.problem(502);
    assert_rate(&response, 2, 1);
    eventually("the failure is counted", || {
        gateway.metric("aforo_upstream_errors_total{upstream=\"main\",kind=\"reset\"}") >= 1.0
    });
}

#[test]
fn an_upstream_that_is_too_slow_is_504_with_the_rate_headers() {
    let upstream = Upstream::answering(Answer::Hold);
    let config = Config::new(&upstream)
        .upstream_settings("read_timeout: 300ms, retries: 0")
        .rule("shop-a", "r", 2, ONE_A_MINUTE);
    let gateway = Gateway::start(&config);

    let response = gateway.get("shop-a", "/x");
    response.problem(504);
    assert_rate(&response, 2, 1);
    eventually("the failure is counted", || {
        gateway.metric("aforo_upstream_errors_total{upstream=\"main\",kind=\"timeout\"}") >= 1.0
    });
}

// Connections.

/// A gateway whose tenant `shop-a` has used up its only token, and a connection to it.
fn limited(upstream: &Upstream) -> (Gateway, Client) {
    let gateway = Gateway::start(&Config::new(upstream).default_rule(1, ONE_A_DAY));
    assert_eq!(gateway.get("shop-a", "/x").status, 200);
    let client = gateway.connect();
    (gateway, client)
}

#[test]
fn a_connection_stays_open_after_a_429_without_a_body() {
    let upstream = Upstream::start();
    let (_gateway, mut client) = limited(&upstream);

    for _ in 0..3 {
        let response = client.get("shop-a", "/x").unwrap();
        assert_eq!(response.status, 429);
        assert_ne!(response.header("Connection"), Some("close"));
    }
    assert_eq!(client.get("shop-b", "/x").unwrap().status, 200);
    assert!(client.is_open());
}

#[test]
fn a_connection_stays_open_after_a_429_to_a_request_with_a_small_body() {
    let upstream = Upstream::start();
    let (_gateway, mut client) = limited(&upstream);

    for size in [1, 1_000, 64 * 1024] {
        // A body that looks like a request must never be taken for one.
        let body = b"GET /y HTTP/1.1\r\nHost: test\r\n\r\n".repeat(size / 31 + 1);
        let headers = [("X-Api-Key", "shop-a")];
        let response = client
            .request("POST", "/x", &headers, &body[..size])
            .unwrap();
        assert_eq!(response.status, 429, "{size} bytes");
        assert_ne!(response.header("Connection"), Some("close"), "{size} bytes");
    }
    assert_eq!(client.get("shop-b", "/x").unwrap().status, 200);
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_connection_is_closed_after_a_429_to_a_request_with_a_big_or_endless_body() {
    let upstream = Upstream::start();
    let (gateway, _) = limited(&upstream);

    for (length, start) in [
        ("Content-Length: 10000000", "the first bytes"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
    ] {
        let mut client = gateway.connect();
        let head = format!("POST /x HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n{length}\r\n");
        client
            .send(format!("{head}\r\n{start}").as_bytes())
            .unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 429);
        eventually("the connection is closed", || !client.is_open());
    }
    assert_eq!(upstream.count(), 1);
}

// The operator's switch.

#[test]
fn shadow_decides_without_rejecting_and_off_forwards_everything_by_sighup() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).default_rule(1, ONE_A_DAY);
    let gateway = Gateway::start(&config);
    let outcome = |name: &str| {
        let series = format!("aforo_requests_total{{route=\"r\",outcome=\"{name}\"}}");
        gateway.metric(&series)
    };
    assert_eq!(gateway.get("shop-a", "/x").status, 200);
    assert_eq!(gateway.get("shop-a", "/x").status, 429);
    assert_eq!(gateway.metric("aforo_limits_mode"), 2.0);

    gateway.reload_with(&config.clone().limits("mode: shadow"));
    assert_eq!(gateway.metric("aforo_limits_mode"), 1.0);
    for _ in 0..3 {
        let response = gateway.get("shop-a", "/x");
        assert_eq!(response.status, 200);
        assert_rate(&response, 1, 0);
        assert_eq!(response.header("Retry-After"), None);
    }
    eventually("shadow rejections are counted", || {
        outcome("shadow_limited") == 3.0
    });

    gateway.reload_with(&config.clone().limits("mode: off"));
    assert_eq!(gateway.metric("aforo_limits_mode"), 0.0);
    for tenant in ["shop-a", "shop-a", "shop-b", "shop-b"] {
        assert_eq!(gateway.get(tenant, "/x").status, 200);
    }

    gateway.reload_with(&config);
    assert_eq!(gateway.metric("aforo_limits_mode"), 2.0);
    assert_eq!(gateway.get("shop-a", "/x").status, 429);
    // What went by while limits were off took nothing.
    assert_eq!(gateway.get("shop-b", "/x").status, 200);
    assert_eq!(gateway.get("shop-b", "/x").status, 429);
}

#[test]
fn a_connection_that_the_client_wants_closed_is_closed() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream).default_rule(1, ONE_A_DAY));
    let requests = [
        "GET /x HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\nConnection: close\r\n\r\n",
        "GET /x HTTP/1.0\r\nHost: test\r\nX-Api-Key: shop-a\r\n\r\n",
    ];
    // The first is forwarded, the second is over the limit.
    for (request, status) in [(requests[0], 200), (requests[1], 429)] {
        let mut client = gateway.connect();
        client.send(request.as_bytes()).unwrap();
        let response = client.read_response("GET").unwrap();
        assert_eq!(response.status, status);
        assert_eq!(response.header("Connection"), Some("close"));
        eventually("it is closed", || !client.is_open());
    }
}

#[test]
fn requests_that_are_sent_ahead_are_all_answered() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream).default_rule(2, ONE_A_DAY));
    let mut client = gateway.connect();
    let one =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n\r\n");
    let all: String = ["/a", "/%2f", "/b", "/c"].map(one).concat();
    client.send(all.as_bytes()).unwrap();
    for status in [200, 400, 200, 429] {
        assert_eq!(client.read_response("GET").unwrap().status, status);
    }
    assert_eq!(upstream.targets(), ["/a", "/b"]);
}

#[test]
fn who_waits_to_be_told_to_send_its_body_is_told_that_the_connection_ends() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream).default_rule(1, ONE_A_DAY));
    assert_eq!(gateway.get("shop-a", "/x").status, 200);
    let mut client = gateway.connect();
    let request = "POST /x HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\nExpect: 100-continue\r\n\
                   Content-Length: 10\r\n\r\n";
    client.send(request.as_bytes()).unwrap();
    let response = client.read_response("POST").unwrap();
    assert_eq!(response.status, 429);
    assert_eq!(response.header("Connection"), Some("close"));
}

#[test]
fn a_request_that_the_client_spoils_is_answered_without_rate_headers() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).section("timeouts: { body: 1s }");
    let gateway = Gateway::start(&config);
    for (body, status) in [
        ("Content-Length: 10\r\n\r\nab", 408),
        ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ] {
        let mut client = gateway.connect();
        let request = format!("POST /x HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n{body}");
        client.send(request.as_bytes()).unwrap();
        let response = client.read_response("POST").unwrap();
        response.problem(status);
        response.assert_no_rate_headers();
    }
}

#[test]
fn a_request_without_a_host_is_refused() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream));
    let mut client = gateway.connect();
    client
        .send(b"GET /x HTTP/1.1\r\nX-Api-Key: shop-a\r\n\r\n")
        .unwrap();
    client.read_response("GET").unwrap().problem(400);
    assert_eq!(upstream.count(), 0);
}

#[test]
fn the_upstream_is_told_the_tenant_and_nothing_that_the_client_says_of_itself() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .section("tenant: { header: X-Api-Key, forward: X-Tenant-Id, strip_key: true }");
    let gateway = Gateway::start(&config);
    let response = gateway.request(
        "GET",
        "/x",
        &[
            ("X-Api-Key", "shop-a"),
            ("X-Tenant-Id", "shop-b"),
            ("X_Tenant_Id", "shop-b"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("X-Forwarded-Proto", "https"),
            ("X-Request-Id", "mine-1"),
        ],
        b"",
    );
    assert_eq!(response.status, 200);
    let seen = upstream.only();
    assert_eq!(seen.all("X-Api-Key"), Vec::<&str>::new());
    assert_eq!(seen.all("X-Tenant-Id"), ["shop-a"]);
    assert_eq!(seen.all("X_Tenant_Id"), Vec::<&str>::new());
    assert_eq!(seen.all("X-Forwarded-For"), ["127.0.0.1"]);
    assert_eq!(seen.all("X-Forwarded-Proto"), ["http"]);
    assert_eq!(seen.all("X-Request-Id"), ["mine-1"]);
}

#[test]
fn a_client_of_http_1_0_gets_no_chunks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let answer =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        stream.write_all(answer).unwrap();
    });
    let gateway = Gateway::start(&Config::with_upstream_address(&address));
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream
        .write_all(b"GET /x HTTP/1.0\r\nX-Api-Key: shop-a\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        !answer.to_lowercase().contains("transfer-encoding"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
}
