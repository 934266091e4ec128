//! The limits: every number, and that each rule can ever admit a request of the routes that it decides.

use std::collections::{HashMap, HashSet};

use super::{bad_name, one_of};
use crate::config::error::Problems;
use crate::config::model::{Headers, Limits, Route, Rule, RuleLimits};
use crate::config::raw::{self, HeaderFamily, Number};

/// What stands for every tenant and every route.
const ANY: &str = "*";

/// PostgreSQL's largest `int`: the file takes what the rule table can hold.
const LARGEST_CAPACITY: u32 = 2_147_483_647;

const SLOWEST_REFILL: f64 = 1e-9;
const FASTEST_REFILL: f64 = 1e9;

pub(super) fn limits(raw: raw::Limits, routes: &[Route], problems: &mut Problems) -> Limits {
    let default = Limits::default();
    let default_rule = match raw.default_rule {
        None => Some(default.default_rule),
        Some(rule) => numbers(
            rule.capacity,
            rule.refill_per_second,
            "limits.default_rule",
            "",
            problems,
        ),
    };
    let rules: Vec<(Rule, bool)> = raw
        .rules
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(index, raw)| rule(raw, &format!("limits.rules[{index}]"), routes, problems))
        .collect();
    let first = unique(&rules, problems);
    for (index, (rule, _)) in rules.iter().enumerate().filter(|(_, (_, sound))| *sound) {
        let whom = whom(&rule.tenant, &rule.route);
        let path = format!("limits.rules[{index}].capacity");
        let decides = |route: &Route| {
            let own = rule.route == route.id;
            let all = rule.route == ANY && !first.contains(&(rule.tenant.as_str(), &route.id));
            own || all
        };
        enough(
            rule.limits,
            routes.iter().filter(|r| decides(r)),
            &path,
            &whom,
            problems,
        );
    }
    if let Some(limits) = default_rule {
        let left = routes
            .iter()
            .filter(|route| !first.contains(&(ANY, &route.id)));
        enough(limits, left, "limits.default_rule.capacity", "", problems);
    }
    if raw.max_local_buckets == Some(0) {
        problems.add("limits.max_local_buckets", "must be at least 1, not 0");
    }
    Limits {
        default_rule: default_rule.unwrap_or_default(),
        rules: rules.into_iter().map(|(rule, _)| rule).collect(),
        headers: raw
            .headers
            .map_or(default.headers, |families| headers(&families, problems)),
        mode: raw.mode.unwrap_or_default(),
        prefetch_batch: raw
            .prefetch
            .map_or(default.prefetch_batch, |prefetch| prefetch.batch),
        max_local_buckets: raw.max_local_buckets.unwrap_or(default.max_local_buckets),
    }
}

/// One rule, and whether its numbers are sound.
fn rule(raw: raw::Rule, path: &str, routes: &[Route], problems: &mut Problems) -> (Rule, bool) {
    if let Some(why) = bad_name(&raw.tenant) {
        problems.add(format!("{path}.tenant"), why);
    }
    if raw.route == ANY {
        if raw.tenant == ANY {
            problems.add(
                path,
                "for every tenant on every route there is limits.default_rule, write it there",
            );
        }
    } else if !routes.iter().any(|route| route.id == raw.route) {
        problems.add(
            format!("{path}.route"),
            format!(
                "no route has the id `{}`, {}; `*` is every route",
                raw.route,
                one_of(routes.iter().map(|route| route.id.as_str()))
            ),
        );
    }
    let whom = whom(&raw.tenant, &raw.route);
    let limits = numbers(raw.capacity, raw.refill_per_second, path, &whom, problems);
    if raw.shards == Some(0) {
        problems.add(format!("{path}.shards"), "must be at least 1, not 0");
    }
    if raw.concurrency == Some(0) {
        problems.add(format!("{path}.concurrency"), "must be at least 1, not 0");
    }
    let rule = Rule {
        tenant: raw.tenant,
        route: raw.route,
        limits: limits.unwrap_or_default(),
        shadow: raw.shadow.unwrap_or_default(),
        shards: raw.shards.unwrap_or(1),
        on_store_failure: raw.on_store_failure.unwrap_or_default(),
        concurrency: raw.concurrency,
    };
    (rule, limits.is_some())
}

/// Names a rule in a message: its index alone is hard to find in a long file.
fn whom(tenant: &str, route: &str) -> String {
    format!("of tenant `{tenant}` on route `{route}` ")
}

fn numbers(
    capacity: Number,
    refill: Number,
    path: &str,
    whom: &str,
    problems: &mut Problems,
) -> Option<RuleLimits> {
    let whole = match capacity {
        Number::Whole(number) => u32::try_from(number)
            .ok()
            .filter(|number| (1..=LARGEST_CAPACITY).contains(number)),
        Number::Null | Number::Float(_) => None,
    };
    if whole.is_none() {
        problems.add(
            format!("{path}.capacity"),
            format!("{whom}must be a whole number from 1 to {LARGEST_CAPACITY}, not {capacity}"),
        );
    }
    let real = match refill {
        // Beyond 2^53 the nearest float will do: the bound lies far below.
        Number::Whole(number) => Some(number as f64),
        Number::Float(number) => Some(number),
        Number::Null => None,
    };
    let real = real.filter(|number| (SLOWEST_REFILL..=FASTEST_REFILL).contains(number));
    if real.is_none() {
        problems.add(
            format!("{path}.refill_per_second"),
            format!("{whom}must be a number from 1e-9 to 1e9, not {refill}"),
        );
    }
    Some(RuleLimits {
        capacity: whole?,
        refill_per_second: real?,
    })
}

/// Notes rules for a tenant and route that have one already; gives all pairs that have a rule.
fn unique<'a>(
    rules: &'a [(Rule, bool)],
    problems: &mut Problems,
) -> HashSet<(&'a str, &'a String)> {
    let mut seen: HashMap<(&str, &String), usize> = HashMap::new();
    for (index, (rule, _)) in rules.iter().enumerate() {
        let pair = (rule.tenant.as_str(), &rule.route);
        match seen.get(&pair) {
            Some(first) => problems.add(
                format!("limits.rules[{index}]"),
                format!(
                    "tenant `{}` on route `{}` already has limits.rules[{first}], keep one of them",
                    rule.tenant, rule.route
                ),
            ),
            None => {
                seen.insert(pair, index);
            }
        }
    }
    seen.into_keys().collect()
}

/// Notes a bucket that can never hold what one request of its route costs: it would reject everything for ever.
fn enough<'a>(
    limits: RuleLimits,
    decides: impl Iterator<Item = &'a Route>,
    path: &str,
    whom: &str,
    problems: &mut Problems,
) {
    let costly = decides
        .filter(|route| route.cost > limits.capacity)
        .max_by_key(|route| route.cost);
    if let Some(route) = costly {
        problems.add(
            path,
            format!(
                "{whom}is {}, less than the cost {} of one request on route `{}`, so that it would admit none; \
                 it must be at least {}",
                limits.capacity, route.cost, route.id, route.cost
            ),
        );
    }
}

fn headers(families: &[HeaderFamily], problems: &mut Problems) -> Headers {
    for (index, family) in families.iter().enumerate() {
        if families[..index].contains(family) {
            problems.add(
                format!("limits.headers[{index}]"),
                "is here twice, each family is named once",
            );
        }
    }
    Headers {
        x_ratelimit: families.contains(&HeaderFamily::XRateLimit),
        draft: families.contains(&HeaderFamily::Draft),
    }
}
