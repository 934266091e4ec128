//! What an operator reads: one line an event, on standard error.
#![allow(clippy::unwrap_used)]

mod harness;

use std::io::Write;
use std::net::TcpStream;

use harness::{Config, Gateway, ONE_A_DAY, Process, Upstream, eventually};
use serde_json::Value;

/// The lines of a log in JSON; a line that is none fails the test.
fn events(gateway: &Gateway) -> Vec<Value> {
    let log = gateway.log();
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn accesses(gateway: &Gateway) -> Vec<Value> {
    let mut events = events(gateway);
    events.retain(|event| event["target"] == "aforo::access");
    events
}

/// All lines up to that of a reload: whatever happened before it is written before it.
fn events_until_reload(gateway: &Gateway) -> Vec<Value> {
    gateway.reload();
    eventually("the reload is logged", || {
        events(gateway)
            .iter()
            .any(|event| event["target"] == "aforo::reload")
    });
    events(gateway)
}

/// A gateway whose log has begun: that it listens is its first line.
fn start(config: &Config) -> Gateway {
    let gateway = Gateway::start_program(
        &Process::aforo(),
        &["run", "--log-format", "json", "-c"],
        config,
    );
    eventually("its first line is written", || !events(&gateway).is_empty());
    gateway
}

#[test]
fn the_access_log_has_a_line_for_each_request() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .default_rule(1, ONE_A_DAY)
        .section("log: { access: true }");
    let gateway = start(&config);
    // One after the other: a line is written after its response, so that others may overtake it.
    let written = |lines| eventually("the line is written", || accesses(&gateway).len() == lines);
    gateway.get("shop-a", "/one?secret=1");
    written(1);
    gateway.get("shop-a", "/two");
    written(2);
    gateway.request("GET", "/%2f", &[], b"");
    written(3);

    let lines = accesses(&gateway);
    assert_eq!(lines[0]["method"], "GET");
    assert_eq!(lines[0]["path"], "/one", "without the query");
    assert_eq!(lines[0]["status"], 200);
    assert_eq!(lines[0]["route"], "r");
    assert_eq!(lines[0]["tenant"], "shop-a");
    assert_eq!(lines[0]["outcome"], "allowed");
    assert_eq!(lines[0]["request_id"].as_str().unwrap().len(), 32);
    assert!(lines[0]["micros"].as_u64().unwrap() > 0);
    assert_eq!(
        (&lines[1]["status"], &lines[1]["outcome"]),
        (&429.into(), &"limited".into())
    );
    assert_eq!(
        (&lines[2]["status"], &lines[2]["route"]),
        (&400.into(), &"none".into())
    );
}

#[test]
fn without_an_access_log_requests_leave_no_line() {
    let upstream = Upstream::start();
    let gateway = start(&Config::new(&upstream).section("log: { access: false }"));
    let before = events(&gateway).len();
    for _ in 0..10 {
        assert_eq!(gateway.get("shop-a", "/x").status, 200);
    }
    let after = events_until_reload(&gateway);
    assert_eq!(after.len(), before + 1, "{after:?}");
}

#[test]
fn clients_that_go_away_do_not_flood_the_log() {
    let upstream = Upstream::start();
    let gateway = start(&Config::new(&upstream).section("log: { access: false }"));
    let before = events(&gateway).len();
    for sent in [
        "",
        "GET /x HT",
        "GET /x HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\nContent-Length: 100\r\n\r\nab",
        "no HTTP at all\r\n\r\n",
    ] {
        for _ in 0..20 {
            let mut client = TcpStream::connect(gateway.address()).unwrap();
            client.write_all(sent.as_bytes()).unwrap();
        }
    }
    let after = events_until_reload(&gateway);
    assert_eq!(after.len(), before + 1, "{after:?}");
}

#[test]
fn an_upstream_that_is_down_does_not_flood_the_log() {
    let config = Config::with_upstream_address("127.0.0.1:1").default_rule(1000, ONE_A_DAY);
    let gateway = start(&config.section("log: { access: false }"));
    for _ in 0..50 {
        assert_eq!(gateway.get("shop-a", "/x").status, 502);
    }
    let told = events_until_reload(&gateway)
        .iter()
        .filter(|event| event["target"] == "aforo::gateway::upstream")
        .count();
    assert!((1..25).contains(&told), "{}", gateway.log());
}
