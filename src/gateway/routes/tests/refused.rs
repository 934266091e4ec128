//! Routes that are an error.

use super::*;
use crate::gateway::routes::{HostError, PatternError};

#[test]
fn routes_that_match_the_same_requests_are_an_error() {
    for (routes, requests) in [
        (["one - - /a", "two - - /a"], "/a"),
        (["one - - /a/{x}", "two - - /a/{y}"], "/a/{y}"),
        (["one - - /a/*", "two - - /a/*"], "/a/*"),
        (["one - - /*", "two GET - /*"], "GET /*"),
        (["one GET - /a", "two - - /a"], "GET /a"),
        (["one POST,GET - /a", "two PUT,GET - /a"], "GET /a"),
        (["one GET - /a", "two HEAD - /a"], "HEAD /a"),
        (["one HEAD - /a", "two GET - /a"], "HEAD /a"),
        (["one - - /a:b", "two - - /%61%3ab"], "/%61%3ab"),
        (
            ["one - A.example /a", "two - a.example. /a"],
            "a.example./a",
        ),
        (
            ["one - *.a.example /a", "two - *.A.example /a"],
            "*.A.example/a",
        ),
    ] {
        let error = build(&routes).unwrap_err();
        let (first, second) = ("one".to_owned(), "two".to_owned());
        let requests = requests.to_owned();
        assert_eq!(
            error,
            RouteError::Conflict {
                first,
                second,
                requests
            },
            "{routes:?}"
        );
    }
    for routes in [
        ["one GET - /a", "two POST - /a"],
        ["one - - /a", "two - - /a/*"],
        ["one - - /a/{x}", "two - - /a/*"],
        ["one - - /a/{x}", "two - - /{x}/a"],
        ["one - a.example /a", "two - *.a.example /a"],
        ["one - a.example /a", "two - - /a"],
        ["one GET,HEAD,GET - /a", "two POST - /a"],
    ] {
        assert!(build(&routes).is_ok(), "{routes:?}");
    }
    let error = build(&["one GET - /a", "two GET - /a"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "routes one and two match the same requests, GET /a"
    );
}

#[test]
fn paths_that_no_request_has_are_an_error() {
    use PatternError::*;
    use path::PathError;

    for (path, want) in [
        ("", NotAbsolute),
        ("orders", NotAbsolute),
        ("*", NotAbsolute),
        ("{id}", NotAbsolute),
        ("/orders/", TrailingSlash),
        ("/{id}/", TrailingSlash),
        ("//", TrailingSlash),
        ("//a", EmptySegment),
        ("/a//b", EmptySegment),
        ("//*", EmptySegment),
        ("/a//*", EmptySegment),
        ("/a/./b", DotSegment),
        ("/a/../b", DotSegment),
        ("/a/%2E%2e/b", DotSegment),
        ("/a*", Wildcard),
        ("/*/a", Wildcard),
        ("/a/**", Wildcard),
        ("/a/*b", Wildcard),
        ("/{}", Braces),
        ("/{id", Braces),
        ("/id}", Braces),
        ("/{id}.json", Braces),
        ("/v{id}", Braces),
        ("/{a}{b}", Braces),
        ("/{{id}}", Braces),
        ("/{*rest}", Braces),
        ("/a;b", Parameters),
        ("/a?b", Query),
        ("/a#b", Query),
        ("/a b", Refused(PathError::Forbidden(b' '))),
        ("/a\\b", Refused(PathError::Backslash)),
        ("/a%2Fb", Refused(PathError::Encoded("slash (%2F)"))),
        ("/100%", Refused(PathError::BadPercent)),
    ] {
        let spec = RouteSpec {
            id: "one",
            methods: &[],
            host: None,
            path,
        };
        let error = Router::build([spec]).unwrap_err();
        let (id, path) = ("one".to_owned(), path.to_owned());
        assert_eq!(
            error,
            RouteError::Path {
                id,
                path,
                why: want
            }
        );
    }
    let spec = RouteSpec {
        id: "one",
        methods: &[],
        host: None,
        path: "/v{id}",
    };
    assert_eq!(
        Router::build([spec]).unwrap_err().to_string(),
        "route one: path \"/v{id}\": may have braces only around a whole segment, as in /orders/{id}, where the \
         name is of letters, digits, - and _"
    );
}

#[test]
fn hosts_that_no_request_has_are_an_error() {
    for (host, want) in [
        ("", HostError::Empty),
        ("*", HostError::Empty),
        ("*.", HostError::Empty),
        (".", HostError::Empty),
        ("a.*", HostError::Wildcard),
        ("*a.example", HostError::Wildcard),
        ("*.*.example", HostError::Wildcard),
        ("a.example:8080", HostError::Port),
        ("*.example:80", HostError::Port),
        ("[::1]:80", HostError::Port),
        ("::1", HostError::NotAName),
        ("[::1", HostError::NotAName),
        ("[example]", HostError::NotAName),
        (".example", HostError::NotAName),
        ("a..example", HostError::NotAName),
        ("a.example..", HostError::NotAName),
        ("b\u{fc}cher.example", HostError::NotAName),
        ("http://a.example", HostError::NotAName),
        ("a b", HostError::NotAName),
        (&"a".repeat(254), HostError::NotAName),
    ] {
        let spec = RouteSpec {
            id: "one",
            methods: &[],
            host: Some(host),
            path: "/",
        };
        let error = Router::build([spec]).unwrap_err();
        let (id, host) = ("one".to_owned(), host.to_owned());
        assert_eq!(
            error,
            RouteError::Host {
                id,
                host,
                why: want
            }
        );
    }
}
