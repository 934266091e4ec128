//! What each proxy costs: a closed loop of 64 connections against one after the other, in rounds,
//! so that what changes on the machine meanwhile meets all of them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Scale;
use super::machine::Machine;
use super::peers::{Kind, Limit, OnFailure, Programs, Proxy, Setup};
use super::process::free_address;
use super::server::Redis;
use super::wrk::{self, Load};

/// A limit that is never met, and lets a gateway hold as many tokens as it ever does.
const AMPLE: Limit = Limit {
    capacity: 2_000_000,
    refill: 1_000_000,
};
/// One that nearly every request of a closed loop is over.
const TIGHT: Limit = Limit {
    capacity: 100,
    refill: 100,
};
/// How long each proxy runs before it is measured.
const WARM_UP: u32 = 1;

/// Who asks for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// One tenant, below its limit.
    Hot,
    /// 10,000 tenants in turn, below theirs.
    Keys,
    /// One tenant, far over its limit.
    Limited,
    /// One tenant, below its limit, and no Redis.
    Away,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub kind: Kind,
    pub case: Case,
    pub name: &'static str,
    /// The same on a plot; empty: not there.
    pub short: &'static str,
}

const fn subject(kind: Kind, case: Case, name: &'static str, short: &'static str) -> Subject {
    Subject {
        kind,
        case,
        name,
        short,
    }
}

/// In the order of the table.
pub const SUBJECTS: [Subject; 16] = [
    subject(
        Kind::Bare,
        Case::Hot,
        "Pingora, passing on only",
        "bare Pingora",
    ),
    subject(Kind::Aforo, Case::Hot, "Aforo, one hot key", "Aforo"),
    subject(Kind::Aforo, Case::Keys, "Aforo, 10,000 keys", ""),
    subject(
        Kind::Aforo,
        Case::Limited,
        "Aforo, a client over its limit",
        "",
    ),
    subject(
        Kind::Aforo,
        Case::Away,
        "Aforo, one hot key, Redis away",
        "",
    ),
    subject(
        Kind::AforoMemory,
        Case::Hot,
        "Aforo, buckets in the process",
        "Aforo, memory",
    ),
    subject(
        Kind::NginxLua,
        Case::Hot,
        "nginx + Lua + Redis, one hot key",
        "nginx + Lua",
    ),
    subject(
        Kind::NginxLua,
        Case::Keys,
        "nginx + Lua + Redis, 10,000 keys",
        "",
    ),
    subject(
        Kind::NginxLua,
        Case::Limited,
        "nginx + Lua + Redis, a client over its limit",
        "",
    ),
    subject(
        Kind::EnvoyLocal,
        Case::Hot,
        "Envoy, local rate limit",
        "Envoy, local",
    ),
    subject(
        Kind::EnvoyHeaders,
        Case::Hot,
        "Envoy, local rate limit, with request ids and rate headers",
        "",
    ),
    subject(
        Kind::HaProxyStick,
        Case::Hot,
        "HAProxy, stick-table",
        "HAProxy, table",
    ),
    subject(
        Kind::NginxLimitReq,
        Case::Hot,
        "nginx, limit_req",
        "nginx, limit_req",
    ),
    subject(Kind::Envoy, Case::Hot, "Envoy, passing on only", ""),
    subject(Kind::HaProxy, Case::Hot, "HAProxy, passing on only", ""),
    subject(Kind::Nginx, Case::Hot, "nginx, passing on only", ""),
];

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub load: Load,
    /// CPU time of the proxy for one request, in µs.
    pub cpu: f64,
    /// The part of its core that the proxy used.
    pub busy: f64,
    /// Calls of scripts for one request.
    pub redis_calls: f64,
    pub memory_mib: f64,
    /// Of Aforo with Redis: the share of decisions that Redis had no part in, for it was late.
    pub by_itself: Option<f64>,
}

/// All measurements of one subject.
pub struct Row {
    pub subject: Subject,
    pub samples: Vec<Sample>,
}

impl Row {
    /// The median of all rounds; of an even number the lower one of the two.
    pub fn median(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        let mut values: Vec<f64> = self.samples.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len().saturating_sub(1) / 2;
        values.get(middle).copied().unwrap_or(f64::NAN)
    }

    /// In the worst round, the share of decisions that Redis had no part in, for it was late.
    pub fn late(&self) -> f64 {
        let shares = self.samples.iter().filter_map(|sample| sample.by_itself);
        shares.fold(0.0, f64::max)
    }
}

/// Measures all that is installed.
pub fn run(machine: &Machine, programs: &Programs, scale: Scale) -> Result<Vec<Row>, String> {
    let subjects = SUBJECTS.into_iter();
    let mut rows: Vec<Row> = subjects
        .filter(|subject| programs.has(subject.kind))
        .map(|subject| Row {
            subject,
            samples: Vec::new(),
        })
        .collect();
    let (origin, _running, _folder) = programs.origin(machine)?;
    let redis = Redis::start(machine)?;
    for round in 1..=scale.rounds {
        for row in &mut rows {
            let subject = row.subject;
            let sample = measure(machine, programs, subject, origin, &redis, scale.seconds)
                .map_err(|error| format!("{}: {error}", subject.name))?;
            eprintln!(
                "round {round}: {}: {:.0} requests/s, {:.1} µs",
                subject.name,
                sample.load.requests as f64 / sample.load.seconds,
                sample.cpu
            );
            row.samples.push(sample);
        }
    }
    Ok(rows)
}

fn measure(
    machine: &Machine,
    programs: &Programs,
    subject: Subject,
    origin: SocketAddr,
    redis: &Redis,
    seconds: u32,
) -> Result<Sample, String> {
    redis.clear()?;
    let setup = Setup {
        origin,
        redis: match subject.case {
            Case::Away => free_address(),
            _ => redis.address,
        },
        limit: match subject.case {
            Case::Limited => TIGHT,
            _ => AMPLE,
        },
        instances: 1,
        on_failure: OnFailure {
            timeout: 1000,
            open: false,
        },
    };
    let keys = match subject.case {
        Case::Keys => 10_000,
        _ => 1,
    };
    let proxy = programs.start(machine, subject.kind, &setup)?;
    wrk::run(&machine.others, proxy.address, WARM_UP, keys)?;
    let decided = decisions(subject.kind, &proxy);
    let (calls, ticks) = (redis.calls()?, proxy.process.ticks());
    let load = wrk::run(&machine.others, proxy.address, seconds, keys)?;
    let (calls, ticks) = (redis.calls()? - calls, proxy.process.ticks() - ticks);
    check(subject, &load)?;
    let requests = load.requests as f64;
    let cpu = ticks as f64 / machine.hertz;
    Ok(Sample {
        load,
        cpu: cpu * 1e6 / requests,
        busy: cpu / load.seconds,
        redis_calls: calls as f64 / requests,
        memory_mib: proxy.process.memory_kib() as f64 / 1024.0,
        by_itself: decided
            .zip(decisions(subject.kind, &proxy))
            .filter(|_| subject.case != Case::Away)
            .map(|(before, after)| share("fallback", &before, &after)),
    })
}

/// A proxy that answers with errors is fast; that is no measurement.
fn check(subject: Subject, load: &Load) -> Result<(), String> {
    let wanted = match subject.case {
        Case::Limited => load.refused * 10 > load.requests * 9,
        _ => load.refused == 0,
    };
    if load.requests == 0 || load.broken > 0 || !wanted {
        return Err(format!(
            "of {} requests {} were refused, {} broken: that is not what was to be measured",
            load.requests, load.refused, load.broken
        ));
    }
    Ok(())
}

/// Decisions so far by what they came from.
fn decisions(kind: Kind, proxy: &Proxy) -> Option<BTreeMap<String, f64>> {
    if kind != Kind::Aforo {
        return None;
    }
    let text = metrics(proxy.admin).ok()?;
    let count = |line: &str| {
        let rest = line.strip_prefix("aforo_decisions_total{source=\"")?;
        let (source, count) = rest.split_once("\"} ")?;
        Some((source.to_owned(), count.parse().ok()?))
    };
    Some(text.lines().filter_map(count).collect())
}

fn share(source: &str, before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> f64 {
    let sum = |counts: &BTreeMap<String, f64>| counts.values().sum::<f64>();
    let of = |counts: &BTreeMap<String, f64>| counts.get(source).copied().unwrap_or(0.0);
    (of(after) - of(before)) / (sum(after) - sum(before)).max(1.0)
}

fn metrics(admin: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
