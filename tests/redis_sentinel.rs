//! Sentinel: the gateway follows the primary that the Sentinels name.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Config, Gateway, Load, ONE_A_DAY, Process, Redis, Upstream, bucket_key, eventually, free_port,
    within,
};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A primary, its replica, and three Sentinels that watch them.
struct Group {
    primary: Redis,
    replica: Redis,
    sentinels: Vec<(u16, Process)>,
}

impl Group {
    fn start() -> Self {
        let primary = Redis::start();
        let port = primary.port().to_string();
        let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
        let sentinels = (0..3).map(|_| sentinel(primary.port())).collect();
        let group = Self {
            primary,
            replica,
            sentinels,
        };
        eventually("the Sentinels know each other and the replica", || {
            group.sentinels.iter().all(|(port, _)| {
                let state: Option<std::collections::HashMap<String, String>> =
                    ask(*port, &["SENTINEL", "MASTER", "main"]);
                state.is_some_and(|state| {
                    state["num-other-sentinels"] == "2" && state["num-slaves"] == "1"
                })
            })
        });
        group
    }

    fn url(&self) -> String {
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|(port, _)| format!("127.0.0.1:{port}"))
            .collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }
}

fn sentinel(primary: u16) -> (u16, Process) {
    let folder = TempDir::new().unwrap();
    let port = free_port();
    let file = folder.path().join("sentinel.conf");
    let text = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\n\
         sentinel monitor main 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds main 1000\n\
         sentinel failover-timeout main 3000\n",
        folder.path().display()
    );
    fs::write(&file, text).unwrap();
    let arguments = [file.to_str().unwrap(), "--sentinel"];
    let process = Process::spawn(Path::new("redis-server"), &arguments, folder);
    eventually("a Sentinel answers", || {
        ask::<String>(port, &["PING"]).is_some()
    });
    (port, process)
}

fn ask<T: redis::FromRedisValue>(port: u16, words: &[&str]) -> Option<T> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    let mut connection = client
        .get_connection_with_timeout(Duration::from_secs(5))
        .ok()?;
    redis::cmd(words[0])
        .arg(&words[1..])
        .query(&mut connection)
        .ok()
}

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
    eventually("the breaker opens", || {
        gateway.metric("aforo_breaker_state{node=\"0\"}") == 2.0
    });
    within(Duration::from_secs(25), "the successor decides", || {
        std::thread::sleep(Duration::from_millis(20));
        gateway.metric("aforo_breaker_state{node=\"0\"}") == 0.0
    });
    until_redis_decides(&gateway);
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
    let sentinel = group.sentinels[0].0;
    within(Duration::from_secs(25), "a planned fail-over", || {
        let _: Option<String> = ask(sentinel, &["SENTINEL", "FAILOVER", "main"]);
        std::thread::sleep(Duration::from_millis(200));
        let named: Option<(String, String)> =
            ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
        named.is_some_and(|(_, port)| port == old)
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
    let (port, _sentinel) = sentinel(primary.port());
    let url = format!("redis+sentinel://127.0.0.1:{port}/other");
    let gateway = Gateway::start(&Config::new(&upstream).redis_url(&url, 1, ""));
    assert_eq!(gateway.get("shop", "/x").status, 200);
    let log = gateway.log();
    assert!(
        log.contains("this Sentinel knows no primary called `other`"),
        "{log}"
    );
}
