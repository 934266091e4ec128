//! The router against its rules once more, as slow and as plain as they can be: look at every route,
//! and take the closest.

use http::Method;
use proptest::prelude::*;

use crate::gateway::routes::{Match, RouteSpec, Router};

type Route = (Vec<Method>, Option<String>, String);

fn admits(route: &Route, method: &Method) -> bool {
    let (methods, ..) = route;
    methods.is_empty()
        || methods.contains(method)
        || (*method == Method::HEAD && methods.contains(&Method::GET))
}

/// How closely host and path of a route match, the smallest being the closest.
fn rank(route: &Route, host: Option<&str>, path: &str) -> Option<(usize, Vec<u8>)> {
    let (_, pattern_host, pattern) = route;
    let host = host.map(|host| host.to_lowercase());
    let host_rank = match (pattern_host.as_deref(), host.as_deref()) {
        (None, _) => 2000,
        (Some(_), None) => return None,
        (Some(pattern), Some(host)) => match pattern.strip_prefix('*') {
            None if host == pattern => 0,
            // The longer the suffix, the smaller.
            Some(suffix) if host.len() > suffix.len() && host.ends_with(suffix) => {
                1000 - suffix.len()
            }
            _ => return None,
        },
    };
    let pattern: Vec<&str> = pattern.split('/').skip(1).collect();
    let path: Vec<&str> = path.split('/').skip(1).collect();
    let root = path == [""];
    let mut ranks = Vec::new();
    for (at, segment) in pattern.iter().enumerate() {
        let last = at + 1 == path.len();
        match (*segment, path.get(at).copied()) {
            (_, None) => return None,
            // `/x/*` and what ends with the very slash before its star; for `/` itself it is second.
            ("*", Some("")) if last && root => ranks.push(1),
            ("*", Some("")) if last => ranks.push(0),
            ("*", Some(_)) => ranks.push(4),
            ("", Some("")) if root => ranks.push(0),
            (_, Some("")) => return None,
            (segment, Some(_)) if segment.starts_with('{') => ranks.push(3),
            (segment, Some(name)) if segment == name => ranks.push(2),
            _ => return None,
        }
        if *segment == "*" {
            return Some((host_rank, ranks));
        }
    }
    match path[pattern.len()..] {
        [] => Some((host_rank, ranks)),
        // The slash is dropped, but a `/*` would have wanted it.
        [""] => {
            ranks.push(1);
            Some((host_rank, ranks))
        }
        _ => None,
    }
}

fn find(routes: &[Route], method: &Method, host: Option<&str>, path: &str) -> Match {
    let matching = || {
        let ranked = routes.iter().enumerate();
        ranked.filter_map(|(at, route)| Some((rank(route, host, path)?, at, route)))
    };
    if let Some((_, at, _)) = matching().filter(|(.., route)| admits(route, method)).min() {
        return Match::Route(at);
    }
    let all = ["DELETE", "GET", "HEAD", "POST"];
    let allow: Vec<&str> = all
        .into_iter()
        .filter(|name| matching().any(|(.., route)| admits(route, &name.parse().unwrap())))
        .collect();
    match allow.as_slice() {
        [] => Match::NotFound,
        _ => Match::MethodNotAllowed {
            allow: allow.join(", "),
        },
    }
}

/// Whether two routes match the same requests.
fn clash(one: &Route, two: &Route) -> bool {
    let shape = |route: &Route| {
        let segments = route.2.split('/');
        let segments: Vec<String> = segments
            .map(|segment| {
                if segment.starts_with('{') {
                    "{}".to_owned()
                } else {
                    segment.to_owned()
                }
            })
            .collect();
        segments
    };
    let all = ["DELETE", "GET", "HEAD", "POST"].map(|name| name.parse::<Method>().unwrap());
    one.1 == two.1
        && shape(one) == shape(two)
        && all
            .iter()
            .any(|method| admits(one, method) && admits(two, method))
}

fn methods() -> impl Strategy<Value = Vec<Method>> {
    let method = prop::sample::select(vec![
        Method::GET,
        Method::POST,
        Method::HEAD,
        Method::DELETE,
    ]);
    prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(method, 1..3)]
}

fn a_route() -> impl Strategy<Value = Route> {
    let host = prop::sample::select(vec![
        None,
        None,
        None,
        Some("e.x"),
        Some("a.e.x"),
        Some("*.x"),
        Some("*.e.x"),
        Some("*.a.e.x"),
    ]);
    let segment = prop::sample::select(vec!["a", "a", "b", "c", "{p}", "{q}"]);
    let pattern = (
        prop::collection::vec(segment, 0..4),
        prop::bool::weighted(0.4),
    )
        .prop_map(|(segments, rest)| match (segments.join("/"), rest) {
            (path, true) if path.is_empty() => "/*".to_owned(),
            (path, true) => format!("/{path}/*"),
            (path, false) => format!("/{path}"),
        });
    (
        methods(),
        host.prop_map(|host| host.map(str::to_owned)),
        pattern,
    )
}

fn a_request() -> impl Strategy<Value = (Method, Option<&'static str>, String)> {
    let method = prop::sample::select(vec![
        Method::GET,
        Method::POST,
        Method::HEAD,
        Method::DELETE,
        Method::PUT,
    ]);
    let host = prop::sample::select(vec![
        None,
        Some("x"),
        Some("e.x"),
        Some("A.e.x"),
        Some("b.e.x"),
        Some("b.a.e.X"),
    ]);
    let segment = prop::sample::select(vec!["a", "a", "b", "c", "d"]);
    let path =
        (prop::collection::vec(segment, 0..5), any::<bool>()).prop_map(|(segments, slash)| {
            let path = format!("/{}", segments.join("/"));
            if slash && path != "/" {
                path + "/"
            } else {
                path
            }
        });
    (method, host, path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_router_finds_what_a_scan_of_all_routes_finds(
        routes in prop::collection::vec(a_route(), 0..16),
        requests in prop::collection::vec(a_request(), 1..16),
    ) {
        // Keep those that do not clash with one before, and see that the router thinks so too.
        let mut kept: Vec<Route> = Vec::new();
        let specs = |routes: &[Route]| {
            let specs: Vec<_> = routes.to_vec();
            Router::build(specs.iter().map(|(methods, host, path)| RouteSpec {
                id: path,
                methods,
                host: host.as_deref(),
                path,
            }))
        };
        for route in routes {
            let clashes = kept.iter().any(|other| clash(other, &route));
            kept.push(route);
            prop_assert_eq!(specs(&kept).is_err(), clashes, "{:?}", kept);
            if clashes {
                kept.pop();
            }
        }
        let router = specs(&kept).unwrap();
        for (method, host, path) in requests {
            let found = router.find(&method, host, &path);
            let want = find(&kept, &method, host, &path);
            prop_assert_eq!(found, want, "{} {:?} {} of {:?}", method, host, path, kept);
        }
    }
}
