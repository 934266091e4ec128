//! The file's shape: which keys there are, and what kind of value each takes.
//!
//! It accepts every value of the right kind, also a negative capacity, so that `validate` can name all that is wrong
//! at once. A key that is not written is None here: `unsupported` must tell it from one that says the default.
//! No `flatten` and no `untagged` enum: both lose the place of an error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::model::{
    Format, Keys, Level, Mode, Need, OnStoreFailure, Protocol, Secret, TenantInLog, TlsVersion,
};
use super::units::Time;

/// A value that need not be there, but is no `null` where it is: a key without its value is more likely a mistake
/// than a wish for the default. (A section whose keys are all commented out is an empty one: its defaults hold.)
fn written<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A section: strict about its keys, each of which may be left out unless it is marked as required.
macro_rules! section {
    (
        $(#[$about:meta])*
        $name:ident, $expecting:literal, required { $($required:ident: $required_type:ty,)* }
        optional { $($optional:ident: $optional_type:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, expecting = $expecting)]
        pub(super) struct $name {
            $(pub(super) $required: $required_type,)*
            $(
                #[serde(default, deserialize_with = "written")]
                pub(super) $optional: Option<$optional_type>,
            )*
        }
    };
}

section! {
    /// The whole file.
    File, "a mapping of sections (version, listeners, upstreams, routes, ...)",
    required { version: u32, }
    optional {
        server: Server,
        listeners: Vec<Listener>,
        admin: Admin,
        log: Log,
        timeouts: Timeouts,
        trusted_proxies: Vec<String>,
        tenant: Tenant,
        upstreams: BTreeMap<String, Upstream>,
        routes: Vec<Route>,
        limits: Limits,
        store: Store,
        rules: Rules,
        cluster: Cluster,
        region: Region,
    }
}

section! {
    #[derive(Default)]
    Server, "a mapping of server settings",
    required {}
    optional { threads: usize, grace_period: Time, drain_delay: Time, upgrade_sock: PathBuf, }
}

section! {
    Listener, "a mapping with an address",
    required { address: String, }
    optional { tls: Tls, h2c: bool, }
}

section! {
    Tls, "a mapping of cert and key",
    required { cert: PathBuf, key: PathBuf, }
    optional { certificates: Vec<Certificate>, min_version: TlsVersion, client_ca: PathBuf, client_cert: Need, }
}

section! {
    Certificate, "a mapping of cert and key",
    required { cert: PathBuf, key: PathBuf, }
    optional {}
}

section! {
    #[derive(Default)]
    Admin, "a mapping of address and token",
    required {}
    optional { address: String, token: Secret, }
}

section! {
    #[derive(Default)]
    Log, "a mapping of log settings",
    required {}
    optional { level: Level, format: Format, access: bool, tenant: TenantInLog, }
}

section! {
    #[derive(Default)]
    Timeouts, "a mapping of timeouts",
    required {}
    optional { header: Time, idle: Time, body: Time, tls: Time, }
}

section! {
    #[derive(Default)]
    Tenant, "a mapping of tenant settings",
    required {}
    optional { header: String, keys: Keys, forward: String, strip_key: bool, }
}

section! {
    Upstream, "a mapping with servers",
    required {}
    optional {
        servers: Vec<String>,
        connect_timeout: Time,
        read_timeout: Time,
        idle_timeout: Time,
        retries: u32,
        protocol: Protocol,
    }
}

section! {
    Route, "a mapping of id, path, upstream, ...",
    required { id: String, path: String, upstream: String, }
    optional { methods: Vec<String>, host: String, cost: u32, }
}

section! {
    #[derive(Default)]
    Limits, "a mapping of limits",
    required {}
    optional {
        default_rule: DefaultRule,
        rules: Vec<Rule>,
        headers: Vec<HeaderFamily>,
        mode: Mode,
        prefetch: Prefetch,
        max_local_buckets: usize,
    }
}

section! {
    DefaultRule, "a mapping of capacity and refill_per_second",
    required { capacity: Number, refill_per_second: Number, }
    optional {}
}

section! {
    Rule, "a mapping of tenant, route, capacity, refill_per_second, ...",
    required { tenant: String, route: String, capacity: Number, refill_per_second: Number, }
    optional { shadow: bool, shards: u32, on_store_failure: OnStoreFailure, concurrency: u32, }
}

section! {
    Prefetch, "a mapping with batch",
    required { batch: u32, }
    optional {}
}

section! {
    Store, "a mapping with redis",
    required { redis: Redis, }
    optional {}
}

section! {
    Redis, "a mapping with url",
    required { url: Secret, }
    optional { tls: RedisTls, timeout: Time, in_flight: usize, breaker: Breaker, }
}

section! {
    #[derive(Default)]
    RedisTls, "a mapping of ca, cert and key",
    required {}
    optional { ca: PathBuf, cert: PathBuf, key: PathBuf, }
}

section! {
    Breaker, "a mapping of failures and probe",
    required {}
    optional { failures: u32, probe: Time, }
}

section! {
    Rules, "a mapping with postgres",
    required { postgres: Postgres, }
    optional {}
}

section! {
    Postgres, "a mapping with url",
    required { url: Secret, }
    optional { refresh: Time, snapshot: PathBuf, }
}

section! {
    Cluster, "a mapping with instances",
    required { instances: Instances, }
    optional { at_least: u32, }
}

section! {
    Region, "a mapping of name, share and rebalance",
    required { name: String, share: Number, }
    optional { rebalance: Time, }
}

/// One family of response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum HeaderFamily {
    #[serde(rename = "x-ratelimit")]
    XRateLimit,
    #[serde(rename = "draft")]
    Draft,
}

/// Any number, or the absence of one. A capacity of -5, `.nan` or `null` is of the right kind, and its rule is named
/// together with all other mistakes; `"5"` and `five` are no numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Null,
    Whole(i128),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Float(number) if number.is_nan() => f.write_str(".nan"),
            Self::Float(number) if *number == f64::INFINITY => f.write_str(".inf"),
            Self::Float(number) if *number == f64::NEG_INFINITY => f.write_str("-.inf"),
            Self::Float(number) => write!(f, "{number:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_unit<E: Error>(self) -> Result<Number, E> {
        Ok(Number::Null)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
        Ok(Number::Whole(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number::Whole(number.into()))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Number, E> {
        Ok(Number::Whole(number))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Number, E> {
        // Beyond every bound in any case.
        Ok(Number::Whole(i128::try_from(number).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
        Ok(Number::Float(number))
    }
}

/// A number of gateways, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Instances {
    Fixed(Number),
    Auto,
}

impl<'de> Deserialize<'de> for Instances {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InstancesVisitor;

        impl Visitor<'_> for InstancesVisitor {
            type Value = Instances;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of gateways or auto")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Instances, E> {
                match text {
                    "auto" => Ok(Instances::Auto),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_unit<E: Error>(self) -> Result<Instances, E> {
                NumberVisitor.visit_unit().map(Instances::Fixed)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Instances, E> {
                NumberVisitor.visit_i64(number).map(Instances::Fixed)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Instances, E> {
                NumberVisitor.visit_u64(number).map(Instances::Fixed)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Instances, E> {
                NumberVisitor.visit_f64(number).map(Instances::Fixed)
            }
        }

        deserializer.deserialize_any(InstancesVisitor)
    }
}
