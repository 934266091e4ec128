//! Sentinel: the gateway follows the primary that the Sentinels name.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Authority, Config, Gateway, Group, Load, ONE_A_DAY, Redis, Sentinel, Upstream, bucket_key,
    check, eventually, within,
};
use std::time::Duration;

fn decisions(gateway: &Gateway, source: &str) -> f64 {
    gateway.metric(&format!("aforo_decisions_total{{source=\"{source}\"}}"))
}

#[track_caller]
fn until_redis_decides(gateway: &Gateway) {
    eventually("Redis decides", || {
        let before = decisions(gateway, "store");
        gateway.get("other", "/x");
        decisions(gateway, "store") > before
    });
}

/// The breaker opens, and closes when there is another primary.
#[track_caller]
fn until_the_successor_decides(gateway: &Gateway) {
    let state = || gateway.metric("aforo_breaker_state{node=\"0\"}");
    eventually("the breaker opens", || state() == 2.0);
    within(Duration::from_secs(25), "the successor decides", || {
        std::thread::sleep(Duration::from_millis(20));
        state() == 0.0
    });
    until_redis_decides(gateway);
}

#[test]
fn the_gateway_follows_the_primary_through_a_fail_over_under_load() {
    let upstream = Upstream::start();
    let mut group = Group::start();
    let config = Config::new(&upstream)
        .default_rule(1_000_000, ONE_A_DAY)
        .limits("prefetch: { batch: 0 }")
        .rule("shop-a", "r", 100, ONE_A_DAY)
        .redis_url(&group.url(), 1, "timeout: 250ms");
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);
    let mut passed = 0;
    for _ in 0..50 {
        passed += u32::from(gateway.get("shop-a", "/x").status == 200);
    }
    assert_eq!(passed, 50);
    let key = bucket_key("shop-a", "r");
    eventually("the replica has the bucket", || {
        group.replica.exists(&key) && group.replica.tokens(&key) < 51.0
    });

    let load = Load::start(&gateway, 2, "/x", |_| "other".to_owned());
    load.wait_for(20);
    group.primary.kill();
    until_the_successor_decides(&gateway);
    load.wait_for(20);
    load.stop().assert_only(&[200]);
    for _ in 0..100 {
        passed += u32::from(gateway.get("shop-a", "/x").status == 200);
    }
    assert!((99..=100).contains(&passed), "{passed} of 100");

    // A planned one, back to the first server: it answers READONLY from then on.
    group.primary.restart();
    let old = group.primary.port().to_string();
    let new = group.replica.port().to_string();
    group.primary.query::<()>(&["REPLICAOF", "127.0.0.1", &new]);
    within(Duration::from_secs(25), "a planned fail-over", || {
        let _: Option<String> = group.sentinels[0].ask(&["SENTINEL", "FAILOVER", "main"]);
        std::thread::sleep(Duration::from_millis(200));
        group.named() == Some(old.clone())
    });
    let before: i64 = group.primary.query(&["DBSIZE"]);
    eventually("the first one decides again", || {
        gateway.get(&format!("new-{}", fastrand::u32(..)), "/x");
        group.primary.query::<i64>(&["DBSIZE"]) > before
    });
}

#[test]
fn a_name_that_no_sentinel_knows_is_said_in_one_line() {
    let upstream = Upstream::start();
    let primary = Redis::start();
    let sentinel = Sentinel::start(primary.port(), None);
    let url = format!("redis+sentinel://{}/other", sentinel.address());
    let gateway = Gateway::start(&Config::new(&upstream).redis_url(&url, 1, ""));
    assert_eq!(gateway.get("shop", "/x").status, 200);
    let log = gateway.log();
    assert!(
        log.contains("this Sentinel knows no primary called `other`"),
        "{log}"
    );
}

#[test]
fn nobody_waits_for_a_frozen_primary_and_what_it_says_later_counts_for_nothing() {
    let upstream = Upstream::start();
    let group = Group::start();
    // The budget is the usual one.
    let config = Config::new(&upstream)
        .default_rule(1_000_000, ONE_A_DAY)
        .limits("prefetch: { batch: 0 }")
        .redis_url(&group.url(), 1, "");
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);
    let load = Load::start(&gateway, 8, "/x", |_| "other".to_owned());
    load.wait_for(100);
    let (all, slow) = gateway.decisions_over("0.025");
    group.primary.pause();
    until_the_successor_decides(&gateway);
    let (all_after, slow_after) = gateway.decisions_over("0.025");
    group.primary.resume();
    let (all, slow) = (all_after - all, slow_after - slow);
    // Whoever waited for the frozen one would have waited for seconds, all eight each time: these few
    // are those of whom a busy machine made a budget of 5 ms 25.
    println!("{slow} of {all} decisions took more than 25 ms");
    assert!(all > 500.0 && slow <= all / 100.0, "{slow} of {all}");

    // It is told by the Sentinels that it is none any more, and is never asked again.
    let old = group.primary.port().to_string();
    eventually("the old primary follows the new one", || {
        // Who is made a replica hangs up on its clients.
        let role: Option<String> = group.primary.try_query(&["INFO", "replication"]);
        role.is_some_and(|role| role.contains("role:slave"))
            && group.named().is_some_and(|named| named != old)
    });
    let calls = group.primary.script_calls();
    let decided = decisions(&gateway, "store");
    load.wait_for(200);
    eventually("the successor decides", || {
        decisions(&gateway, "store") > decided + 50.0
    });
    let report = load.stop();
    report.assert_only(&[200]);
    assert!(
        report.slowest < Duration::from_millis(1_500),
        "{:?}",
        report.slowest
    );
    assert_eq!(group.primary.script_calls(), calls);
}

#[test]
fn sentinels_and_their_servers_with_tls() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("server", &["127.0.0.1"]);
    let words = files.redis(&authority, false);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut group = Group::with_tls(&words);
    let url = group.url();
    assert!(url.starts_with("rediss+sentinel://"));
    let tls =
        |ca: &Authority| format!("timeout: 250ms, tls: {{ ca: \"{}\" }}", ca.file().display());
    let config = Config::new(&upstream)
        .limits("prefetch: { batch: 0 }")
        .redis_url(&url, 1, &tls(&authority));
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);
    assert!(group.primary.exists(&bucket_key("other", "r")));
    let (fine, said) = check(&url, &tls(&authority));
    assert!(fine, "{said}");
    for words in [
        "Sentinel at 127.0.0.1:",
        "names the primary of main: ",
        ", TLS, script loaded",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let (fine, said) = check(&url, &tls(&Authority::new()));
    assert!(
        !fine && said.contains("TLS failed, see store.redis.tls"),
        "{said}"
    );
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");

    let load = Load::start(&gateway, 2, "/x", |_| "other".to_owned());
    load.wait_for(10);
    group.primary.kill();
    until_the_successor_decides(&gateway);
    load.stop().assert_only(&[200, 429]);
}

#[test]
fn sentinels_with_users_of_their_own() {
    let upstream = Upstream::start();
    let primary = Redis::start();
    let sentinel = Sentinel::start(primary.port(), None);
    let line = harness::documented_user("which each of them has to know");
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(sentinel.ask(&words), Some("OK".to_owned()), "{line}");
    assert_eq!(
        sentinel.ask(&["ACL", "SETUSER", "default", "off"]),
        Some("OK".to_owned())
    );
    let line = harness::documented_user("A user for it");
    primary.query::<()>(&line.split(' ').collect::<Vec<_>>());

    let url = |who: &str| format!("redis+sentinel://{who}@{}/main", sentinel.address());
    let url_of_nobody = format!("redis+sentinel://{}/main", sentinel.address());
    let config = Config::new(&upstream).redis_url(&url("aforo:PASSWORD"), 1, "timeout: 5s");
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway);
    let (fine, said) = check(&url("aforo:PASSWORD"), "");
    assert!(fine && said.contains("names the primary of main"), "{said}");
    for (url, complaint) in [
        (url("aforo:hunter2"), "user or password is wrong"),
        (url_of_nobody, "the server asks for a password"),
    ] {
        let (fine, said) = check(&url, "");
        assert!(!fine && said.contains(complaint), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}

#[test]
fn check_says_what_the_sentinels_name_and_what_is_missing_there() {
    let group = Group::start();
    let (fine, said) = check(&group.url(), "");
    assert!(fine, "{said}");
    let port = group.primary.port();
    let server = format!(
        "names the primary of main: {} at 127.0.0.1:{port}",
        group.primary.name()
    );
    for words in [
        server.as_str(),
        "maxmemory-policy noeviction",
        "missing: maxmemory is not set",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    // One Sentinel that is away is passed over, and a name that none knows is an error.
    let sentinels = group.url();
    let with_a_dead_one = sentinels.replace("://", "://127.0.0.1:1,");
    assert!(check(&with_a_dead_one, "").0);
    let (fine, said) = check(&sentinels.replace("/main", "/other"), "");
    assert!(
        !fine && said.contains("knows no primary called `other`"),
        "{said}"
    );
    // Where Redis itself is asked as a Sentinel.
    let (fine, said) = check(&format!("redis+sentinel://127.0.0.1:{port}/main"), "");
    assert!(!fine, "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}
