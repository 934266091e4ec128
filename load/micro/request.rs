//! What a request needs besides its decision: its route, its rule, and the headers of its response.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use aforo::config::Headers;
use aforo::gateway::headers::RateHeaders;
use aforo::gateway::routes::{Match, RouteSpec, Router};
use aforo::limit::{Decision, Rule, Source};
use aforo::rules::{Layer, RuleSet};
use criterion::Criterion;
use http::Method;
use pingora::http::ResponseHeader;

use crate::decisions::{next, on_cpu};

/// The group.
pub const REQUEST: &str = "request";

const TENANTS: usize = 100_000;
const ROUTES: [&str; 3] = ["r", "s", "t"];

/// What is asked and done once a request.
pub fn request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(REQUEST);

    let names: Vec<String> = (0..TENANTS).map(|n| format!("tenant-{n}")).collect();
    let rules = rules(&names);
    for (name, tenants) in [
        ("rule among 300,000, one tenant", &names[..1]),
        ("rule among 300,000, each tenant in turn", &names[..]),
    ] {
        let mut at = 0;
        let mut find = || {
            at = next(at, tenants.len());
            *rules.find(black_box(&tenants[at]), "s", 1)
        };
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| on_cpu(times, &mut find));
        });
    }

    // An API as they are: fifty things, each with a list of them and a thing by its name.
    let paths: Vec<(String, String)> = (0..50)
        .flat_map(|n| [format!("/v1/thing{n}"), format!("/v1/thing{n}/{{id}}")])
        .enumerate()
        .map(|(n, path)| (format!("route-{n}"), path))
        .collect();
    let methods = [Method::GET, Method::POST];
    for (name, host) in [
        ("route among 100", None),
        ("route among 100, by host too", Some("api.example.com")),
    ] {
        let specs = paths.iter().map(|(id, path)| RouteSpec {
            id,
            methods: &methods,
            host,
            path,
        });
        let router = Router::build(specs).unwrap();
        let find = |path| router.find(&Method::POST, Some("api.example.com:8080"), path);
        assert_eq!(find("/v1/thing37/17"), Match::Route(75));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| on_cpu(times, || find(black_box("/v1/thing37/17"))));
        });
    }

    let decision = |allowed, level| Decision {
        allowed,
        rule: Rule::new(200, 100.0).unwrap(),
        level,
        retry_after: (!allowed).then_some(Duration::from_millis(7)),
        source: Source::Lease,
    };
    let mut response = ResponseHeader::build(200, Some(16)).unwrap();
    response
        .insert_header("Content-Type", "text/plain")
        .unwrap();
    response.insert_header("Content-Length", "12").unwrap();
    for (name, decision) in [
        ("rate headers, both families", decision(true, 137.25)),
        ("rate headers, rejected", decision(false, 0.25)),
    ] {
        let mut write = || {
            let decision = black_box(&decision);
            let headers = RateHeaders::of(decision, !decision.allowed);
            headers.write(&Headers::default(), &mut response).unwrap();
        };
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| on_cpu(times, &mut write));
        });
    }
    group.finish();
}

fn rules(tenants: &[String]) -> RuleSet {
    let rule = Rule::new(10, 1.0).unwrap();
    let layer: Layer = tenants
        .iter()
        .flat_map(|name| ROUTES.map(|route| (name.as_str(), route, rule)))
        .collect();
    let mut set = RuleSet::new(rule, Layer::default());
    set.database = Arc::new(layer);
    set
}
