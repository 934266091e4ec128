//! The shipped reference file, reading from files, the summary, and what a reload cannot change.

use std::time::Duration;

use super::*;

const REFERENCE: &str = include_str!("../../conf/aforo.yaml");

const SMALL: &str = "
version: 1
listeners: [{ address: 0.0.0.0:8080 }]
upstreams: { orders: { servers: [127.0.0.1:9000] } }
routes: [{ id: default, path: /*, upstream: orders }]
";

fn no_env(_: &str) -> Option<String> {
    None
}

fn config(text: &str) -> Config {
    parse("test.yaml", text, &no_env).unwrap_or_else(|error| panic!("{error}"))
}

/// The reference with all of its optional lines.
fn everything() -> String {
    let lines: Vec<String> = REFERENCE
        .lines()
        .map(|line| line.replacen("#~ ", "", 1))
        .collect();
    lines.join("\n")
}

#[test]
fn the_reference_runs_with_nothing_else() {
    let config = config(REFERENCE);
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.routes.len(), 2);
    assert_eq!(config.limits.rules.len(), 2);
    assert_eq!(config.store, None);
    assert_eq!(config.cluster, None);
}

#[test]
fn the_references_optional_lines_are_right_too() {
    let everything = everything();
    assert!(!everything.contains("#~ "));
    let config = config(&everything);
    assert_eq!(config.server.threads, 2);
    assert!(config.server.upgrade_sock.is_some());
    assert_eq!(config.listeners.len(), 3);
    assert!(config.listeners[1].h2c);
    let tls = config.listeners[2].tls.as_ref().expect("TLS");
    assert_eq!(tls.certificates.len(), 2);
    let clients = tls.clients.as_ref().expect("client certificates");
    assert_eq!(clients.need, Need::Required);
    assert_eq!(config.upstreams["orders"].protocol, Protocol::H2c);
    assert_eq!(
        config.tenant.forward.as_ref().map(|name| name.as_str()),
        Some("x-tenant-id")
    );
    assert!(config.tenant.strip_key);
    assert_eq!(config.upstreams["orders"].servers[1].weight, 2);
    assert_eq!(config.routes.len(), 4);
    assert_eq!(config.routes[2].host.as_deref(), Some("*.example.com"));
    assert_eq!(config.routes[2].cost, 5);
    assert!(config.limits.rules[2].shadow);
    let redis = config.store.expect("a store").redis;
    assert_eq!(redis.url.expose(), "redis://127.0.0.1:6379");
    assert_eq!(redis.address, "127.0.0.1:6379");
    assert_eq!(redis.in_flight, 256);
    assert_eq!(
        config.cluster.map(|cluster| cluster.instances),
        Some(Instances::Fixed(2))
    );
    let region = config.region.expect("a region");
    assert_eq!((region.name.as_str(), region.share), ("eu", 0.7));
    assert_eq!(region.rebalance, Duration::from_secs(120));
}

#[test]
fn the_reference_shows_the_defaults() {
    let mut reference = config(REFERENCE);
    let small = config(SMALL);
    assert!(reference.log.access);
    reference.log.access = false;
    assert_eq!(reference.server, small.server);
    assert_eq!(reference.admin, small.admin);
    assert_eq!(reference.log, small.log);
    assert_eq!(reference.timeouts, small.timeouts);
    assert_eq!(reference.tenant, small.tenant);
    assert_eq!(reference.upstreams, small.upstreams);
    reference.limits.rules.clear();
    assert_eq!(reference.limits, small.limits);
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = config(SMALL);
    assert_eq!(config.version, 1);
    assert!(config.server.threads >= 1);
    assert_eq!(config.server.grace_period, Duration::from_secs(10));
    assert_eq!(config.server.drain_delay, Duration::ZERO);
    assert_eq!(config.server.upgrade_sock, None);
    assert_eq!(config.listeners[0].tls, None);
    assert_eq!(config.admin.address.to_string(), "127.0.0.1:9090");
    assert_eq!(config.admin.token, None);
    assert_eq!(config.log.level, Level::Info);
    assert_eq!(config.log.format, Format::Text);
    assert_eq!(config.log.tenant, TenantInLog::Plain);
    assert_eq!(config.timeouts.header, Duration::from_secs(10));
    assert_eq!(config.timeouts.idle, Duration::from_secs(60));
    assert_eq!(config.timeouts.body, Duration::from_secs(30));
    assert_eq!(config.timeouts.tls, Duration::from_secs(10));
    assert!(config.trusted_proxies.is_empty());
    assert_eq!(config.tenant.header, "x-api-key");
    assert_eq!(config.tenant.keys, Keys::Open);
    assert_eq!(config.tenant.forward, None);
    assert!(!config.tenant.strip_key);
    let upstream = &config.upstreams["orders"];
    assert_eq!(upstream.servers[0].weight, 1);
    assert_eq!(upstream.connect_timeout, Duration::from_secs(2));
    assert_eq!(upstream.read_timeout, Duration::from_secs(30));
    assert_eq!(upstream.idle_timeout, Duration::from_secs(50));
    assert_eq!(upstream.retries, 1);
    let route = &config.routes[0];
    assert!(route.methods.is_empty());
    assert_eq!(route.host, None);
    assert_eq!(route.cost, 1);
    assert_eq!(config.limits.default_rule.capacity, 20);
    assert!((config.limits.default_rule.refill_per_second - 10.0).abs() < f64::EPSILON);
    assert!(config.limits.headers.x_ratelimit && config.limits.headers.draft);
    assert_eq!(config.limits.mode, Mode::Enforce);
    assert_eq!(config.limits.prefetch_batch, 50);
    assert_eq!(config.limits.max_local_buckets, 1_000_000);
    assert_eq!(config.rules, None);
    assert_eq!(config.region, None);

    let redis = "store: { redis: { url: redis://h:1 } }\ncluster: { instances: 3 }";
    let redis = self::config(&format!("{SMALL}{redis}"))
        .store
        .expect("a store")
        .redis;
    assert_eq!(redis.timeout, Duration::from_millis(5));
    assert_eq!(redis.in_flight, 256);
    assert_eq!(redis.breaker.failures, 5);
    assert_eq!(redis.breaker.probe, Duration::from_millis(100));
}

#[test]
fn an_empty_section_is_its_defaults() {
    let empty = "admin:\nserver:\n  # threads: 2\nlimits:\n  rules:\nlog:\ntimeouts:\ntenant:\n";
    assert_eq!(config(&format!("{SMALL}{empty}")), config(SMALL));
}

#[test]
fn a_file_is_read_anew_each_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.yaml");
    let source = Source::File(path.clone());
    assert_eq!(source.to_string(), path.display().to_string());
    let error = source.load().expect_err("there is no file").to_string();
    let expected = format!("{}: cannot be read: No such file", path.display());
    assert!(error.starts_with(&expected), "{error}");
    std::fs::write(&path, SMALL).expect("written");
    assert_eq!(source.load().expect("right").limits.mode, Mode::Enforce);
    std::fs::write(&path, format!("{SMALL}limits: {{ mode: off }}")).expect("written");
    assert_eq!(source.load().expect("right").limits.mode, Mode::Off);
    std::fs::write(&path, "version: 1\nmode: off\n").expect("written");
    let error = source.load().expect_err("an unknown key").to_string();
    let expected = format!(
        "{}:2:1: unknown field `mode`, expected one of ",
        path.display()
    );
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_built_in_configuration_goes_by_its_name() {
    let source = Source::BuiltIn {
        name: "demo".to_owned(),
        text: "version: 2".to_owned(),
    };
    assert_eq!(source.to_string(), "demo");
    assert_eq!(
        source.load().expect_err("much is missing").to_string(),
        "demo: version: must be 1, not 2\n\
         demo: listeners: at least one is needed, such as `- address: 0.0.0.0:8080`\n\
         demo: routes: at least one is needed, such as `- { id: default, path: /*, upstream: NAME }`"
    );
}

#[test]
fn secrets_are_not_printed() {
    let text =
        format!("{SMALL}store: {{ redis: {{ url: \"${{URL}}\" }} }}\ncluster: {{ instances: 3 }}");
    let env =
        |name: &str| (name == "URL").then(|| "redis://me:hunter2@redis.example:6380/1".to_owned());
    let config = parse("test.yaml", &text, &env).unwrap_or_else(|error| panic!("{error}"));
    let redis = &config.store.as_ref().expect("a store").redis;
    assert_eq!(
        redis.url.expose(),
        "redis://me:hunter2@redis.example:6380/1"
    );
    assert_eq!(redis.url.to_string(), "***");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!config.summary().contains("hunter2"));
    assert!(
        config
            .summary()
            .contains("state: in Redis at redis.example:6380, timeout 5ms, shared by 3 gateways")
    );
}

#[test]
fn the_summary_is_a_handful_of_lines() {
    assert_eq!(
        config(REFERENCE).summary(),
        "listeners: 0.0.0.0:8080\n\
         admin: 127.0.0.1:9090\n\
         routes: 2\n\
         \x20 create-order → /orders (POST) → orders\n\
         \x20 default → /* (any method) → orders\n\
         upstreams: 1\n\
         \x20 orders → 127.0.0.1:9000\n\
         rules: 2 and the default rule: capacity 20, 10 per second\n\
         mode: enforce\n\
         state: in this process\n"
    );
    let summary = config(&everything()).summary();
    for line in [
        "  reports → *.example.com/reports/* (any method) → orders",
        "  orders → 127.0.0.1:9000, 127.0.0.1:9001 weight=2",
        "  and those of PostgreSQL at 127.0.0.1:5432/aforo as aforo, which win; asked each 30s",
        "  kept in /var/lib/aforo/rules.json",
        "state: in Redis at 127.0.0.1:6379, timeout 5ms, shared by 2 gateways",
    ] {
        assert!(
            summary.lines().any(|other| other == line),
            "{line}\n{summary}"
        );
    }
}

#[test]
fn what_a_reload_cannot_change_is_named() {
    let old = config(&everything());
    assert_eq!(old.restart_differences(&old.clone()), Vec::<String>::new());
    for (from, to, keys) in [
        ("0.0.0.0:8080", "0.0.0.0:8090", vec!["listeners"]),
        ("threads: 2", "threads: 3", vec!["server.threads"]),
        (
            "grace_period: 10s",
            "grace_period: 11s",
            vec!["server.grace_period"],
        ),
        (
            "drain_delay: 0s",
            "drain_delay: 1s",
            vec!["server.drain_delay"],
        ),
        ("127.0.0.1:9090", "127.0.0.1:9091", vec!["admin.address"]),
        ("format: text", "format: json", vec!["log.format"]),
        (
            "max_local_buckets: 1000000",
            "max_local_buckets: 1",
            vec!["limits.max_local_buckets"],
        ),
        (
            "redis://127.0.0.1:6379",
            "redis://127.0.0.1:6380",
            vec!["store.redis.url"],
        ),
        ("timeout: 5ms", "timeout: 6ms", vec!["store.redis.timeout"]),
        (
            "in_flight: 256",
            "in_flight: 255",
            vec!["store.redis.in_flight"],
        ),
        (
            "aforo@127.0.0.1/aforo",
            "aforo@127.0.0.2/aforo",
            vec!["rules.postgres.url"],
        ),
        (
            "refresh: 30s",
            "refresh: 31s",
            vec!["rules.postgres.refresh"],
        ),
        (
            "/var/lib/aforo/rules.json",
            "/var/lib/aforo/others.json",
            vec!["rules.postgres.snapshot"],
        ),
        ("instances: 2", "instances: 3", vec!["cluster.instances"]),
        // What a reload does change.
        ("level: info", "level: debug", vec![]),
        ("mode: enforce", "mode: shadow", vec![]),
        ("capacity: 20,", "capacity: 21,", vec![]),
        ("127.0.0.1:9000", "127.0.0.1:9002", vec![]),
        ("forward: X-Tenant-Id", "forward: X-Tenant", vec![]),
    ] {
        let text = everything();
        assert!(text.contains(from), "{from}");
        let new = config(&text.replace(from, to));
        assert_eq!(old.restart_differences(&new), keys, "{to}");
    }
    assert_eq!(
        config(SMALL).restart_differences(&config(&format!(
            "{SMALL}store: {{ redis: {{ url: redis://h:1 }} }}\ncluster: {{ instances: 3 }}"
        ))),
        ["store.redis", "cluster.instances"]
    );
}

#[test]
fn an_error_of_meaning_does_not_show_what_the_environment_holds() {
    let text = "version: 1
listeners: [{ address: 127.0.0.1:80 }]
upstreams: { a: { servers: [127.0.0.1:1] } }
routes: [{ id: r, path: /*, upstream: a }]
tenant: { header: \"${SECRET} x\" }
";
    let env = |_: &str| Some("hunter2pass".to_owned());
    let error = parse("f.yaml", text, &env).expect_err("no header's name");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(error.to_string().contains("${SECRET}"), "{error}");
}

#[test]
fn the_admin_address_is_found_in_a_file_that_is_wrong() {
    let address = |text: &str| {
        let source = Source::BuiltIn {
            name: "f".to_owned(),
            text: text.to_owned(),
        };
        source.admin_address().to_string()
    };
    assert_eq!(address("admin: { address: 127.0.0.1:7 }"), "127.0.0.1:7");
    assert_eq!(
        address(
            "listeners: 5\nadmin: { address: \"127.0.0.1:7\", x: 1 }\nroutes: ${AFORO_NOT_SET}"
        ),
        "127.0.0.1:7"
    );
    for text in ["", "version: 1", "x: [", "admin: { address: here }"] {
        assert_eq!(address(text), "127.0.0.1:9090", "{text}");
    }
}
