//! The routes: each alone, and that no two of them match the same requests.

use std::collections::{BTreeMap, HashMap};

use super::path::{self, bad_path};
use super::{bad_name, one_of};
use crate::config::error::Problems;
use crate::config::model::{Route, Upstream};
use crate::config::raw;

/// What the metrics call requests that no route matched.
const NO_ROUTE: &str = "none";

pub(super) fn routes(
    raw: Vec<raw::Route>,
    upstreams: &BTreeMap<String, Upstream>,
    problems: &mut Problems,
) -> Vec<Route> {
    if raw.is_empty() {
        problems.add(
            "routes",
            "at least one is needed, such as `- { id: default, path: /*, upstream: NAME }`",
        );
    }
    let routes: Vec<Route> = raw
        .into_iter()
        .enumerate()
        .map(|(index, raw)| route(raw, &format!("routes[{index}]"), upstreams, problems))
        .collect();
    unique_ids(&routes, problems);
    unambiguous(&routes, problems);
    routes
}

fn route(
    raw: raw::Route,
    path: &str,
    upstreams: &BTreeMap<String, Upstream>,
    problems: &mut Problems,
) -> Route {
    let id_path = format!("{path}.id");
    if let Some(why) = bad_name(&raw.id) {
        problems.add(id_path, why);
    } else if raw.id.contains('*') {
        problems.add(
            id_path,
            format!(
                "`{}` must not hold `*`, which stands for all routes in rules",
                raw.id
            ),
        );
    } else if raw.id == NO_ROUTE {
        problems.add(
            id_path,
            format!(
                "`{NO_ROUTE}` is what metrics call requests that no route matched, choose another"
            ),
        );
    }
    let mut methods = Vec::new();
    for (index, text) in raw.methods.unwrap_or_default().iter().enumerate() {
        match method(text) {
            Ok(method) => methods.push(method),
            Err(why) => problems.add(format!("{path}.methods[{index}]"), why),
        }
    }
    let host = raw.host.and_then(|text| {
        path::host(&text)
            .map_err(|why| problems.add(format!("{path}.host"), why))
            .ok()
    });
    if let Some(why) = bad_path(&raw.path) {
        problems.add(format!("{path}.path"), why);
    }
    if !upstreams.contains_key(&raw.upstream) {
        problems.add(
            format!("{path}.upstream"),
            format!(
                "no upstream is called `{}`, {}",
                raw.upstream,
                one_of(upstreams.keys().map(String::as_str))
            ),
        );
    }
    if raw.cost == Some(0) {
        problems.add(format!("{path}.cost"), "must be at least 1, not 0");
    }
    Route {
        id: raw.id,
        methods,
        host,
        path: raw.path,
        upstream: raw.upstream,
        cost: raw.cost.unwrap_or(1),
    }
}

fn method(text: &str) -> Result<http::Method, String> {
    match http::Method::from_bytes(text.as_bytes()) {
        // Methods are compared with their case, and no client sends `get`.
        Ok(method) if method.as_str().bytes().any(|b| b.is_ascii_lowercase()) => Err(format!(
            "`{text}` is not in upper case, write {}",
            text.to_ascii_uppercase()
        )),
        Ok(method) => Ok(method),
        Err(_) => Err(format!(
            "`{text}` is no method, expected one such as GET or POST"
        )),
    }
}

fn unique_ids(routes: &[Route], problems: &mut Problems) {
    let mut seen = HashMap::new();
    for (index, route) in routes.iter().enumerate() {
        match seen.get(route.id.as_str()) {
            Some(first) => problems.add(
                format!("routes[{index}].id"),
                format!(
                    "`{}` is already the id of routes[{first}], each route needs its own",
                    route.id
                ),
            ),
            None => {
                seen.insert(route.id.as_str(), index);
            }
        }
    }
}

/// Whether methods of a route admit this one: GET brings HEAD with it.
fn admits(methods: &[http::Method], method: &http::Method) -> bool {
    methods.contains(method)
        || *method == http::Method::HEAD && methods.contains(&http::Method::GET)
}

fn unambiguous(routes: &[Route], problems: &mut Problems) {
    let mut same_place: HashMap<(Option<&str>, String), Vec<usize>> = HashMap::new();
    for (index, route) in routes.iter().enumerate() {
        let place = (route.host.as_deref(), path::shape(&route.path));
        let others = same_place.entry(place).or_default();
        let clash = others.iter().find(|other| {
            let other = &routes[**other].methods;
            other.is_empty()
                || route.methods.is_empty()
                || route.methods.iter().any(|method| admits(other, method))
                || other.iter().any(|method| admits(&route.methods, method))
        });
        if let Some(other) = clash {
            problems.add(
                format!("routes[{index}]"),
                format!(
                    "matches the same requests as routes[{other}] (`{}`), give them different paths, hosts or methods",
                    routes[*other].id
                ),
            );
        }
        others.push(index);
    }
}
