//! Routes: what they match, and what they cannot.

use super::*;

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
fn what_get_brings_is_taken_by_get() {
    each_is_refused(&[(
        "routes: [{ id: r, path: /a, methods: [GET], upstream: a }, { id: s, path: /a, methods: [POST, HEAD], upstream: a }]",
        "routes[1]: matches the same requests as routes[0] (`r`), give them different paths, hosts or methods",
    )]);
}
