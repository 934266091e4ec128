//! Errors of meaning: each fragment beside exactly what is said about it.

use std::fmt::Write;

use crate::config::{Config, ConfigError, parse};

mod limits;
mod listeners;
mod routes;
mod store;
mod tenants;
mod upstreams;

/// A right configuration, in which each line can be replaced by a case.
const RIGHT: [(&str, &str); 5] = [
    ("version", "version: 1"),
    ("listeners", "listeners: [{ address: 0.0.0.0:8080 }]"),
    (
        "upstreams",
        "upstreams: { a: { servers: [127.0.0.1:9000] } }",
    ),
    ("routes", "routes: [{ id: r, path: /r, upstream: a }]"),
    ("", ""),
];

fn read(text: &str) -> Result<Config, ConfigError> {
    parse("f.yaml", text, &|_| None)
}

/// The right configuration with these lines: each takes the place of the section with its name.
fn with(lines: &[&str]) -> String {
    let mut text = String::new();
    for (section, right) in RIGHT {
        let replaced = lines
            .iter()
            .any(|line| line.split(':').next() == Some(section));
        if !replaced {
            writeln!(text, "{right}").expect("a string");
        }
    }
    for line in lines {
        writeln!(text, "{line}").expect("a string");
    }
    text
}

/// What is said about a configuration with these lines, without the file's name.
fn problems(lines: &[&str]) -> Vec<String> {
    let text = with(lines);
    match read(&text) {
        Ok(_) => Vec::new(),
        Err(error @ ConfigError::Meaning { .. }) => error
            .to_string()
            .lines()
            .map(|line| line.strip_prefix("f.yaml: ").expect("the file").to_owned())
            .collect(),
        Err(error) => panic!("{text}{error}"),
    }
}

fn each_is_refused(cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        assert_eq!(problems(&[line]), [*expected], "{line}");
    }
}

fn each_is_accepted(cases: &[&str]) {
    for line in cases {
        assert_eq!(problems(&[line]), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn versions_and_required_sections() {
    each_is_refused(&[
        ("version: 2", "version: must be 1, not 2"),
        (
            "listeners: []",
            "listeners: at least one is needed, such as `- address: 0.0.0.0:8080`",
        ),
        (
            "routes: []",
            "routes: at least one is needed, such as `- { id: default, path: /*, upstream: NAME }`",
        ),
    ]);
}

#[test]
fn what_does_not_exist_yet_is_refused() {
    let rule = |key: &str| {
        format!(
            "limits: {{ rules: [{{ tenant: t, route: r, capacity: 5, refill_per_second: 1, {key} }}] }}"
        )
    };
    each_is_refused(&[
        (
            "admin: { token: hunter2 }",
            "admin.token: not supported yet; leave it out or empty",
        ),
        (
            "log: { tenant: hash }",
            "log.tenant: not supported yet; plain is",
        ),
        (
            "log: { tenant: off }",
            "log.tenant: not supported yet; plain is",
        ),
        (
            "timeouts: { header: 10s }",
            "timeouts.header: not supported yet; leave it out, idle and body are",
        ),
        (
            "trusted_proxies: [10.0.0.0/8]",
            "trusted_proxies: not supported yet; an empty list is, nobody's X-Forwarded-For is believed",
        ),
        (
            "tenant: { keys: registry }",
            "tenant.keys: not supported yet; open is",
        ),
        (
            &rule("concurrency: 4"),
            "limits.rules[0].concurrency: not supported yet; leave it out",
        ),
    ]);
    each_is_accepted(&["trusted_proxies: []"]);
}

#[test]
fn all_mistakes_are_named_at_once() {
    let text = "
version: 1
listeners: [{ address: nowhere }]
upstreams: { a: {} }
routes:
  - { id: r, path: r, upstream: b }
  - { id: r, path: /x, upstream: a, cost: 0 }
limits:
  rules:
    - { tenant: t, route: x, capacity: null, refill_per_second: -1 }
store: { redis: { url: redis://h:1 } }
";
    assert_eq!(
        read(text).expect_err("much is wrong").to_string(),
        "f.yaml: listeners[0].address: `nowhere` is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080\n\
         f.yaml: upstreams.a.servers: at least one is needed, such as `127.0.0.1:9000`\n\
         f.yaml: routes[0].path: `r` must begin with `/`\n\
         f.yaml: routes[0].upstream: no upstream is called `b`, there is `a`\n\
         f.yaml: routes[1].cost: must be at least 1, not 0\n\
         f.yaml: routes[1].id: `r` is already the id of routes[0], each route needs its own\n\
         f.yaml: limits.rules[0].route: no route has the id `x`, there is `r`, `r`; `*` is every route\n\
         f.yaml: limits.rules[0].capacity: of tenant `t` on route `x` must be a whole number from 1 to 2147483647, not null\n\
         f.yaml: limits.rules[0].refill_per_second: of tenant `t` on route `x` must be a number from 1e-9 to 1e9, not -1\n\
         f.yaml: cluster.instances: is required with store.redis: the number of gateways that share this Redis, 1 or more"
    );
}
