//! Errors of shape: each with the line and the column in the file as it stands.

use crate::config::{ConfigError, parse};

fn env(name: &str) -> Option<String> {
    match name {
        "URL" => Some("redis://me:hunter2@h:1".to_owned()),
        "LONG" => Some("a-rather-long-value".to_owned()),
        "N" => Some("5".to_owned()),
        _ => None,
    }
}

/// The error of a text, without the list of names that would be right.
fn error(text: &str) -> String {
    match parse("f.yaml", text, &env) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => {
            let error = error.to_string();
            let list = error.find("unknown ").and_then(|at| {
                let list = error[at..].find(", expected ")?;
                Some(at + list)
            });
            error[..list.unwrap_or(error.len())].to_owned()
        }
    }
}

#[test]
fn errors_of_shape_have_a_place() {
    for (text, expected) in [
        // No YAML, or not of this kind.
        ("", "f.yaml:1:1: missing field `version`"),
        ("# nothing\n", "f.yaml:2:1: missing field `version`"),
        (
            "- a\n",
            "f.yaml:1:1: invalid type: sequence, expected a mapping of sections (version, listeners, upstreams, routes, ...)",
        ),
        (
            "version: 1\n  server: {}\n",
            "f.yaml:2:9: mapping values are not allowed in this context",
        ),
        (
            "version: 1\nlog: { level: info\n",
            "f.yaml:3:1: did not find expected ',' or '}', while parsing a flow mapping at line 2 column 6",
        ),
        (
            "version: 1\n---\nversion: 1\n",
            "f.yaml:1:1: deserializing from YAML containing more than one document is not supported",
        ),
        // Keys.
        (
            "version: 1\nserver:\n  treads: 2\n",
            "f.yaml:3:3: server: unknown field `treads`",
        ),
        (
            "version: 1\nlisten: []\n",
            "f.yaml:2:1: unknown field `listen`",
        ),
        (
            "version: 1\nlimits:\n  rules:\n    - { tenant: a, route: b, capacity: 1, refill_per_second: 1, burst: 3 }\n",
            "f.yaml:4:65: limits.rules[0]: unknown field `burst`",
        ),
        ("server: {}\n", "f.yaml:1:1: missing field `version`"),
        (
            "version: 1\nroutes:\n  - id: a\n    path: /a\n",
            "f.yaml:3:5: routes[0]: missing field `upstream`",
        ),
        (
            "version: 1\nstore: {}\n",
            "f.yaml:2:8: store: missing field `redis`",
        ),
        // Keys that are there twice, in the order of the file.
        (
            "version: 1\nserver:\n  threads: 2\n  threads: 3\n",
            "f.yaml:4:3: server: `threads` is here twice",
        ),
        (
            "version: 1\nserver: {}\nserver: {}\n",
            "f.yaml:3:1: `server` is here twice",
        ),
        (
            "version: 1\nupstreams:\n  a: { servers: [127.0.0.1:1] }\n  a: { servers: [127.0.0.1:2] }\n",
            "f.yaml:4:3: upstreams: `a` is here twice",
        ),
        (
            "version: 1\nbad: 1\nserver: {}\nserver: {}\n",
            "f.yaml:2:1: unknown field `bad`",
        ),
        (
            "version: 1\nserver: {}\nserver: {}\nbad: 1\n",
            "f.yaml:3:1: `server` is here twice",
        ),
        // Types.
        (
            "version: one\n",
            "f.yaml:1:10: version: invalid type: string \"one\", expected u32",
        ),
        (
            "version: 1\nserver: { threads: two }\n",
            "f.yaml:2:20: server.threads: invalid type: string \"two\", expected usize",
        ),
        (
            "version: 1\nserver: { threads: -1 }\n",
            "f.yaml:2:20: server.threads: invalid type: integer `-1`, expected usize",
        ),
        (
            "version: 1\nserver: 5\n",
            "f.yaml:2:9: server: invalid type: integer `5`, expected a mapping of server settings",
        ),
        (
            "version: 1\nlisteners: { address: 0.0.0.0:80 }\n",
            "f.yaml:2:12: listeners: invalid type: map, expected a sequence",
        ),
        (
            "version: 1\nlog: { level: loud }\n",
            "f.yaml:2:15: log.level: unknown variant `loud`",
        ),
        (
            "version: 1\nlog: { access: yes }\n",
            "f.yaml:2:16: log.access: invalid type: string \"yes\", expected a boolean",
        ),
        (
            "version: 1\nlimits: { headers: [draft, x] }\n",
            "f.yaml:2:28: limits.headers[1]: unknown variant `x`",
        ),
        (
            "version: 1\nlimits: { mode: on }\n",
            "f.yaml:2:17: limits.mode: unknown variant `on`",
        ),
        (
            "version: 1\nlimits: { default_rule: { capacity: \"20\", refill_per_second: 1 } }\n",
            "f.yaml:2:37: limits.default_rule.capacity: invalid type: string \"20\", expected a number",
        ),
        (
            "version: 1\ncluster: { instances: many }\n",
            "f.yaml:2:23: cluster.instances: invalid value: string \"many\", expected a number of gateways or auto",
        ),
        // Sections that lack what they need, and values that are there, but empty.
        (
            "version: 1\nstore:\n  redis:\n",
            "f.yaml:3:9: store.redis: missing field `url`",
        ),
        (
            "version: 1\nserver: { threads: ~ }\n",
            "f.yaml:2:20: server.threads: invalid type: unit value, expected usize",
        ),
        // Durations.
        (
            "version: 1\nserver:\n  grace_period: 5\n",
            "f.yaml:3:17: server.grace_period: `5` has no unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "version: 1\nserver:\n  grace_period: 5 parsecs\n",
            "f.yaml:3:17: server.grace_period: `5 parsecs` has an unknown unit",
        ),
        (
            "version: 1\nserver:\n  grace_period: -5s\n",
            "f.yaml:3:17: server.grace_period: `-5s` is not a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "version: 1\nserver:\n  grace_period: [5s]\n",
            "f.yaml:3:17: server.grace_period: invalid type: sequence, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "version: 1\nupstreams: { a: { read_timeout: 1.5s } }\n",
            "f.yaml:2:33: upstreams.a.read_timeout: `1.5s` is not a whole number, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn variables_keep_places_and_stay_secret() {
    for (text, expected) in [
        (
            "version: 1\n# ${IGNORED}\nadmin: { token: \"${TOKEN}\" }\n",
            "f.yaml:3:18: the environment variable TOKEN is not set; set it, or give a default as in `${TOKEN:-default}`",
        ),
        // A place behind a value is that of the file.
        (
            "version: 1\nadmin: { address: \"${LONG}\", tokn: x }\n",
            "f.yaml:2:30: admin: unknown field `tokn`",
        ),
        // A value in the wrong place is not quoted, be it from the environment or a URL.
        (
            "version: 1\nstore: ${URL}\n",
            "f.yaml:2:8: store: invalid type: string \"${URL}\", expected a mapping with redis",
        ),
        (
            "version: 1\nstore: redis://me:hunter2@h:1\n",
            "f.yaml:2:8: store: invalid type: string \"redis://***@h:1\", expected a mapping with redis",
        ),
        (
            "version: 1\nstore: { redis: { url: redis://me:hun,ter2@h:1 } }\n",
            "f.yaml:2:39: store.redis: unknown field `***`",
        ),
        (
            "version: 1\nserver: { grace_period: ${N} }\n",
            "f.yaml:2:25: what the environment variable N holds does not fit here, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "version: 1\nserver: { threads: ${LONG} }\n",
            "f.yaml:2:20: server.threads: invalid type: string \"${LONG}\", expected usize",
        ),
        (
            "version: 1\n${LONG}: 1\n",
            "f.yaml:2:1: unknown field `${LONG}`",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn the_place_can_be_taken_apart() {
    match parse("f.yaml", "version: 1\nserver:\n  treads: 2\n", &env) {
        Err(ConfigError::Shape {
            file, line, column, ..
        }) => {
            assert_eq!((file.as_str(), line, column), ("f.yaml", 3, 3));
        }
        other => panic!("{other:?}"),
    }
}
