//! Redis Cluster with TLS and with users, what `check --connect` says of one, and a slot that no node
//! serves.
#![allow(clippy::unwrap_used)]

mod harness;

use aforo::store::redis::slots::slot_of;
use harness::{
    Authority, Cluster, Config, Gateway, Load, ONE_A_DAY, Redis, Upstream, bucket_key, check,
    documented_user, eventually, within,
};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

const EACH_BY_ITSELF: &str = "prefetch: { batch: 0 }";

fn key(tenant: &str) -> String {
    bucket_key(tenant, "r")
}

fn state(gateway: &Gateway, node: usize) -> f64 {
    gateway.metric(&format!("aforo_breaker_state{{node=\"{node}\"}}"))
}

fn by_store(gateway: &Gateway) -> f64 {
    gateway.metric("aforo_decisions_total{source=\"store\"}")
}

#[track_caller]
fn until_redis_decides(gateway: &Gateway, tenant: &str) {
    eventually("Redis decides", || {
        let before = by_store(gateway);
        gateway.get(tenant, "/x");
        by_store(gateway) > before
    });
}

#[test]
fn a_cluster_with_tls_through_a_fail_over() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let server = authority.issue("server", &["127.0.0.1"]);
    let client = authority.issue("client", &["aforo"]);
    let words = server.redis(&authority, true);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut cluster = Cluster::with_tls(&words);
    let url = cluster.url();
    assert!(url.starts_with("rediss+cluster://"));
    let tls = |ca: &Authority| {
        let ca = ca.file();
        format!(
            "timeout: 250ms, tls: {{ ca: \"{}\", {} }}",
            ca.display(),
            client.yaml()
        )
    };
    let config = Config::new(&upstream)
        .default_rule(1_000, ONE_A_DAY)
        .limits(EACH_BY_ITSELF)
        .redis_url(&url, 1, &tls(&authority));
    let gateway = Gateway::start(&config);
    for node in 0..3 {
        let tenant = cluster.name_on(node, "t", key);
        until_redis_decides(&gateway, &tenant);
        assert!(cluster.nodes[node].exists(&key(&tenant)));
    }
    // A replica is known to be one by what it has replicated, which is told once a second.
    eventually("the replicas are known", || {
        let (fine, said) = check(&url, &tls(&authority));
        assert!(fine, "{said}");
        said.contains("Redis Cluster, TLS, 3 primaries, 3 replicas")
    });
    let (fine, said) = check(&url, &tls(&Authority::new()));
    let complaint = "TLS failed, see store.redis.tls";
    assert!(!fine && said.contains(complaint), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");

    let tenant = cluster.name_on(0, "t", key);
    let name = tenant.clone();
    let load = Load::start(&gateway, 2, "/x", move |_| name.clone());
    load.wait_for(10);
    cluster.nodes[0].kill();
    eventually("the breaker opens", || state(&gateway, 0) == 2.0);
    within(Duration::from_secs(20), "the replica decides", || {
        std::thread::sleep(Duration::from_millis(20));
        state(&gateway, 0) == 0.0
    });
    until_redis_decides(&gateway, &tenant);
    load.stop().assert_only(&[200, 429]);
    assert!(cluster.nodes[3].exists(&key(&tenant)));
}

/// What the documented user asks for that it needs no right to: each is done without.
const OPTIONAL: [&str; 4] = ["info", "config|get", "client|setinfo", "client|setname"];

#[test]
fn the_documented_user_is_enough_for_a_cluster_and_uses_each_of_its_rights() {
    let upstream = Upstream::start();
    let cluster = Cluster::start();
    let rights = documented_user("In a cluster");
    for node in &cluster.nodes {
        node.query::<()>(&rights.split(' ').collect::<Vec<_>>());
        node.query::<()>(&["ACL", "LOG", "RESET"]);
        node.query::<()>(&["CONFIG", "RESETSTAT"]);
    }
    let url = cluster.url_of("aforo:PASSWORD");
    let store = format!(
        "store: {{ redis: {{ url: \"{url}\", timeout: 5s }} }}\n\
         cluster: {{ instances: auto, at_least: 1 }}"
    );
    let config = Config::new(&upstream)
        .default_rule(1_000, ONE_A_DAY)
        .limits(EACH_BY_ITSELF)
        .section(&store);
    let gateway = Gateway::start(&config);
    for node in 0..3 {
        until_redis_decides(&gateway, &cluster.name_on(node, "t", key));
    }
    // Redirected by MOVED, and by ASK while the slot is on its way; and the script in full.
    let mover = cluster.name_on(0, "mover", key);
    let stranger = cluster.name_on(1, "stranger", key);
    until_redis_decides(&gateway, &mover);
    cluster.nodes[1].script_flush();
    until_redis_decides(&gateway, &stranger);
    let slot = cluster.slot(&key(&mover));
    let before = by_store(&gateway);
    cluster.move_slot(slot, &cluster.nodes[0], &cluster.nodes[1], || {
        assert_eq!(gateway.get(&mover, "/x").status, 200);
    });
    assert_eq!(gateway.get(&mover, "/x").status, 200);
    assert!(by_store(&gateway) >= before + 2.0);
    eventually("a heartbeat", || {
        gateway.metric("aforo_store_calls_total{op=\"heartbeat\",result=\"ok\"}") >= 1.0
    });
    eventually(
        "the replicas are known, and nothing is missing that may be asked for",
        || {
            let (fine, said) = check(&url, "");
            assert!(fine && said.contains("script loaded"), "{said}");
            assert!(!said.contains("PASSWORD"), "{said}");
            !said.contains("missing: ")
        },
    );

    let rights: Vec<&str> = rights
        .split(' ')
        .filter_map(|word| word.strip_prefix('+'))
        .collect();
    let used = || -> BTreeSet<String> {
        let stats = |node: &Redis| node.query::<String>(&["INFO", "commandstats"]);
        let all: Vec<String> = cluster.nodes.iter().map(stats).collect();
        let lines = all.iter().flat_map(|stats| stats.lines());
        let names = lines.filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
        names.map(str::to_lowercase).collect()
    };
    // A connection that is idle is tried by PING.
    eventually("each right is used", || {
        let used = used();
        rights.iter().all(|right| used.contains(*right))
    });
    let mut refused = BTreeSet::new();
    for node in &cluster.nodes {
        let log: Vec<HashMap<String, redis::Value>> = node.query(&["ACL", "LOG"]);
        for entry in log {
            let object: String = redis::from_redis_value(entry["object"].clone()).unwrap();
            refused.insert(object.to_lowercase());
        }
    }
    assert!(
        refused.iter().all(|name| OPTIONAL.contains(&name.as_str())),
        "refused: {refused:?}"
    );
}

#[test]
fn check_says_what_a_cluster_is_and_what_is_missing() {
    let cluster = Cluster::without_replicas();
    let (fine, said) = check(&cluster.url(), "");
    assert!(fine, "{said}");
    let name = cluster.nodes[0].name();
    for words in [
        "Redis Cluster, 3 primaries, 0 replicas".to_owned(),
        format!("node 0: {name} at 127.0.0.1:{}", cluster.nodes[0].port()),
        format!("node 2: {name} at 127.0.0.1:{}", cluster.nodes[2].port()),
        "maxmemory-policy noeviction, slots 0-5460, 0 replicas, script loaded".to_owned(),
        format!(
            "missing: 127.0.0.1:{} has no replica",
            cluster.nodes[1].port()
        ),
        "maxmemory is not set".to_owned(),
    ] {
        assert!(said.contains(&words), "{words} in {said}");
    }
    assert!(
        !said.contains("full-coverage") && !said.contains("have no node"),
        "{said}"
    );

    cluster.nodes[0].query::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "yes"]);
    cluster.nodes[1].query::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    cluster.nodes[2].query::<()>(&["CLUSTER", "DELSLOTS", "16383"]);
    // From the one that knows of it.
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.nodes[2].port());
    let (fine, said) = check(&url, "");
    assert!(fine, "{said}");
    for words in [
        "missing: 1 slots have no node",
        "cluster-require-full-coverage is yes",
        "maxmemory-policy is allkeys-lru",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }

    // The wrong scheme, either way round. Node 2 has the slot that a stand-alone server is tried with.
    for (node, usable) in [(0, false), (2, true)] {
        let member = format!("redis://127.0.0.1:{}", cluster.nodes[node].port());
        let (fine, said) = check(&member, "");
        assert_eq!(fine, usable, "{said}");
        let words = "is a member of a cluster: redis+cluster:// is its scheme";
        assert!(said.contains(words), "{said}");
    }
    let alone = Redis::start();
    let (fine, said) = check(&format!("redis+cluster://127.0.0.1:{}", alone.port()), "");
    assert!(!fine && said.contains("no member of a cluster"), "{said}");
}

#[test]
fn a_slot_that_no_node_serves_is_a_store_that_is_away_and_costs_no_other_key() {
    let upstream = Upstream::start();
    let cluster = Cluster::without_replicas();
    let closed = cluster.name_on(0, "closed", key);
    let slot = slot_of(&key(&closed));
    let same_slot = |begin: &str| {
        let mut names = (0..).map(|n| format!("{begin}-{n}"));
        names.find(|name| slot_of(&key(name)) == slot).unwrap()
    };
    let (open, local) = (same_slot("open"), same_slot("local"));
    let neighbour = cluster.name_on(0, "neighbour", key);
    let rule = |config: Config, tenant: &str, keys: &str| {
        config.rule_with(
            tenant,
            "r",
            2,
            ONE_A_DAY,
            &format!("on_store_failure: {keys}"),
        )
    };
    let config = Config::new(&upstream)
        .default_rule(1_000, ONE_A_DAY)
        .limits(EACH_BY_ITSELF);
    let config = rule(config, &closed, "closed");
    let config = rule(rule(config, &open, "open"), &local, "local");
    let gateway = Gateway::start(&config.redis_url(&cluster.url(), 1, "timeout: 5s"));
    until_redis_decides(&gateway, &neighbour);
    for tenant in [&closed, &open, &local] {
        assert_eq!(gateway.get(tenant, "/x").status, 200);
    }
    // Its holder still gets the first request, and says CLUSTERDOWN; then the map is known.
    let number = slot.to_string();
    for node in &cluster.nodes {
        node.query::<()>(&["CLUSTER", "DELSLOTS", &number]);
    }
    for _ in 0..20 {
        let refused = gateway.get(&closed, "/x");
        refused.problem(503);
        assert_eq!(refused.number("Retry-After"), 1);
        assert_eq!(gateway.get(&open, "/x").status, 200);
        let before = by_store(&gateway);
        assert_eq!(gateway.get(&neighbour, "/x").status, 200);
        assert_eq!(by_store(&gateway), before + 1.0, "a key of the same node");
    }
    // On the share of the one gateway there is, which Redis had granted one of two.
    let passed = (0..5)
        .filter(|_| gateway.get(&local, "/x").status == 200)
        .count();
    assert_eq!(passed, 1);
    for node in 0..3 {
        assert_eq!(state(&gateway, node), 0.0);
    }
    let opened = "aforo_breaker_transitions_total{node=\"0\",to=\"open\"}";
    assert_eq!(gateway.metric(opened), 0.0, "the node is not to blame");

    cluster.nodes[0].query::<()>(&["CLUSTER", "ADDSLOTS", &number]);
    eventually("the slot is served again", || {
        gateway.get(&closed, "/x").status != 503
    });
}
