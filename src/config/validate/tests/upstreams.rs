//! Upstreams and their servers.

use super::*;

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
