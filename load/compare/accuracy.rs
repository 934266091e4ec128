//! Two proxies, one limit: what is let through of three times as much as it allows.
//!
//! For proxies that count for themselves there are two ways to set the limit: all of it at each
//! proxy, which is too much together, or half of it, which is too little where the clients' load
//! is not spread evenly.

use std::time::Duration;

use super::Scale;
use super::client::{self, Answer, Flow};
use super::machine::Machine;
use super::peers::{Kind, Limit, OnFailure, Programs, Setup};
use super::server::Redis;

/// The limit that the two are to hold together.
pub const LIMIT: Limit = Limit {
    capacity: 1000,
    refill: 500,
};
/// Requests a second at both together.
pub const DEMAND: f64 = 3.0 * LIMIT.refill as f64;
const TENANT: &str = "shop-a";

/// What each of the two is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// They count in one Redis.
    Together,
    /// Each counts for itself, up to the whole limit.
    Whole,
    /// Each counts for itself, up to half of it.
    Half,
}

/// One kind with one share.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub kind: Kind,
    pub share: Share,
    pub name: &'static str,
    /// The same on a plot.
    pub short: &'static str,
}

const fn pair(kind: Kind, share: Share, name: &'static str, short: &'static str) -> Pair {
    Pair {
        kind,
        share,
        name,
        short,
    }
}

/// In the order of the table.
const PAIRS: [Pair; 8] = [
    pair(Kind::Aforo, Share::Together, "Aforo", "Aforo"),
    pair(
        Kind::NginxLua,
        Share::Together,
        "nginx + Lua + Redis",
        "nginx + Lua",
    ),
    pair(
        Kind::EnvoyLocal,
        Share::Whole,
        "Envoy, the whole limit at each",
        "Envoy 1/1",
    ),
    pair(
        Kind::EnvoyLocal,
        Share::Half,
        "Envoy, half of it at each",
        "Envoy 1/2",
    ),
    pair(
        Kind::HaProxyStick,
        Share::Whole,
        "HAProxy, the whole limit at each",
        "HAProxy 1/1",
    ),
    pair(
        Kind::HaProxyStick,
        Share::Half,
        "HAProxy, half of it at each",
        "HAProxy 1/2",
    ),
    pair(
        Kind::NginxLimitReq,
        Share::Whole,
        "nginx limit_req, the whole limit at each",
        "nginx 1/1",
    ),
    pair(
        Kind::NginxLimitReq,
        Share::Half,
        "nginx limit_req, half of it at each",
        "nginx 1/2",
    ),
];

/// What was let through.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub admitted: usize,
    /// What the whole limit allows.
    pub by_right: f64,
    /// Neither let through nor rejected.
    pub other: usize,
}

impl Outcome {
    /// What was let through of what had to be, in percent.
    pub fn percent(&self) -> f64 {
        100.0 * self.admitted as f64 / self.by_right
    }
}

/// A kind with its two loads.
pub struct Row {
    pub pair: Pair,
    /// The same number of requests at each proxy.
    pub even: Outcome,
    /// Nine of ten at one of them.
    pub skewed: Outcome,
}

/// Overruns the limit at all that is installed.
pub fn run(machine: &Machine, programs: &Programs, scale: Scale) -> Result<Vec<Row>, String> {
    let runtime = runtime()?;
    let (origin, _running, _folder) = programs.origin(machine)?;
    let redis = Redis::start(machine)?;
    let mut rows = Vec::new();
    for pair in PAIRS.into_iter().filter(|pair| programs.has(pair.kind)) {
        let parts = match pair.share {
            Share::Half => 2,
            Share::Together | Share::Whole => 1,
        };
        let setup = Setup {
            origin,
            redis: redis.address,
            limit: Limit {
                capacity: LIMIT.capacity / parts,
                refill: LIMIT.refill / parts,
            },
            instances: 2,
            on_failure: OnFailure {
                timeout: 1000,
                open: false,
            },
        };
        let overrun = |first: f64| {
            redis.clear()?;
            let proxies = [(); 2].map(|()| programs.start(machine, pair.kind, &setup));
            let [one, two] = proxies;
            let (one, two) = (one?, two?);
            let flow = |proxy, part: f64| Flow {
                tenant: TENANT,
                proxy,
                rate: DEMAND * part,
            };
            let flows = [flow(one.address, first), flow(two.address, 1.0 - first)];
            let answers = runtime.block_on(client::send(&flows, scale.accuracy));
            Ok(judge(&answers, by_right(pair.kind, scale.accuracy)))
        };
        let failed = |error: String| format!("{}: {error}", pair.name);
        let row = Row {
            pair,
            even: overrun(0.5).map_err(failed)?,
            skewed: overrun(0.9).map_err(failed)?,
        };
        eprintln!(
            "accuracy: {}: {:.1} % evenly, {:.1} % at 90/10",
            pair.name,
            row.even.percent(),
            row.skewed.percent()
        );
        rows.push(row);
    }
    Ok(rows)
}

/// What the limit allows in a time: `C + r·T`; where it is a sliding window, `r·T` at least, for
/// times that are longer than the window.
fn by_right(kind: Kind, time: Duration) -> f64 {
    let flow = f64::from(LIMIT.refill) * time.as_secs_f64();
    match kind {
        Kind::HaProxyStick => flow,
        _ => f64::from(LIMIT.capacity) + flow,
    }
}

fn judge(answers: &[Answer], by_right: f64) -> Outcome {
    let with = |wanted: u16| answers.iter().filter(|a| a.status == wanted).count();
    let (admitted, rejected) = (with(200), with(429));
    Outcome {
        admitted,
        by_right,
        other: answers.len() - admitted - rejected,
    }
}

/// What the client of an open loop runs in.
pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("a runtime for the client: {error}"))
}
