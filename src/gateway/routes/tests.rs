use http::Method;

use super::{Match, RouteError, RouteSpec, Router};
use crate::gateway::path;

mod model;
mod refused;

/// `id | methods | host | path`, `-` where there is none.
fn parse(line: &str) -> (String, Vec<Method>, Option<String>, String) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [id, methods, host, path] = fields[..] else {
        panic!("{line}")
    };
    let methods = match methods {
        "-" => Vec::new(),
        names => names.split(',').map(|name| name.parse().unwrap()).collect(),
    };
    let host = (host != "-").then(|| host.to_owned());
    (id.to_owned(), methods, host, path.to_owned())
}

fn build(lines: &[&str]) -> Result<(Router, Vec<String>), RouteError> {
    let routes: Vec<_> = lines.iter().map(|line| parse(line)).collect();
    let router = Router::build(routes.iter().map(|(id, methods, host, path)| RouteSpec {
        id,
        methods,
        host: host.as_deref(),
        path,
    }))?;
    Ok((router, routes.into_iter().map(|(id, ..)| id).collect()))
}

/// What a request (`METHOD host path`) gets: the route's id, `405 ALLOW` or `404`.
fn ask((router, ids): &(Router, Vec<String>), request: &str) -> String {
    let fields: Vec<&str> = request.split_whitespace().collect();
    let [method, host, path] = fields[..] else {
        panic!("{request}")
    };
    let normal = path::normalize(path.as_bytes()).unwrap();
    let path = path::for_matching(&normal).unwrap();
    let host = (host != "-").then_some(host);
    match router.find(&method.parse().unwrap(), host, &path) {
        Match::Route(index) => ids[index].clone(),
        Match::MethodNotAllowed { allow } => format!("405 {allow}"),
        Match::NotFound => "404".to_owned(),
    }
}

fn check(routes: &[&str], requests: &[(&str, &str)]) {
    let built = build(routes).unwrap();
    for (request, want) in requests {
        assert_eq!(ask(&built, request), *want, "{request} of {routes:#?}");
    }
}

#[test]
fn the_more_specific_path_wins() {
    check(
        &[
            "all - - /*",
            "orders - - /orders",
            "below - - /orders/*",
            "order - - /orders/{id}",
            "special - - /orders/special",
            "items - - /orders/{id}/items",
        ],
        &[
            ("GET - /", "all"),
            ("GET - /other", "all"),
            ("GET - /ordersx", "all"),
            ("GET - /Orders", "all"),
            ("GET - /orders", "orders"),
            ("GET - /orders/", "below"),
            ("GET - /orders/7", "order"),
            ("GET - /orders/special", "special"),
            ("GET - /orders/specialx", "order"),
            ("GET - /orders/7/items", "items"),
            ("GET - /orders/special/items", "items"),
            ("GET - /orders/7/other", "below"),
            ("GET - /orders/7/items/9", "below"),
        ],
    );
}

#[test]
fn segments_are_compared_from_the_left_and_dead_ends_are_left_again() {
    check(
        &["left - - /a/b/*", "right - - /a/{x}/c"],
        &[
            ("GET - /a/b/c", "left"),
            ("GET - /a/z/c", "right"),
            ("GET - /a/b/", "left"),
            ("GET - /a/b", "404"),
            ("GET - /a/z/d", "404"),
            ("GET - /a", "404"),
        ],
    );
    check(
        &[
            "literal - - /a/b/d",
            "param - - /a/{x}/c",
            "deep - - /{x}/{y}/{z}/{w}",
            "rest - - /a/*",
        ],
        &[
            ("GET - /a/b/c", "param"),
            ("GET - /a/b/d", "literal"),
            ("GET - /a/b/e", "rest"),
            // To the left, `a` beats `{x}`; that the other matches longer is nothing.
            ("GET - /a/b/c/d", "rest"),
            ("GET - /q/b/c/d", "deep"),
        ],
    );
}

#[test]
fn a_star_takes_what_lies_below_and_the_slash() {
    check(
        &["below - - /orders/*"],
        &[
            ("GET - /orders", "404"),
            ("GET - /orders/", "below"),
            ("GET - /orders//", "below"),
            ("GET - /orders/7", "below"),
            ("GET - /orders/7/", "below"),
            ("GET - /orders/7/8/9", "below"),
            ("GET - /", "404"),
        ],
    );
    check(
        &["all - - /*"],
        &[
            ("GET - /", "all"),
            ("GET - /a", "all"),
            ("GET - /a/", "all"),
        ],
    );
    check(
        &["root - - /"],
        &[
            ("GET - /", "root"),
            ("GET - //", "root"),
            ("GET - /a", "404"),
        ],
    );
    check(
        &["root - - /", "all - - /*"],
        &[
            ("GET - /", "root"),
            ("GET - /a/..", "root"),
            ("GET - /a", "all"),
        ],
    );
    check(
        &["one - - /{id}"],
        &[
            ("GET - /", "404"),
            ("GET - /a", "one"),
            ("GET - /a/b", "404"),
        ],
    );
}

#[test]
fn a_trailing_slash_is_no_way_around_a_limit() {
    check(
        &["all - - /*", "orders - - /orders", "order - - /orders/{id}"],
        &[
            ("GET - /orders/", "orders"),
            ("GET - /orders/;x", "orders"),
            ("GET - /orders/.", "orders"),
            ("GET - /orders/7/", "order"),
            ("GET - /orders/7/..", "orders"),
            ("GET - /orders/7/8/", "all"),
        ],
    );
    check(
        &[
            "orders - - /orders",
            "below - - /{x}/*",
            "deep - - /orders/7/*",
            "order - - /orders/{id}",
        ],
        &[
            // The literal segment wins over `{x}`, whatever follows.
            ("GET - /orders/", "orders"),
            ("GET - /others/", "below"),
            ("GET - /others", "404"),
            ("GET - /orders/7", "order"),
            ("GET - /orders/7/", "deep"),
            ("GET - /orders/8/", "order"),
        ],
    );
    // A `/*` route that does not admit the method does not want the slash either.
    check(
        &["orders - - /orders", "below POST - /orders/*"],
        &[("GET - /orders/", "orders"), ("POST - /orders/", "below")],
    );
    // The host comes first.
    check(
        &["orders - a.example /orders", "below - - /orders/*"],
        &[
            ("GET a.example /orders/", "orders"),
            ("GET b.example /orders/", "below"),
        ],
    );
}

#[test]
fn no_spelling_reaches_another_route() {
    let spellings = [
        "/orders",
        "//orders",
        "/orders/",
        "/orders//",
        "/./orders",
        "/x/../orders",
        "/%6frders",
        "/%6Frders",
        "/orders;v=1",
        "/orders;",
        "/orders/.",
        "/orders/x/..",
        "/x;y/%2e%2e/orders",
    ];
    let built = build(&["all - - /*", "orders - - /orders"]).unwrap();
    for path in spellings {
        assert_eq!(ask(&built, &format!("GET - {path}")), "orders", "{path}");
    }
    check(
        &[
            "all - - /*",
            "batch - - /orders:batch",
            "cafe - - /caf\u{e9}/{x}",
            "star - - /a%2ab",
        ],
        &[
            ("GET - /orders:batch", "batch"),
            ("GET - /orders%3abatch", "batch"),
            ("GET - /caf%c3%a9/1", "cafe"),
            ("GET - /caf\u{e9}/1", "cafe"),
            ("GET - /a*b", "star"),
            ("GET - /a%2Ab", "star"),
            ("GET - /axb", "all"),
        ],
    );
}

#[test]
fn a_route_counts_only_with_its_method() {
    check(
        &[
            "special POST - /orders/special",
            "order GET,DELETE - /orders/{id}",
            "below PUT - /orders/*",
            "purge PURGE - /orders/special",
        ],
        &[
            ("POST - /orders/special", "special"),
            ("GET - /orders/special", "order"),
            ("HEAD - /orders/special", "order"),
            ("PUT - /orders/special", "below"),
            ("PURGE - /orders/special", "purge"),
            (
                "PATCH - /orders/special",
                "405 DELETE, GET, HEAD, POST, PURGE, PUT",
            ),
            ("POST - /orders/7", "405 DELETE, GET, HEAD, PUT"),
            ("POST - /orders/7/8", "405 PUT"),
            ("get - /orders/7", "405 DELETE, GET, HEAD, PUT"),
            ("PUT - /orders", "404"),
        ],
    );
    check(
        &["read GET - /orders", "write POST - /orders"],
        &[
            ("GET - /orders", "read"),
            ("HEAD - /orders", "read"),
            ("POST - /orders/", "write"),
            ("OPTIONS - /orders/", "405 GET, HEAD, POST"),
        ],
    );
    check(
        &["head HEAD - /a"],
        &[("HEAD - /a", "head"), ("GET - /a", "405 HEAD")],
    );
}

#[test]
fn the_more_specific_host_wins() {
    check(
        &[
            "exact - api.example.com /a",
            "near - *.api.example.com /a",
            "far - *.example.com /*",
            "none - - /{x}",
            "six - [2001:DB8::1] /a",
        ],
        &[
            ("GET api.example.com /a", "exact"),
            ("GET API.Example.COM /a", "exact"),
            ("GET api.example.com:8080 /a", "exact"),
            ("GET api.example.com. /a", "exact"),
            ("GET Api.Example.com.:443 /a", "exact"),
            ("GET api.example.com: /a", "exact"),
            // The exact host has no such path; a route counts only if all of it matches.
            ("GET api.example.com /b", "far"),
            ("GET x.api.example.com /a", "near"),
            ("GET x.y.api.example.com:1 /a", "near"),
            ("GET x.api.example.com /b", "far"),
            ("GET x.y.EXAMPLE.com /a", "far"),
            // Not below itself, and not a mere ending.
            ("GET example.com /a", "none"),
            ("GET .example.com /a", "none"),
            ("GET xexample.com /a", "none"),
            ("GET example.com.evil.org /a", "none"),
            ("GET - /a", "none"),
            ("GET : /a", "none"),
            ("GET [2001:db8::1]:8080 /a", "six"),
            ("GET [2001:db8::1] /a", "six"),
            ("GET [2001:db8::1 /a", "none"),
            ("GET example.com /a/b", "404"),
        ],
    );
    check(
        &[
            "exact GET api.example.com /a",
            "wild POST *.example.com /*",
            "none PUT - /{x}",
        ],
        &[
            ("GET api.example.com /a", "exact"),
            ("POST api.example.com /a", "wild"),
            ("PUT api.example.com /a", "none"),
            ("PATCH api.example.com /a", "405 GET, HEAD, POST, PUT"),
            ("PATCH x.example.com /a", "405 POST, PUT"),
            ("PATCH - /a", "405 PUT"),
        ],
    );
}

#[test]
fn an_overlong_host_is_any_host() {
    let long = format!("{}.example.com", "a.".repeat(20_000));
    check(
        &["wild - *.example.com /a", "none - - /a"],
        &[
            (&format!("GET {long} /a"), "none"),
            (&format!("GET {}.example.com /a", "a".repeat(241)), "wild"),
            (&format!("GET {}.example.com /a", "a".repeat(242)), "none"),
        ],
    );
}

#[test]
fn no_routes_match_nothing() {
    check(&[], &[("GET - /", "404"), ("GET a.example /a", "404")]);
}
