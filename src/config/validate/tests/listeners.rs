//! Listeners, the process around them, and where the next process takes them over.

use super::*;

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
