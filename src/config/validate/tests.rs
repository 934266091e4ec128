//! Errors of meaning: each fragment beside exactly what is said about it.

use std::fmt::Write;

use crate::config::{Config, ConfigError, Instances, parse};

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
fn what_a_listener_speaks() {
    each_is_accepted(&[
        "listeners: [{ address: 0.0.0.0:1, h2c: true }]",
        "listeners: [{ address: 0.0.0.0:1, tls: { cert: a, key: b, min_version: TLSv1.3 } }]",
        "listeners: [{ address: 0.0.0.0:1, tls: { cert: a, key: b, client_ca: c } }]",
        "listeners: [{ address: 0.0.0.0:1, tls: { cert: a, key: b, client_ca: c, client_cert: optional } }]",
    ]);
    each_is_refused(&[
        (
            "listeners: [{ address: 0.0.0.0:1, h2c: true, tls: { cert: a, key: b } }]",
            "listeners[0].h2c: is for a listener without tls, which speaks HTTP/2 anyway; leave it out",
        ),
        (
            "listeners: [{ address: 0.0.0.0:1, tls: { cert: a, key: b, client_cert: optional } }]",
            "listeners[0].tls.client_cert: needs client_ca, the authorities whose certificates are believed",
        ),
    ]);
}

#[test]
fn the_place_of_the_upgrade_socket() {
    each_is_accepted(&["server: { upgrade_sock: /run/aforo/upgrade.sock }"]);
    let long = format!("/run/{}", "a".repeat(100));
    each_is_refused(&[
        (
            "server: { upgrade_sock: \"\" }",
            "server.upgrade_sock: must be the path of a socket, such as /run/aforo/upgrade.sock",
        ),
        (
            &format!("server: {{ upgrade_sock: {long} }}"),
            "server.upgrade_sock: has 105 bytes, at most 96 are possible for a socket",
        ),
    ]);
}

#[test]
fn addresses() {
    let taken = |path: &str, address: &str, index: usize, other: &str| {
        format!(
            "{path}: {address} is taken by listeners[{index}] ({other}), each listener needs its own"
        )
    };
    each_is_refused(&[
        (
            "listeners: [{ address: localhost:80 }]",
            "listeners[0].address: `localhost:80` is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080",
        ),
        (
            "listeners: [{ address: 0.0.0.0 }]",
            "listeners[0].address: `0.0.0.0` is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080",
        ),
        (
            "listeners: [{ address: 1.1.1.1:80 }, { address: 1.1.1.2:80 }, { address: 1.1.1.1:80 }]",
            &taken("listeners[2].address", "1.1.1.1:80", 0, "1.1.1.1:80"),
        ),
        (
            "listeners: [{ address: bad }, { address: 1.1.1.2:80 }, { address: 0.0.0.0:81 }]",
            "listeners[0].address: `bad` is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080",
        ),
        (
            "listeners: [{ address: 1.1.1.1:80 }, { address: 0.0.0.0:80 }]",
            &taken("listeners[1].address", "0.0.0.0:80", 0, "1.1.1.1:80"),
        ),
        (
            "listeners: [{ address: 0.0.0.0:9090 }]",
            &taken("admin.address", "127.0.0.1:9090", 0, "0.0.0.0:9090"),
        ),
        (
            "admin: { address: 0.0.0.0:8080 }",
            &taken("admin.address", "0.0.0.0:8080", 0, "0.0.0.0:8080"),
        ),
        (
            "listeners: [{ address: \"[::]:80\" }, { address: 1.1.1.1:80 }]",
            &taken("listeners[1].address", "1.1.1.1:80", 0, "[::]:80"),
        ),
        (
            "listeners: [{ address: 127.0.0.1:0 }]",
            "listeners[0].address: `127.0.0.1:0` has port 0, which nobody could find",
        ),
        (
            "admin: { address: somewhere }",
            "admin.address: `somewhere` is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080",
        ),
    ]);
    each_is_accepted(&[
        "listeners: [{ address: \"[::1]:80\" }, { address: 1.1.1.1:80 }]",
        "admin: { address: \"[::1]:9090\" }",
        "admin: { token: \"\" }",
        "admin: {}",
    ]);
}

#[test]
fn server_timeouts_and_log() {
    each_is_refused(&[
        (
            "server: { threads: 0 }",
            "server.threads: must be at least 1, not 0",
        ),
        (
            "timeouts: { idle: 0s }",
            "timeouts.idle: must be more than 0s",
        ),
        (
            "timeouts: { body: 0ms }",
            "timeouts.body: must be more than 0s",
        ),
    ]);
    each_is_accepted(&[
        "server: { threads: 1, grace_period: 0s, drain_delay: 5s }",
        "timeouts: { idle: 1ms, body: 1h }",
        "log: { level: trace, format: json, access: true, tenant: plain }",
        "log: {}",
    ]);
}

#[test]
fn tenants() {
    each_is_refused(&[
        (
            "tenant: { header: \"X Api\" }",
            "tenant.header: `X Api` is no header name, use one such as X-Api-Key",
        ),
        (
            "tenant: { header: \"\" }",
            "tenant.header: `` is no header name, use one such as X-Api-Key",
        ),
        (
            "tenant: { header: Host }",
            "tenant.header: `Host` belongs to HTTP itself, use a header such as X-Api-Key",
        ),
        (
            "tenant: { forward: \"X:\" }",
            "tenant.forward: `X:` is no header name, use one such as X-Api-Key",
        ),
        (
            "tenant: { forward: x-api-key }",
            "tenant.forward: must be another header than tenant.header (`x-api-key`): it is removed from what clients send",
        ),
    ]);
    each_is_accepted(&[
        "tenant: { header: Authorization, keys: open, forward: X-Tenant-Id, strip_key: true }",
    ]);
}

#[test]
fn upstreams() {
    let route = "routes: [{ id: r, path: /r, upstream: a }]";
    for (upstream, expected) in [
        (
            "{}",
            "upstreams.a.servers: at least one is needed, such as `127.0.0.1:9000`",
        ),
        (
            "{ servers: [] }",
            "upstreams.a.servers: at least one is needed, such as `127.0.0.1:9000`",
        ),
        (
            "{ servers: [127.0.0.1] }",
            "upstreams.a.servers[0]: `127.0.0.1` must be `host:port`, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [\"http://127.0.0.1:80\"] }",
            "upstreams.a.servers[0]: `http://127.0.0.1:80` must be `host:port`, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [\"::1:80\"] }",
            "upstreams.a.servers[0]: `::1:80` must be `host:port`, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [\":80\"] }",
            "upstreams.a.servers[0]: `:80` must be `host:port`, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [\"\"] }",
            "upstreams.a.servers[0]: `` must be `host:port`, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [127.0.0.1:0] }",
            "upstreams.a.servers[0]: `127.0.0.1:0` must end with a port from 1 to 65535, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [127.0.0.1:65536] }",
            "upstreams.a.servers[0]: `127.0.0.1:65536` must end with a port from 1 to 65535, such as 127.0.0.1:9000",
        ),
        (
            "{ servers: [\"999.1.1.1.invalid:80\"] }",
            "upstreams.a.servers[0]: `999.1.1.1.invalid:80` has no address, expected an IP address or a name that can be resolved",
        ),
        (
            "{ servers: [127.0.0.1:1, 127.0.0.1:2 weight=0] }",
            "upstreams.a.servers[1]: the weight `0` must be a whole number from 1 to 1000",
        ),
        (
            "{ servers: [127.0.0.1:1 weight=1001] }",
            "upstreams.a.servers[0]: the weight `1001` must be a whole number from 1 to 1000",
        ),
        (
            "{ servers: [127.0.0.1:1 weight=x] }",
            "upstreams.a.servers[0]: the weight `x` must be a whole number from 1 to 1000",
        ),
        (
            "{ servers: [127.0.0.1:1 heavy] }",
            "upstreams.a.servers[0]: `heavy` is not known here, expected `host:port` or `host:port weight=2`",
        ),
        (
            "{ servers: [127.0.0.1:1 weight=1 x] }",
            "upstreams.a.servers[0]: `x` is not known here, expected `host:port` or `host:port weight=2`",
        ),
        (
            "{ servers: [127.0.0.1:1, 127.0.0.1:1] }",
            "upstreams.a.servers[1]: 127.0.0.1:1 is here twice, give one of them a weight instead, as in `127.0.0.1:1 weight=2`",
        ),
        (
            "{ servers: [127.0.0.1:1], connect_timeout: 0s }",
            "upstreams.a.connect_timeout: must be more than 0s",
        ),
        (
            "{ servers: [127.0.0.1:1], read_timeout: 0s }",
            "upstreams.a.read_timeout: must be more than 0s",
        ),
        (
            "{ servers: [127.0.0.1:1], idle_timeout: 0s }",
            "upstreams.a.idle_timeout: must be more than 0s",
        ),
    ] {
        let upstream = format!("upstreams: {{ a: {upstream} }}");
        assert_eq!(problems(&[&upstream, route]), [expected], "{upstream}");
    }
    each_is_refused(&[(
        "upstreams: { a: { servers: [127.0.0.1:1] }, \"b c\": { servers: [127.0.0.1:1] } }",
        "upstreams.b c: the name `b c` may hold visible ASCII characters only, and no space",
    )]);
    let config = read(&with(&[
        "upstreams: { a: { servers: [\"[::1]:9000 weight=3\", localhost:9001], retries: 0 } }",
    ]));
    let config = config.expect("right");
    let servers = &config.upstreams["a"].servers;
    assert_eq!(servers[0].address.to_string(), "[::1]:9000");
    assert_eq!(servers[0].weight, 3);
    assert!(servers[1].address.ip().is_loopback());
    assert_eq!(config.upstreams["a"].retries, 0);
}

#[test]
fn routes() {
    let long = "x".repeat(65);
    let too_long = format!("routes[0].id: `{long}` has 65 characters, at most 64 are allowed");
    for (route, expected) in [
        ("id: \"\", path: /", "routes[0].id: must not be empty"),
        (
            "id: a b, path: /",
            "routes[0].id: `a b` may hold visible ASCII characters only, and no space",
        ),
        (
            "id: é, path: /",
            "routes[0].id: `é` may hold visible ASCII characters only, and no space",
        ),
        (&format!("id: {long}, path: /"), &too_long),
        (
            "id: \"a*\", path: /",
            "routes[0].id: `a*` must not hold `*`, which stands for all routes in rules",
        ),
        (
            "id: none, path: /",
            "routes[0].id: `none` is what metrics call requests that no route matched, choose another",
        ),
        (
            "id: r, path: /, methods: [get]",
            "routes[0].methods[0]: `get` is not in upper case, write GET",
        ),
        (
            "id: r, path: /, methods: [GET, \"A B\"]",
            "routes[0].methods[1]: `A B` is no method, expected one such as GET or POST",
        ),
        (
            "id: r, path: /, cost: 0",
            "routes[0].cost: must be at least 1, not 0",
        ),
        (
            "id: r, path: /, host: \"a.b:80\"",
            "routes[0].host: `a.b:80` must be written without scheme and port, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: \"http://a\"",
            "routes[0].host: `http://a` must be written without scheme and port, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: \"\"",
            "routes[0].host: `` is no host, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: a..b",
            "routes[0].host: `a..b` is no host, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: -a.b",
            "routes[0].host: `-a.b` is no host, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: a/b",
            "routes[0].host: `a/b` is no host, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: \"*\"",
            "routes[0].host: `*` may hold `*` as its first label only, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: \"a.*.b\"",
            "routes[0].host: `a.*.b` may hold `*` as its first label only, expected a host such as api.example.com or *.example.com",
        ),
        (
            "id: r, path: /, host: \"[::g]\"",
            "routes[0].host: `[::g]` is no host, expected a host such as api.example.com or *.example.com",
        ),
    ] {
        let line = format!("routes: [{{ {route}, upstream: a }}]");
        assert_eq!(problems(&[&line]), [expected], "{line}");
    }
    each_is_refused(&[
        (
            "routes: [{ id: r, path: /, upstream: b }]",
            "routes[0].upstream: no upstream is called `b`, there is `a`",
        ),
        (
            "routes: [{ id: r, path: /a, upstream: a }, { id: s, path: /b, upstream: a }, { id: r, path: /c, upstream: a }]",
            "routes[2].id: `r` is already the id of routes[0], each route needs its own",
        ),
        (
            "routes: [{ id: r, path: /a, upstream: a }, { id: s, path: /a, methods: [GET], upstream: a }]",
            "routes[1]: matches the same requests as routes[0] (`r`), give them different paths, hosts or methods",
        ),
        (
            "routes: [{ id: r, path: \"/{a}/b\", methods: [GET, PUT], upstream: a }, { id: s, path: \"/{b}/b\", methods: [PUT], upstream: a }]",
            "routes[1]: matches the same requests as routes[0] (`r`), give them different paths, hosts or methods",
        ),
        (
            "routes: [{ id: r, path: /a, host: A.b, upstream: a }, { id: s, path: /a, host: a.B., upstream: a }]",
            "routes[1]: matches the same requests as routes[0] (`r`), give them different paths, hosts or methods",
        ),
    ]);
    each_is_accepted(&[
        "routes: [{ id: r, path: /a, methods: [GET], upstream: a }, { id: s, path: /a, methods: [POST], upstream: a }]",
        "routes: [{ id: r, path: /a, upstream: a }, { id: s, path: /a, host: b, upstream: a }, { id: t, path: /a, host: \"*.b\", upstream: a }]",
        "routes: [{ id: r, path: /a/b, upstream: a }, { id: s, path: \"/a/{b}\", upstream: a }, { id: t, path: \"/a/*\", upstream: a }]",
    ]);
    let config = read(&with(&[
        "routes: [{ id: r, path: /, host: \"*.API.Example.com.\", methods: [PURGE], upstream: a }]",
    ]));
    let route = &config.expect("right").routes[0];
    assert_eq!(route.host.as_deref(), Some("*.api.example.com"));
    assert_eq!(route.methods[0], "PURGE");
}

#[test]
fn paths() {
    for (path, expected) in [
        ("", "must begin with `/`"),
        ("orders", "must begin with `/`"),
        ("*", "must begin with `/`"),
        (
            "/a b",
            "may hold visible ASCII characters only, write others percent-encoded",
        ),
        (
            "/é",
            "may hold visible ASCII characters only, write others percent-encoded",
        ),
        (
            "/a?b=c",
            "must not hold `?`: the query is not matched, leave it out",
        ),
        (
            "/a#b",
            "must not hold `#`: a request has no fragment, leave it out",
        ),
        (
            "/a\\b",
            "must not hold `\\`: no request with a backslash is let in",
        ),
        (
            "/a;v=1",
            "must not hold `;`: `;parameters` are dropped before matching, leave them out",
        ),
        (
            "//a",
            "must not hold `//`: repeated slashes are merged before matching",
        ),
        (
            "/a//b",
            "must not hold `//`: repeated slashes are merged before matching",
        ),
        (
            "/a/",
            "must not end with `/`, which is dropped before matching; `/*` is all that lies below",
        ),
        (
            "/./a",
            "must not hold the segments `.` and `..`, which are resolved before matching",
        ),
        (
            "/a/..",
            "must not hold the segments `.` and `..`, which are resolved before matching",
        ),
        ("/*/a", "may hold `*` as its last segment only"),
        ("/a*", "may hold `*` as a whole segment only"),
        ("/**", "may hold `*` as a whole segment only"),
        (
            "/a{b}",
            "may hold `{name}` as a whole segment only, its name of letters, digits and `_`",
        ),
        (
            "/{}",
            "may hold `{name}` as a whole segment only, its name of letters, digits and `_`",
        ),
        (
            "/{a",
            "may hold `{name}` as a whole segment only, its name of letters, digits and `_`",
        ),
        (
            "/{a-b}",
            "may hold `{name}` as a whole segment only, its name of letters, digits and `_`",
        ),
        ("/{*a}", "may hold `*` as a whole segment only"),
        (
            "/%61",
            "holds `%61`, which is decoded before matching, write `a`",
        ),
        (
            "/%7E",
            "holds `%7E`, which is decoded before matching, write `~`",
        ),
        ("/%2F", "holds `%2F`, and no request with that is let in"),
        ("/%5c", "holds `%5c`, and no request with that is let in"),
        ("/%00", "holds `%00`, and no request with that is let in"),
        ("/%c3%A9", "holds `%c3`, write `%C3`"),
        (
            "/100%",
            "holds a `%` without two hexadecimal digits, write `%25` for the character itself",
        ),
        (
            "/%zz",
            "holds a `%` without two hexadecimal digits, write `%25` for the character itself",
        ),
        (
            "/%+1",
            "holds a `%` without two hexadecimal digits, write `%25` for the character itself",
        ),
    ] {
        let line = format!("routes: [{{ id: r, path: '{path}', upstream: a }}]");
        assert_eq!(
            problems(&[&line]),
            [format!("routes[0].path: `{path}` {expected}")]
        );
    }
    for path in [
        "/",
        "/*",
        "/orders",
        "/orders/*",
        "/orders/{id}",
        "/a/{b}/c/{d}/*",
        "/caf%C3%A9",
        "/100%25",
        "/a.b",
        "/...",
        "/a:b@c,d",
    ] {
        let line = format!("routes: [{{ id: r, path: '{path}', upstream: a }}]");
        assert_eq!(problems(&[&line]), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn numbers_of_rules_are_named_with_their_row() {
    for value in [
        "0",
        "-5",
        "null",
        "~",
        "",
        "2147483648",
        "1.5",
        "20.0",
        ".nan",
        ".inf",
        "-.inf",
        "340282366920938463463374607431768211455",
    ] {
        let rule = format!(
            "limits: {{ rules: [{{ tenant: t, route: r, capacity: {value}, refill_per_second: 1 }}] }}"
        );
        let shown = match value {
            "~" | "" => "null",
            "340282366920938463463374607431768211455" => "170141183460469231731687303715884105727",
            value => value,
        };
        assert_eq!(
            problems(&[&rule]),
            [format!(
                "limits.rules[0].capacity: of tenant `t` on route `r` must be a whole number from 1 to 2147483647, not {shown}"
            )]
        );
    }
    for value in [
        "0",
        "-1",
        "-0.5",
        "null",
        ".nan",
        ".inf",
        "-.inf",
        "1e-10",
        "1000000001",
    ] {
        let rule =
            format!("limits: {{ default_rule: {{ capacity: 1, refill_per_second: {value} }} }}");
        assert_eq!(
            problems(&[&rule]),
            [format!(
                "limits.default_rule.refill_per_second: must be a number from 1e-9 to 1e9, not {value}"
            )]
        );
    }
    each_is_accepted(&[
        "limits: { default_rule: { capacity: 2147483647, refill_per_second: 1e9 } }",
        "limits: { default_rule: { capacity: 1, refill_per_second: 1e-9 } }",
        "limits: { default_rule: { capacity: 1, refill_per_second: 0.5 } }",
    ]);
}

#[test]
fn rules() {
    let rule = |rule: &str| {
        format!("limits: {{ rules: [{{ {rule}, capacity: 5, refill_per_second: 1 }}] }}")
    };
    let long = "x".repeat(65);
    for (who, expected) in [
        ("tenant: \"\", route: r", "limits.rules[0].tenant: must not be empty".to_owned()),
        ("tenant: a b, route: r", "limits.rules[0].tenant: `a b` may hold visible ASCII characters only, and no space".to_owned()),
        (&format!("tenant: {long}, route: r"), format!("limits.rules[0].tenant: `{long}` has 65 characters, at most 64 are allowed")),
        ("tenant: t, route: x", "limits.rules[0].route: no route has the id `x`, there is `r`; `*` is every route".to_owned()),
        ("tenant: \"*\", route: \"*\"", "limits.rules[0]: for every tenant on every route there is limits.default_rule, write it there".to_owned()),
        ("tenant: t, route: r, shards: 0", "limits.rules[0].shards: must be at least 1, not 0".to_owned()),
    ] {
        assert_eq!(problems(&[&rule(who)]), [expected]);
    }
    for who in [
        "tenant: t, route: r",
        "tenant: t, route: \"*\"",
        "tenant: \"*\", route: r",
        "tenant: t, route: r, shadow: true, shards: 1, on_store_failure: local",
        "tenant: t, route: r, on_store_failure: open",
        "tenant: t, route: r, on_store_failure: closed",
    ] {
        assert_eq!(problems(&[&rule(who)]), Vec::<String>::new(), "{who}");
    }
    each_is_refused(&[
        (
            "limits: { rules: [{ tenant: t, route: r, capacity: 1, refill_per_second: 1 }, { tenant: t, route: \"*\", capacity: 1, refill_per_second: 1 }, { tenant: t, route: r, capacity: 2, refill_per_second: 1 }] }",
            "limits.rules[2]: tenant `t` on route `r` already has limits.rules[0], keep one of them",
        ),
        (
            "limits: { headers: [draft, draft] }",
            "limits.headers[1]: is here twice, each family is named once",
        ),
        (
            "limits: { max_local_buckets: 0 }",
            "limits.max_local_buckets: must be at least 1, not 0",
        ),
    ]);
    let config = read(&with(&[
        "limits: { headers: [draft], mode: shadow, prefetch: { batch: 0 } }",
    ]))
    .expect("right");
    assert!(config.limits.headers.draft && !config.limits.headers.x_ratelimit);
    assert_eq!(config.limits.prefetch_batch, 0);
    let config = read(&with(&["limits: { headers: [] }"])).expect("right");
    assert!(!config.limits.headers.draft && !config.limits.headers.x_ratelimit);
}

#[test]
fn a_bucket_holds_what_one_request_costs() {
    let routes = "routes: [{ id: cheap, path: /c, upstream: a }, { id: dear, path: /d, upstream: a, cost: 30 }, { id: dearest, path: /e, upstream: a, cost: 40 }]";
    let least = |path: &str, whom: &str, capacity: u32, cost: u32, route: &str| {
        format!(
            "{path}.capacity: {whom}is {capacity}, less than the cost {cost} of one request on route `{route}`, so that it would admit none; it must be at least {cost}"
        )
    };
    let rule = |tenant: &str, route: &str, capacity: u32| {
        format!(
            "{{ tenant: \"{tenant}\", route: \"{route}\", capacity: {capacity}, refill_per_second: 1 }}"
        )
    };
    let default =
        |capacity: u32| format!("default_rule: {{ capacity: {capacity}, refill_per_second: 1 }}");
    let limits = |default: &str, rules: &[String]| {
        format!("limits: {{ {default}, rules: [{}] }}", rules.join(", "))
    };
    for (limits, expected) in [
        // The default rule, also where it is not written.
        ("limits: {}".to_owned(), vec![least("limits.default_rule", "", 20, 40, "dearest")]),
        (limits(&default(39), &[]), vec![least("limits.default_rule", "", 39, 40, "dearest")]),
        (limits(&default(40), &[]), vec![]),
        // It does not decide where every tenant has a rule.
        (limits(&default(1), &[rule("*", "dear", 30), rule("*", "dearest", 40)]), vec![]),
        (limits(&default(1), &[rule("*", "dearest", 40), rule("t", "dear", 30)]), vec![least("limits.default_rule", "", 1, 30, "dear")]),
        // A rule for one route.
        (limits(&default(40), &[rule("t", "dear", 29)]), vec![least("limits.rules[0]", "of tenant `t` on route `dear` ", 29, 30, "dear")]),
        (limits(&default(40), &[rule("*", "dear", 29)]), vec![least("limits.rules[0]", "of tenant `*` on route `dear` ", 29, 30, "dear")]),
        (limits(&default(40), &[rule("t", "cheap", 1)]), vec![]),
        // A tenant's rule for every route, except where it has another.
        (limits(&default(40), &[rule("t", "*", 30)]), vec![least("limits.rules[0]", "of tenant `t` on route `*` ", 30, 40, "dearest")]),
        (limits(&default(40), &[rule("t", "*", 30), rule("t", "dearest", 40)]), vec![]),
        (limits(&default(40), &[rule("t", "*", 30), rule("u", "dearest", 40), rule("*", "dearest", 40)]), vec![least("limits.rules[0]", "of tenant `t` on route `*` ", 30, 40, "dearest")]),
        // A capacity that is wrong in itself is said once.
        (limits(&default(40), &[rule("t", "dear", 0)]), vec!["limits.rules[0].capacity: of tenant `t` on route `dear` must be a whole number from 1 to 2147483647, not 0".to_owned()]),
    ] {
        assert_eq!(problems(&[routes, &limits]), expected, "{limits}");
    }
}

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

#[test]
fn what_get_brings_is_taken_by_get() {
    each_is_refused(&[(
        "routes: [{ id: r, path: /a, methods: [GET], upstream: a }, { id: s, path: /a, methods: [POST, HEAD], upstream: a }]",
        "routes[1]: matches the same requests as routes[0] (`r`), give them different paths, hosts or methods",
    )]);
}

#[test]
fn the_tenant_is_not_told_in_a_header_that_says_something_else() {
    for name in ["X-Forwarded-For", "x-request-id", "RateLimit", "Via"] {
        assert_eq!(
            problems(&[&format!("tenant: {{ forward: {name} }}")]),
            [format!(
                "tenant.forward: `{name}` is written by Aforo itself, use a header such as X-Tenant-Id"
            )]
        );
    }
}

#[test]
fn numbers_that_nobody_means_are_refused() {
    each_is_refused(&[
        (
            "server: { threads: 100000 }",
            "server.threads: must be at most 1024; the default is the number of cores",
        ),
        (
            "upstreams: { a: { servers: [127.0.0.1:1], retries: 40 } }",
            "upstreams.a.retries: must be from 0 to 10",
        ),
    ]);
}
