//! Redis Cluster: each key goes to its node, a dead node costs only its keys, and slots may move
//! while clients run.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Cluster, Config, Gateway, Load, ONE_A_DAY, Redis, Upstream, bucket_key, eventually, within,
};
use std::time::{Duration, Instant};

/// A budget that a slow machine does not exceed: most tests are about what becomes of tokens.
const PATIENT: &str = "timeout: 5s, in_flight: 1000";

/// A budget that a frozen node is noticed by, and that two busy cores still keep.
const SHORT: &str = "timeout: 250ms";

/// No leases: what Redis holds is what was not spent.
const EACH_BY_ITSELF: &str = "prefetch: { batch: 0 }";

fn key(tenant: &str) -> String {
    bucket_key(tenant, "r")
}

fn state(gateway: &Gateway, node: usize) -> f64 {
    gateway.metric(&format!("aforo_breaker_state{{node=\"{node}\"}}"))
}

fn decisions(gateway: &Gateway, source: &str) -> f64 {
    gateway.metric(&format!("aforo_decisions_total{{source=\"{source}\"}}"))
}

fn config(upstream: &Upstream, cluster: &Cluster, keys: &str) -> Config {
    Config::new(upstream)
        .default_rule(1_000, ONE_A_DAY)
        .limits(EACH_BY_ITSELF)
        .redis_url(&cluster.url(), 1, keys)
}

/// Requests of a tenant's, until one is decided by Redis.
#[track_caller]
fn until_redis_decides(gateway: &Gateway, tenant: &str) {
    eventually("Redis decides", || {
        let before = decisions(gateway, "store");
        gateway.get(tenant, "/x");
        decisions(gateway, "store") > before
    });
}

#[test]
fn every_key_goes_to_its_node_and_each_node_is_watched_by_itself() {
    let upstream = Upstream::start();
    let cluster = Cluster::start();
    let gateway = Gateway::start(&config(&upstream, &cluster, PATIENT));
    let tenants: Vec<String> = (0..3).map(|node| cluster.name_on(node, "t", key)).collect();
    for (node, tenant) in tenants.iter().enumerate() {
        until_redis_decides(&gateway, tenant);
        assert!(cluster.nodes[node].exists(&key(tenant)));
        assert_eq!(state(&gateway, node), 0.0);
    }
    let metrics = gateway.metrics();
    assert!(!metrics.contains("aforo_breaker_state{node=\"3\"}"));
}

#[test]
fn a_killed_primary_costs_only_its_own_keys_until_its_replica_has_taken_over() {
    a_primary_fails(|primary| primary.kill(), |_| {});
}

#[test]
fn a_frozen_primary_costs_only_its_own_keys_until_its_replica_has_taken_over() {
    a_primary_fails(|primary| primary.pause(), |primary| primary.resume());
}

/// A primary fails under load, its replica takes over, and it comes back, or not.
fn a_primary_fails(fail: impl Fn(&mut Redis), recover: impl Fn(&Redis)) {
    let upstream = Upstream::start();
    let mut cluster = Cluster::start();
    let dying = cluster.name_on(0, "dying", key);
    let healthy = cluster.name_on(1, "healthy", key);
    let config = Config::new(&upstream)
        .default_rule(100_000, ONE_A_DAY)
        .limits(EACH_BY_ITSELF)
        .rule(&dying, "r", 200, ONE_A_DAY)
        .redis_url(&cluster.url(), 1, SHORT);
    let gateway = Gateway::start(&config);
    until_redis_decides(&gateway, &dying);
    until_redis_decides(&gateway, &healthy);
    let mut passed = 1;
    let mut ask = |gateway: &Gateway| {
        let response = gateway.get(&dying, "/x");
        assert!([200, 429].contains(&response.status), "{response:?}");
        passed += u32::from(response.status == 200);
    };
    for _ in 0..49 {
        ask(&gateway);
    }
    // The replica is asynchronous: what it has not got yet is what fail-over may lose.
    let replica = &cluster.nodes[3];
    eventually("the replica has the bucket", || {
        let mut connection = replica.connection();
        redis::cmd("READONLY").exec(&mut connection).unwrap();
        let tokens: Option<String> = redis::cmd("HGET")
            .arg(key(&dying))
            .arg("tokens")
            .query(&mut connection)
            .unwrap();
        tokens.is_some_and(|tokens| tokens.parse::<f64>().unwrap() < 151.0)
    });

    let name = healthy.clone();
    let load = Load::start(&gateway, 2, "/x", move |_| name.clone());
    load.wait_for(20);
    let before = decisions(&gateway, "fallback");
    fail(&mut cluster.nodes[0]);
    let began = Instant::now();
    eventually("the breaker of node 0 opens", || {
        ask(&gateway);
        state(&gateway, 0) == 2.0
    });
    for node in [1, 2] {
        assert_eq!(state(&gateway, node), 0.0, "{node}");
    }
    // By the successor, at the same number.
    within(Duration::from_secs(20), "the replica decides", || {
        ask(&gateway);
        std::thread::sleep(Duration::from_millis(20));
        state(&gateway, 0) == 0.0 && began.elapsed() > Duration::from_millis(500)
    });
    until_redis_decides(&gateway, &dying);
    recover(&cluster.nodes[0]);
    let seen = upstream.count();
    load.wait_for(50);
    assert!(upstream.count() > seen);
    let report = load.stop();
    report.assert_only(&[200]);
    assert!(
        report.slowest < Duration::from_secs(3),
        "{:?}",
        report.slowest
    );
    let metrics = gateway.metrics();
    assert!(!metrics.contains("aforo_breaker_state{node=\"3\"}"));
    let opened = |node| {
        metrics.get(&format!(
            "aforo_breaker_transitions_total{{node=\"{node}\",to=\"open\"}}"
        ))
    };
    assert_eq!((opened(1), opened(2)), (0.0, 0.0), "healthy nodes");
    assert!(decisions(&gateway, "fallback") > before);

    // Everything that passed is accounted for: nothing was lost, for the replica had it all.
    for _ in 0..300 {
        ask(&gateway);
    }
    assert!((195..=200).contains(&passed), "{passed} of 200");
}

#[test]
fn slots_move_key_by_key_under_load_without_a_wrong_answer() {
    let upstream = Upstream::start();
    let cluster = Cluster::start();
    let gateway = Gateway::start(&config(&upstream, &cluster, PATIENT));
    let tenant = cluster.name_on(0, "mover", key);
    until_redis_decides(&gateway, &tenant);
    let fallbacks = decisions(&gateway, "fallback");
    let name = tenant.clone();
    let load = Load::start(&gateway, 4, "/x", move |_| name.clone());
    load.wait_for(20);
    let slot = cluster.slot(&key(&tenant));
    // There, back, and there again; while the slot is open the key is asked for on both sides.
    for turn in 0..3 {
        let (from, to) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
        let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
        cluster.move_slot(slot, from, to, || load.wait_for(10));
        load.wait_for(20);
    }
    let report = load.stop();
    report.assert_only(&[200, 429]);
    let passed = report.count(200);
    assert!(cluster.nodes[1].exists(&key(&tenant)));
    assert_eq!(decisions(&gateway, "fallback"), fallbacks);
    let left = cluster.nodes[1].tokens(&key(&tenant));
    let taken = 1_000.0 - left.round();
    // One of the first, for [`until_redis_decides`] asked as well.
    assert!(
        taken >= passed as f64 && taken <= passed as f64 + 5.0,
        "{taken} taken, {passed} passed under load"
    );
}

#[test]
fn a_key_that_is_not_there_yet_is_asked_for_where_its_slot_goes() {
    let upstream = Upstream::start();
    let cluster = Cluster::start();
    let gateway = Gateway::start(&config(&upstream, &cluster, PATIENT));
    let other = cluster.name_on(0, "known", key);
    let tenant = cluster.name_on(0, "new", key);
    until_redis_decides(&gateway, &other);
    until_redis_decides(&gateway, &cluster.name_on(1, "known", key));
    let slot = cluster.slot(&key(&tenant));
    let (from, to) = (&cluster.nodes[0], &cluster.nodes[1]);
    let before = decisions(&gateway, "store");
    cluster.move_slot(slot, from, to, || {
        // ASK, ten times over: the map must not change for it.
        for n in 0..10 {
            to.script_flush();
            let left = gateway.get(&tenant, "/x").number("X-RateLimit-Remaining");
            assert_eq!(left, 999 - n);
        }
    });
    assert_eq!(decisions(&gateway, "store"), before + 10.0);
    assert!(to.exists(&key(&tenant)));
}

#[test]
fn nodes_come_and_go_while_the_gateway_runs() {
    let upstream = Upstream::start();
    let cluster = Cluster::start();
    let gateway = Gateway::start(&config(&upstream, &cluster, PATIENT));
    let tenant = cluster.name_on(2, "shop", key);
    until_redis_decides(&gateway, &tenant);
    let added = Cluster::node(&[]);
    cluster.meet(&added);
    let added_id: String = added.query(&["CLUSTER", "MYID"]);
    eventually("the new node is known to all", || {
        let knows = |node: &Redis| {
            let nodes: String = node.query(&["CLUSTER", "NODES"]);
            nodes
                .lines()
                .any(|line| line.starts_with(&added_id) && line.contains("connected"))
        };
        let state: String = added.query(&["CLUSTER", "INFO"]);
        cluster.nodes.iter().all(knows) && state.contains("cluster_state:ok")
    });
    let slot = cluster.slot(&key(&tenant));
    cluster.move_slot(slot, &cluster.nodes[2], &added, || {});
    eventually("the new node has a number and a connection", || {
        let before = decisions(&gateway, "store");
        let status = gateway.get(&tenant, "/x").status;
        assert_eq!(status, 200);
        decisions(&gateway, "store") > before
            && gateway
                .metrics()
                .contains("aforo_breaker_state{node=\"3\"}")
    });
    assert!(added.exists(&key(&tenant)));
    for node in 0..4 {
        assert_eq!(state(&gateway, node), 0.0);
    }
    // And away again.
    cluster.move_slot(slot, &added, &cluster.nodes[2], || {});
    eventually("its last slot is gone, and so is it", || {
        assert_eq!(gateway.get(&tenant, "/x").status, 200);
        gateway.log().contains("no primary of Redis any more")
    });
    drop(added);
    until_redis_decides(&gateway, &tenant);
    assert_eq!(state(&gateway, 3), 0.0);
}

#[test]
fn a_gateway_starts_before_the_cluster_is_made() {
    let upstream = Upstream::start();
    let node = Cluster::node(&[]);
    let url = format!("redis+cluster://127.0.0.1:{}", node.port());
    let config = Config::new(&upstream).redis_url(&url, 1, PATIENT);
    let gateway = Gateway::start(&config);
    assert_eq!(gateway.get("shop", "/x").status, 200);
    assert!(
        gateway.log().contains("the cluster is not made yet"),
        "{}",
        gateway.log()
    );
    node.query::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until_redis_decides(&gateway, "shop");
    eventually("no doubt is left", || state(&gateway, 0) == 0.0);
}
