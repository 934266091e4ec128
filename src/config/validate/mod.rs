//! From the file's shape to a configuration, or to everything that is wrong with it.
//!
//! Each part takes its section, notes every problem it finds and goes on with a stand-in value, so that one run of
//! `aforo check` names all mistakes. Nothing here opens a connection; names of upstream servers are resolved.
//! Keys whose feature does not exist yet are refused by `unsupported`, not here.

mod limits;
mod listeners;
mod path;
mod routes;
mod sections;
mod store;
mod upstreams;

use std::time::Duration;

use super::error::{Problem, Problems};
use super::model::Config;
use super::raw;
use super::units::Time;
use super::unsupported;

/// The only version of the file's format.
const VERSION: u32 = 1;

/// The longest name of a route, an upstream or a tenant. It is the width of the rule table's columns.
const LONGEST_NAME: usize = 64;

/// Checks a file and fills in what it leaves out.
pub(super) fn validate(file: raw::File) -> Result<Config, Vec<Problem>> {
    let mut found = Problems::default();
    let problems = &mut found;
    unsupported::refuse(&file, problems);
    if file.version != VERSION {
        problems.add(
            "version",
            format!("must be {VERSION}, not {}", file.version),
        );
    }
    let server = sections::server(file.server.unwrap_or_default(), problems);
    let listeners = listeners::listeners(file.listeners.unwrap_or_default(), problems);
    let admin = sections::admin(file.admin.unwrap_or_default(), &listeners, problems);
    let log = sections::log(file.log.unwrap_or_default());
    let timeouts = sections::timeouts(&file.timeouts.unwrap_or_default(), problems);
    let tenant = sections::tenant(file.tenant.unwrap_or_default(), problems);
    let upstreams = upstreams::upstreams(file.upstreams.unwrap_or_default(), problems);
    let routes = routes::routes(file.routes.unwrap_or_default(), &upstreams, problems);
    let limits = limits::limits(file.limits.unwrap_or_default(), &routes, problems);
    let shared = file.store.is_some();
    let store = file.store.map(|store| store::store(store, problems));
    let rules = file.rules.map(|rules| store::rules(rules, problems));
    let cluster = store::cluster(file.cluster, shared, problems);
    let region = file
        .region
        .map(|region| store::region(region, rules.is_some(), problems));
    let problems = found.into_vec();
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        version: file.version,
        server,
        listeners: listeners.into_iter().flatten().collect(),
        admin,
        log,
        timeouts,
        trusted_proxies: file.trusted_proxies.unwrap_or_default(),
        tenant,
        upstreams,
        routes,
        limits,
        store,
        rules,
        cluster,
        region,
    })
}

/// A duration that must be more than zero, or its default.
fn positive(
    time: Option<Time>,
    default: Duration,
    path: &str,
    problems: &mut Problems,
) -> Duration {
    match time {
        None => default,
        Some(Time(time)) => {
            if time.is_zero() {
                problems.add(path, "must be more than 0s");
            }
            time
        }
    }
}

/// Why a text is no name of a route, an upstream or a tenant; None: it is one.
fn bad_name(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("must not be empty".to_owned())
    } else if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some(format!(
            "`{name}` may hold visible ASCII characters only, and no space"
        ))
    } else if name.len() > LONGEST_NAME {
        Some(format!(
            "`{name}` has {} characters, at most {LONGEST_NAME} are allowed",
            name.len()
        ))
    } else {
        None
    }
}

/// Names from a list, for a message that says what would be right. Long lists are cut.
fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let names: Vec<&str> = names.collect();
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = names.len().saturating_sub(SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "there is none".to_owned(),
        (false, 0) => format!("there is {}", shown.join(", ")),
        (false, more) => format!("there is {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
