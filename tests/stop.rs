//! SIGTERM: the process ends as soon as it can, and no request is lost.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod harness;

use harness::{Answer, Client, Config, Gateway, ONE_A_DAY, PATIENCE, Store, Upstream, eventually};
use std::thread::JoinHandle;
use std::time::Duration;

/// Far below the default grace period of 10 s: who waits for all of it fails.
const SOON: Duration = Duration::from_secs(5);

/// A request that the upstream has and does not answer yet, on a connection of its own.
fn held_request(gateway: &Gateway, upstream: &Upstream) -> Client {
    let before = upstream.count();
    let mut client = gateway.connect();
    client
        .send(b"GET /held HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n\r\n")
        .unwrap();
    eventually("the upstream has the request", || upstream.count() > before);
    client
}

#[test]
fn with_nothing_in_flight_it_ends_soon() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let mut gateway = Gateway::start(&Config::new(&upstream).store(&store));
        // A connection without a request does not count.
        let mut idle = gateway.connect();
        assert_eq!(idle.get("shop-a", "/x").unwrap().status, 200);

        gateway.signal("TERM");
        let status = gateway.wait_exit(SOON);
        assert!(status.success(), "{status}\n{}", gateway.log());
    }
}

#[test]
fn a_request_in_flight_is_answered_while_new_connections_go_elsewhere() {
    let upstream = Upstream::answering(Answer::Hold);
    let config = Config::new(&upstream).default_rule(5, ONE_A_DAY);
    let mut gateway = Gateway::start(&config);
    let mut client = held_request(&gateway, &upstream);

    gateway.signal("TERM");
    eventually("the listener is closed", || {
        Client::connect(gateway.address()).is_err()
    });
    assert!(gateway.process().exited().is_none());
    upstream.answer(Answer::Echo(Vec::new()));

    let response = client.read_response("GET").unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.number("X-RateLimit-Remaining"), 4);
    let status = gateway.wait_exit(SOON);
    assert!(status.success(), "{status}\n{}", gateway.log());
}

#[test]
fn a_request_that_takes_longer_than_the_grace_period_does_not_hold_it_up() {
    let upstream = Upstream::answering(Answer::Hold);
    let config = Config::new(&upstream).section("server: { threads: 2, grace_period: 1s }");
    let mut gateway = Gateway::start(&config);
    let _client = held_request(&gateway, &upstream);

    gateway.signal("TERM");
    gateway.wait_exit(PATIENCE);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for second in ["TERM", "INT"] {
        let upstream = Upstream::answering(Answer::Hold);
        let config = Config::new(&upstream).section("server: { threads: 2, grace_period: 2m }");
        let mut gateway = Gateway::start(&config);
        let _client = held_request(&gateway, &upstream);

        gateway.signal("TERM");
        eventually("the listener is closed", || {
            Client::connect(gateway.address()).is_err()
        });
        gateway.signal(second);
        gateway.wait_exit(SOON);
    }
}

#[test]
fn it_says_that_it_is_not_ready_before_it_closes_the_door() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).section("server: { threads: 2, drain_delay: 3s }");
    let mut gateway = Gateway::start(&config);
    let ready = |gateway: &Gateway| gateway.try_admin("/readyz").map(|response| response.status);
    assert_eq!(ready(&gateway), Some(200));

    gateway.signal("TERM");
    eventually("it is not ready", || ready(&gateway) == Some(503));
    assert_eq!(gateway.get("shop-a", "/x").status, 200);
    let health = gateway
        .try_admin("/healthz")
        .map(|response| response.status);
    assert_eq!(health, Some(200));
    let status = gateway.wait_exit(PATIENCE);
    assert!(status.success(), "{status}\n{}", gateway.log());
}

/// Clients that send one request after the other, and turn elsewhere where they are told that the
/// connection ends, as a load balancer does.
fn clients_until_told_to_go(gateway: &Gateway, clients: usize) -> Vec<JoinHandle<u64>> {
    let client = |_| {
        let address = gateway.address().to_owned();
        std::thread::spawn(move || {
            let mut client = Client::connect(&address).unwrap();
            for answered in 1.. {
                let response = client
                    .get("shop-a", "/x")
                    .expect("each request is answered");
                assert!(matches!(response.status, 200 | 429), "{response:?}");
                if response.header("Connection") == Some("close") {
                    return answered;
                }
            }
            unreachable!("the range has no end")
        })
    };
    (0..clients).map(client).collect()
}

#[test]
fn two_hundred_reloads_and_a_stop_under_load_lose_no_request() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let config = Config::new(&upstream)
            .section("server: { threads: 2, drain_delay: 1s }")
            .default_rule(1000, 100.0)
            .store(&store);
        let mut gateway = Gateway::start(&config);
        let clients = clients_until_told_to_go(&gateway, 4);
        let reloads = "aforo_config_reload_total{result=\"ok\"}";
        for _ in 0..200 {
            let before = gateway.metric(reloads);
            gateway.signal("HUP");
            eventually("the file is read again", || {
                gateway.metric(reloads) > before
            });
        }

        gateway.signal("TERM");
        let answered: u64 = clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum();
        assert!(answered > 200, "there was load: {answered}");
        let status = gateway.wait_exit(PATIENCE);
        assert!(status.success(), "{status}\n{}", gateway.log());
    }
}
