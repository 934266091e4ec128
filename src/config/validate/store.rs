//! What lies outside this process: the store, the database of rules, the other gateways, the other regions.
//!
//! No message here quotes a URL, for it may hold a password.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use super::{bad_name, positive};
use crate::config::error::Problems;
use crate::config::model::{
    Breaker, Cluster, Instances, Postgres, Redis, Region, RulesSource, Store,
};
use crate::config::raw::{self, Number};
use crate::store::redis::access::{Access, TlsFiles};
use crate::store::redis::url::Place;

const TIMEOUT: Duration = Duration::from_millis(5);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
const IN_FLIGHT: usize = 256;
const REFRESH: Duration = Duration::from_secs(30);
const REBALANCE: Duration = Duration::from_secs(120);
const SHORTEST_REBALANCE: Duration = Duration::from_millis(200);
const LONGEST_REBALANCE: Duration = Duration::from_secs(3_600);
/// What a region holds at least, whatever the others need.
const SMALLEST_SHARE: f64 = crate::limit::rule::SMALLEST_SHARE;

pub(super) fn store(raw: raw::Store, problems: &mut Problems) -> Store {
    let raw = raw.redis;
    let (address, tls) = redis_place(raw.url.expose(), raw.tls, problems);
    let timeout = raw.timeout.map_or(TIMEOUT, |time| time.0);
    if !(SHORTEST_TIMEOUT..=LONGEST_TIMEOUT).contains(&timeout) {
        problems.add(
            "store.redis.timeout",
            format!(
                "must be from 1ms to 60s, not {}",
                crate::config::units::format_duration(timeout)
            ),
        );
    }
    if raw.in_flight == Some(0) {
        problems.add("store.redis.in_flight", "must be at least 1, not 0");
    }
    let default = Breaker::default();
    let breaker = raw.breaker.map_or_else(Breaker::default, |breaker| {
        if breaker.failures == Some(0) {
            problems.add("store.redis.breaker.failures", "must be at least 1, not 0");
        }
        let path = "store.redis.breaker.probe";
        Breaker {
            failures: breaker.failures.unwrap_or(default.failures),
            probe: positive(breaker.probe, default.probe, path, problems),
        }
    });
    Store {
        redis: Redis {
            url: raw.url,
            address,
            tls,
            timeout,
            in_flight: raw.in_flight.unwrap_or(IN_FLIGHT),
            breaker,
        },
    }
}

/// Checks a URL of Redis and the certificates for it, and says where it leads.
fn redis_place(
    url: &str,
    raw: Option<raw::RedisTls>,
    problems: &mut Problems,
) -> (String, TlsFiles) {
    const TLS: &str = "store.redis.tls";
    let written = raw.is_some();
    let raw = raw.unwrap_or_default();
    if raw.cert.is_some() != raw.key.is_some() {
        let missing = if raw.key.is_some() { "cert" } else { "key" };
        problems.add(
            format!("{TLS}.{missing}"),
            "is missing: a certificate and its key belong together",
        );
    }
    let files = TlsFiles {
        ca: raw.ca,
        client: raw.cert.zip(raw.key),
    };
    let place = match Place::parse(url) {
        Ok(place) => place,
        Err(problem) => {
            problems.add("store.redis.url", problem.to_string());
            return (String::new(), files);
        }
    };
    if written && !place.tls {
        problems.add(
            TLS,
            "belongs to a URL with TLS: rediss://, rediss+cluster:// or rediss+sentinel://",
        );
    } else if let Err(error) = Access::new(&place, &files) {
        problems.add(TLS, error.to_string());
    }
    (place.to_string(), files)
}

pub(super) fn rules(raw: raw::Rules, problems: &mut Problems) -> RulesSource {
    let raw = raw.postgres;
    RulesSource {
        postgres: Postgres {
            address: postgres_address(raw.url.expose(), problems),
            url: raw.url,
            refresh: positive(raw.refresh, REFRESH, "rules.postgres.refresh", problems),
            snapshot: raw.snapshot,
        },
    }
}

/// What a URL of PostgreSQL may say behind its `?`. `sqlx` writes a key that it does not know into
/// the log together with its value, which may be a misspelt secret: here it is an error.
const POSTGRES_PARAMETERS: [&str; 12] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

/// Checks a URL of PostgreSQL and says where it leads, without its password.
fn postgres_address(url: &str, problems: &mut Problems) -> String {
    const PATH: &str = "rules.postgres.url";
    const FORM: &str = "postgres://host:port/database (user:password@ before the host, ?sslmode=verify-full and the like at the end)";
    if !["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        problems.add(PATH, format!("is no URL of PostgreSQL, expected {FORM}"));
        return String::new();
    }
    let (_, query) = url.split_once('?').unwrap_or((url, ""));
    let unknown = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .any(|pair| {
            let (key, _) = pair.split_once('=').unwrap_or((pair, ""));
            !POSTGRES_PARAMETERS.contains(&key)
        });
    if unknown {
        problems.add(
            PATH,
            format!(
                "has a parameter that is not known, there is {} (a `?` in a password is written %3F)",
                POSTGRES_PARAMETERS.join(", ")
            ),
        );
        return String::new();
    }
    match url.parse::<PgConnectOptions>() {
        Ok(options) => {
            let database = options.get_database().unwrap_or(options.get_username());
            let user = options.get_username();
            match options.get_socket() {
                Some(socket) => format!("{}, {database} as {user}", socket.display()),
                None => format!(
                    "{}:{}/{database} as {user}",
                    options.get_host(),
                    options.get_port()
                ),
            }
        }
        Err(_) => {
            problems.add(
                PATH,
                format!(
                    "cannot be read, expected {FORM}; special characters of a password are written percent-encoded"
                ),
            );
            String::new()
        }
    }
}

pub(super) fn cluster(
    raw: Option<raw::Cluster>,
    shared: bool,
    problems: &mut Problems,
) -> Option<Cluster> {
    let Some(raw) = raw else {
        if shared {
            problems.add(
                "cluster.instances",
                "is required with store.redis: the number of gateways that share this Redis, 1 or more",
            );
        }
        return None;
    };
    let instances = match raw.instances {
        raw::Instances::Fixed(number) => {
            if raw.at_least.is_some() {
                problems.add(
                    "cluster.at_least",
                    "belongs to `instances: auto`, leave it out beside a number",
                );
            }
            let whole = match number {
                Number::Whole(number) => u32::try_from(number).ok().filter(|n| *n > 0),
                Number::Null | Number::Float(_) => None,
            };
            if whole.is_none() {
                problems.add(
                    "cluster.instances",
                    format!("must be a whole number of gateways, 1 or more, not {number}"),
                );
            }
            Instances::Fixed(whole.unwrap_or(1))
        }
        raw::Instances::Auto => {
            match raw.at_least {
                None => problems.add(
                    "cluster.at_least",
                    "is required with `instances: auto`: what the count never falls below, 1 or more",
                ),
                Some(0) => problems.add("cluster.at_least", "must be at least 1, not 0"),
                Some(_) => {}
            }
            Instances::Auto {
                at_least: raw.at_least.unwrap_or(1),
            }
        }
    };
    Some(Cluster { instances })
}

/// `database`: whether there is one, where regions find each other.
pub(super) fn region(raw: raw::Region, database: bool, problems: &mut Problems) -> Region {
    if let Some(wrong) = bad_name(&raw.name) {
        problems.add("region.name", wrong);
    }
    let share = match raw.share {
        Number::Whole(1) => Some(1.0),
        Number::Float(share) if (SMALLEST_SHARE..=1.0).contains(&share) => Some(share),
        _ => None,
    };
    if share.is_none() {
        problems.add(
            "region.share",
            format!(
                "must be from {SMALLEST_SHARE} to 1, not {}; those of all regions sum to 1",
                raw.share
            ),
        );
    }
    let rebalance = raw.rebalance.map(|time| time.0);
    if rebalance.is_some() && !database {
        problems.add(
            "region.rebalance",
            "needs rules.postgres, where regions tell each other their demand; without it, leave it out: shares stay as they are",
        );
    }
    let rebalance = rebalance.unwrap_or(REBALANCE);
    if !(SHORTEST_REBALANCE..=LONGEST_REBALANCE).contains(&rebalance) {
        problems.add(
            "region.rebalance",
            format!(
                "must be from 200ms to 1h, not {}",
                crate::config::units::format_duration(rebalance)
            ),
        );
    }
    Region {
        name: raw.name,
        share: share.unwrap_or(1.0),
        rebalance,
    }
}
