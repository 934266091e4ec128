//! What the record of a run says.

use std::time::Duration;

use aforo::limit::Source;
use aforo::limit::breaker::State;
use tokio::time::Instant;

use crate::fleet::{Flow, Record, Sample, Transition};

/// From when to when the fault was there.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub began: Instant,
    pub ended: Instant,
}

/// The most that was let through beyond `C + r·T` in any window, in requests.
pub fn worst_excess(flow: &Flow, samples: &[Sample]) -> f64 {
    let Some(first) = samples.first() else {
        return 0.0;
    };
    let mut least = f64::INFINITY;
    let mut worst = 0.0_f64;
    let mut count = 0.0;
    for sample in samples.iter().filter(|sample| sample.allowed) {
        let time = (sample.asked + sample.waited).saturating_duration_since(first.asked);
        let by_right = flow.refill * time.as_secs_f64();
        least = least.min(count - by_right);
        count += 1.0;
        worst = worst.max(count - by_right - least - f64::from(flow.capacity));
    }
    worst
}

/// The share of the samples that were allowed, from the fault's beginning to its end.
pub fn served(samples: &[Sample], fault: Fault) -> f64 {
    let within = |sample: &&Sample| sample.asked >= fault.began && sample.asked < fault.ended;
    let asked = samples.iter().filter(within).count();
    let allowed = samples.iter().filter(within).filter(|s| s.allowed).count();
    allowed as f64 / asked.max(1) as f64
}

/// Counts, waits and times of one run, as cells of a table.
pub fn row(name: &str, records: &[Record], transitions: &[Transition], fault: Fault) -> String {
    let all: Vec<&Sample> = records.iter().flat_map(|(_, samples)| samples).collect();
    let by = |source, allowed| {
        all.iter()
            .filter(|s| s.source == source && s.allowed == allowed)
            .count()
    };
    let (p999, longest) = waits(all.iter().copied());
    let (_, while_open) = waits(all.iter().copied().filter(|sample| sample.open));
    let excess = records
        .iter()
        .filter(|(flow, _)| flow.tenant.starts_with("hungry"))
        .map(|(flow, samples)| {
            let excess = worst_excess(flow, samples);
            let percent = 100.0 * excess / f64::from(flow.capacity);
            format!("{}: {percent:.1} %", limit(flow))
        });
    let calm = records
        .iter()
        .filter(|(flow, _)| !flow.tenant.starts_with("hungry"))
        .map(|(flow, samples)| {
            let rejected = samples.iter().filter(|sample| !sample.allowed).count();
            let where_to = if flow.one_gateway { " (1 conn)" } else { "" };
            let served = 100.0 * served(samples, fault);
            let (limit, of) = (limit(flow), samples.len());
            format!("{limit}{where_to}: {rejected}/{of}, {served:.1} %")
        });
    format!(
        "| {name} | {}/{} | {}/{} | {p999:.1} / {longest:.1} | {while_open:.2} | {} | {} | {} | {} |",
        by(Source::Store, true),
        by(Source::Store, false),
        by(Source::Fallback, true),
        by(Source::Fallback, false),
        excess.collect::<Vec<_>>().join("; "),
        calm.collect::<Vec<_>>().join("; "),
        opened(transitions, fault),
        closed(transitions, fault),
    )
}

/// The head of the table of [`row`]s.
pub const HEAD: &str = "\
| fault | by Redis: passed/rejected | by the share: passed/rejected | wait p99.9 / longest, ms | longest wait, breaker open, ms | worst excess, % of C | under the limit: rejected/all, served during the fault | opened after, ms | closed after, ms |
|---|---|---|---|---|---|---|---|---|";

fn limit(flow: &Flow) -> String {
    format!("{}/{}", flow.capacity, flow.refill)
}

/// p99.9 and the maximum, in ms.
fn waits<'s>(samples: impl Iterator<Item = &'s Sample>) -> (f64, f64) {
    let mut waits: Vec<Duration> = samples.map(|sample| sample.waited).collect();
    waits.sort_unstable();
    let at = |part: f64| {
        let place = ((waits.len() as f64 * part) as usize).min(waits.len().saturating_sub(1));
        waits
            .get(place)
            .map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
    };
    (at(0.999), at(1.0))
}

/// Of each gateway the first opening, from the fault's beginning: first to last of them.
fn opened(transitions: &[Transition], fault: Fault) -> String {
    let of = |gateway| {
        let mine = |t: &&Transition| t.gateway == gateway && t.state == State::Open;
        let first = transitions.iter().find(mine)?;
        Some(first.at.saturating_duration_since(fault.began))
    };
    range(transitions, of)
}

/// Of each gateway the last closing, from the fault's end.
fn closed(transitions: &[Transition], fault: Fault) -> String {
    let of = |gateway| {
        let mine = |t: &&Transition| t.gateway == gateway && t.state == State::Closed;
        let last = transitions.iter().rev().find(mine)?;
        Some(last.at.saturating_duration_since(fault.ended))
    };
    range(transitions, of)
}

fn range(transitions: &[Transition], of: impl Fn(usize) -> Option<Duration>) -> String {
    let gateways = transitions.iter().map(|t| t.gateway).max();
    let times: Vec<u128> = (0..=gateways.unwrap_or(0))
        .filter_map(of)
        .map(|time| time.as_millis())
        .collect();
    match (times.iter().min(), times.iter().max()) {
        (Some(first), Some(last)) => format!("{first}–{last}"),
        _ => "–".to_owned(),
    }
}
