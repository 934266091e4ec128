//! Redis, the cluster, and the database of rules.

use super::*;
use crate::config::Instances;

#[test]
fn the_store_and_the_cluster() {
    let form = crate::store::redis::url::FORM;
    let unreadable = format!(
        "store.redis.url: cannot be read, expected {form}; special characters of a password are written percent-encoded"
    );
    let cluster = "cluster: { instances: 2 }";
    for (redis, expected) in [
        (
            "url: \"\"",
            format!("store.redis.url: is no URL, expected {form}"),
        ),
        (
            "url: localhost:6379",
            format!("store.redis.url: is no URL, expected {form}"),
        ),
        (
            "url: http://h:1",
            format!("store.redis.url: has an unknown scheme `http`, expected {form}"),
        ),
        (
            "url: hunter2@://h:1",
            format!("store.redis.url: has an unknown scheme, expected {form}"),
        ),
        (
            "url: unix:///tmp/redis.sock",
            format!("store.redis.url: has an unknown scheme `unix`, expected {form}"),
        ),
        ("url: redis://", unreadable.clone()),
        ("url: redis://h:port", unreadable.clone()),
        ("url: redis://h:1/hunter2", unreadable.clone()),
        ("url: redis://u:hunter2/x@h:1", unreadable),
        (
            "url: redis://h:1/-1",
            format!("store.redis.url: has a database below 0, expected {form}"),
        ),
        (
            "url: \"redis://h:1?hunter2\"",
            format!(
                "store.redis.url: must not hold `?` and `#` (in a password they are written %3F and %23), expected {form}"
            ),
        ),
        (
            "url: redis://h:1, timeout: 0s",
            "store.redis.timeout: must be from 1ms to 60s, not 0s".to_owned(),
        ),
        (
            "url: redis://h:1, timeout: 61s",
            "store.redis.timeout: must be from 1ms to 60s, not 61s".to_owned(),
        ),
        (
            "url: redis://h:1, in_flight: 0",
            "store.redis.in_flight: must be at least 1, not 0".to_owned(),
        ),
        (
            "url: \"redis+cluster://h:1,i:2/3\"",
            "store.redis.url: names a database, but a cluster has only one: leave out what is behind the hosts"
                .to_owned(),
        ),
        (
            "url: redis+sentinel://h:1",
            "store.redis.url: does not name the primary that Sentinel is to be asked for, expected redis+sentinel://host:port,host:port/MASTER"
                .to_owned(),
        ),
        (
            "url: redis://h:1, tls: { ca: /nowhere/ca.crt }",
            "store.redis.tls: belongs to a URL with TLS: rediss://, rediss+cluster:// or rediss+sentinel://"
                .to_owned(),
        ),
        (
            "url: rediss://h:1, tls: { cert: /nowhere/a.crt }",
            "store.redis.tls.key: is missing: a certificate and its key belong together".to_owned(),
        ),
        (
            "url: rediss://h:1, tls: { ca: /nowhere/ca.crt }",
            "store.redis.tls: cannot read /nowhere/ca.crt: No such file or directory (os error 2)"
                .to_owned(),
        ),
        (
            "url: redis://h:1, breaker: { failures: 0 }",
            "store.redis.breaker.failures: must be at least 1, not 0".to_owned(),
        ),
    ] {
        let store = format!("store: {{ redis: {{ {redis} }} }}");
        assert_eq!(problems(&[&store, cluster]), [expected], "{store}");
    }
    let store = "store: { redis: { url: \"redis://u:p%40ss@h:1/3\", timeout: 60s, in_flight: 1, breaker: { failures: 7, probe: 250ms } } }";
    let config = read(&with(&[store, cluster])).expect("right");
    assert_eq!(config.store.expect("a store").redis.address, "h:1");
    assert_eq!(
        config.cluster.map(|c| c.instances),
        Some(Instances::Fixed(2))
    );
    assert_eq!(
        problems(&[store]),
        [
            "cluster.instances: is required with store.redis: the number of gateways that share this Redis, 1 or more"
        ]
    );
    for (value, shown) in [
        ("0", "0"),
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("~", "null"),
        ("4294967296", "4294967296"),
    ] {
        assert_eq!(
            problems(&[store, &format!("cluster: {{ instances: {value} }}")]),
            [format!(
                "cluster.instances: must be a whole number of gateways, 1 or more, not {shown}"
            )]
        );
    }
    each_is_accepted(&[cluster]);
    each_is_refused(&[(
        "cluster: { instances: 2, at_least: 1 }",
        "cluster.at_least: belongs to `instances: auto`, leave it out beside a number",
    )]);
}

#[test]
fn the_database_has_a_url_that_is_never_shown() {
    let form = "postgres://host:port/database (user:password@ before the host, ?sslmode=verify-full and the like at the end)";
    let unreadable = format!(
        "rules.postgres.url: cannot be read, expected {form}; special characters of a password are written percent-encoded"
    );
    let unknown = "rules.postgres.url: has a parameter that is not known, there is application_name, dbname, host, \
                   hostaddr, options, password, port, sslcert, sslkey, sslmode, sslrootcert, user \
                   (a `?` in a password is written %3F)";
    for (postgres, expected) in [
        (
            "url: \"hunter2\"",
            format!("rules.postgres.url: is no URL of PostgreSQL, expected {form}"),
        ),
        (
            "url: \"mysql://u:hunter2@h/d\"",
            format!("rules.postgres.url: is no URL of PostgreSQL, expected {form}"),
        ),
        ("url: \"postgres://u:hunter2/x@h:y/d\"", unreadable.clone()),
        ("url: \"postgres://h/d?sslmode=hunter2\"", unreadable),
        (
            "url: \"postgres://h/d?passwrd=hunter2\"",
            unknown.to_owned(),
        ),
        ("url: \"postgres://u:a?hunter2@h/d\"", unknown.to_owned()),
        (
            "url: \"postgres://h/d\", refresh: 0s",
            "rules.postgres.refresh: must be more than 0s".to_owned(),
        ),
    ] {
        let rules = format!("rules: {{ postgres: {{ {postgres} }} }}");
        let found = problems(&[&rules]);
        assert!(!found.join("").contains("hunter2"), "{found:?}");
        assert_eq!(found, [expected], "{rules}");
    }
    for (url, address) in [
        ("postgres://aforo@db:5433/rules", "db:5433/rules as aforo"),
        ("postgresql://u:hunter2@db", "db:5432/u as u"),
        (
            "postgres://u:hunter2@db/d?sslmode=verify-full&sslrootcert=/ca.pem",
            "db:5432/d as u",
        ),
        (
            "postgres://%2Frun%2Fpostgresql/d?user=u",
            "/run/postgresql, d as u",
        ),
    ] {
        let rules = format!("rules: {{ postgres: {{ url: \"{url}\", snapshot: /s.json }} }}");
        let config = read(&with(&[&rules])).expect("right");
        let summary = config.summary();
        assert!(!summary.contains("hunter2"), "{summary}");
        assert!(
            summary.contains(&format!("PostgreSQL at {address}, ")),
            "{summary}"
        );
        assert!(summary.contains("/s.json"), "{summary}");
    }
}
