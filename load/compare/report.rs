//! What was measured, as a page of markdown.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::cost::{self, Case, Sample};
use super::fault::{self, Tenant};
use super::machine::Machine;
use super::peers::{Kind, Programs};
use super::{Scale, accuracy, pictures};

/// All that one run gave. What was not asked for is empty.
pub struct Results {
    pub cost: Vec<cost::Row>,
    pub accuracy: Vec<accuracy::Row>,
    pub fault: Vec<fault::Row>,
    pub took: Duration,
    pub scale: Scale,
    machine: String,
    proxy_core: String,
    other_cores: String,
    versions: Vec<String>,
    skipped: Vec<String>,
}

impl Results {
    pub fn new(machine: &Machine, programs: &Programs, scale: Scale) -> Self {
        Self {
            cost: Vec::new(),
            accuracy: Vec::new(),
            fault: Vec::new(),
            took: Duration::ZERO,
            scale,
            machine: machine.description.clone(),
            proxy_core: machine.proxy.clone(),
            other_cores: machine.others.clone(),
            versions: programs.versions(),
            skipped: programs.skipped(),
        }
    }
}

/// Writes `results.md` and the plots beside it.
pub fn write(results: &Results, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut page = String::new();
    head(&mut page, results)?;
    if !results.cost.is_empty() {
        cost(&mut page, results)?;
    }
    if !results.accuracy.is_empty() {
        accuracy(&mut page, results)?;
    }
    if !results.fault.is_empty() {
        fault(&mut page, results)?;
    }
    std::fs::write(folder.join("results.md"), page)?;
    pictures::draw(results, folder)
}

fn head(page: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(
        page,
        "<!-- Written by `make compare`; what it says is explained in docs/compare.md. -->\n"
    )?;
    writeln!(page, "# Side by side\n")?;
    writeln!(
        page,
        "{}. Proxies on core {}, client, upstream and Redis on core {}. {}. The run took {} minutes.",
        results.machine,
        results.proxy_core,
        results.other_cores,
        results.versions.join(", "),
        results.took.as_secs().div_ceil(60),
    )?;
    for skipped in &results.skipped {
        writeln!(page, "\nNot measured: {skipped}.")?;
    }
    Ok(())
}

fn cost(page: &mut String, results: &Results) -> std::fmt::Result {
    let scale = results.scale;
    writeln!(page, "\n## What each costs\n")?;
    writeln!(
        page,
        "64 connections that ask as fast as they are answered, a tiny response. Medians of {} alternating rounds of {} s; \
         in parentheses the lowest and the highest round.\n",
        scale.rounds, scale.seconds
    )?;
    writeln!(
        page,
        "| proxy | requests/s | CPU per request, µs | core busy | p50, ms | p99, ms | p99.9, ms | Redis calls per request | memory, MiB |\n\
         |---|---|---|---|---|---|---|---|---|"
    )?;
    for row in &results.cost {
        let spread = |value: &dyn Fn(&Sample) -> f64, decimals| spread(row, value, decimals);
        writeln!(
            page,
            "| {} | {} | {} | {:.0} % | {} | {} | {} | {} | {:.0} |",
            row.subject.name,
            spread(&rate, 0),
            spread(&|sample| sample.cpu, 1),
            100.0 * row.median(|sample| sample.busy),
            spread(&|sample| sample.load.p50, 2),
            spread(&|sample| sample.load.p99, 2),
            spread(&|sample| sample.load.p999, 2),
            calls(row),
            row.median(|sample| sample.memory_mib),
        )?;
    }
    goals(page, results)
}

/// What is to be reached, and was or was not.
fn goals(page: &mut String, results: &Results) -> std::fmt::Result {
    let find = |kind: Kind, case: Case| {
        let mut rows = results.cost.iter();
        rows.find(|row| row.subject.kind == kind && row.subject.case == case)
    };
    let Some(aforo) = find(Kind::Aforo, Case::Hot) else {
        return Ok(());
    };
    let ratio = |other: &cost::Row, value: &dyn Fn(&Sample) -> f64| {
        aforo.median(value) / other.median(value)
    };
    let mut lines = Vec::new();
    if let Some(lua) = find(Kind::NginxLua, Case::Hot) {
        let requests = ratio(lua, &rate);
        lines.push(format!(
            "| requests/s against nginx + Lua + Redis | at least 1.05 × | {requests:.2} × |"
        ));
        let fewer = lua.median(|s| s.redis_calls) / aforo.median(|s| s.redis_calls).max(1e-9);
        // Where Redis was too late to be asked, few calls are no merit.
        let late = match aforo.late() {
            few if few < 0.01 => String::new(),
            late => format!(", no measure: see {:.0} % above", 100.0 * late),
        };
        lines.push(format!(
            "| its Redis calls per request | at most 1/40 | 1/{fewer:.1}{late} |"
        ));
    }
    if let Some(envoy) = find(Kind::EnvoyLocal, Case::Hot) {
        let requests = ratio(envoy, &rate);
        lines.push(format!(
            "| requests/s against Envoy's local limit | at least 1.5 × | {requests:.2} × |"
        ));
    }
    if let Some(envoy) = find(Kind::EnvoyHeaders, Case::Hot) {
        let requests = ratio(envoy, &rate);
        lines.push(format!(
            "| the same, of an Envoy that sends such headers too | | {requests:.2} × |"
        ));
    }
    if let Some(bare) = find(Kind::Bare, Case::Hot) {
        let cpu = ratio(bare, &|sample| sample.cpu);
        lines.push(format!(
            "| CPU per request against Pingora that only passes on | at most 1.10 × | {cpu:.2} × |"
        ));
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        page,
        "\nAforo on a hot key:\n\n| | to reach | measured |\n|---|---|---|\n{}",
        lines.join("\n")
    )
}

fn accuracy(page: &mut String, results: &Results) -> std::fmt::Result {
    let limit = accuracy::LIMIT;
    let seconds = results.scale.accuracy.as_secs();
    writeln!(page, "\n## Two proxies, one limit\n")?;
    writeln!(
        page,
        "A capacity of {} and {} a second for both together, {} requests a second for {seconds} s. Let through, of C + r·T = {} \
         (HAProxy, whose limit is a sliding window: of r·T = {}):\n",
        limit.capacity,
        limit.refill,
        accuracy::DEMAND,
        u64::from(limit.capacity) + u64::from(limit.refill) * seconds,
        u64::from(limit.refill) * seconds,
    )?;
    writeln!(
        page,
        "| two of | evenly loaded | one with nine tenths of the load |\n|---|---|---|"
    )?;
    let cell = |outcome: &accuracy::Outcome| {
        let other = match outcome.other {
            0 => String::new(),
            other => format!(", {other} neither passed nor rejected"),
        };
        format!("{:.1} % ({}){other}", outcome.percent(), outcome.admitted)
    };
    for row in &results.accuracy {
        let (even, skewed) = (cell(&row.even), cell(&row.skewed));
        writeln!(page, "| {} | {even} | {skewed} |", row.pair.name)?;
    }
    Ok(())
}

fn fault(page: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(page, "\n## Redis frozen\n")?;
    writeln!(
        page,
        "Two proxies, {} s of a Redis that neither answers nor closes its connections. One client asks for three times its \
         limit of {}/{}, one for three fifths of the same. Answers to what was asked meanwhile; the excess is the most let \
         through beyond C + r·T in any window of the whole run.\n",
        results.scale.frozen.as_secs(),
        accuracy::LIMIT.capacity,
        accuracy::LIMIT.refill,
    )?;
    writeln!(
        page,
        "| two of | over the limit: answers | excess, % of C | under it: answers | longest wait, ms |\n|---|---|---|---|---|"
    )?;
    for row in &results.fault {
        let longest = row.hungry.longest.max(row.modest.longest);
        writeln!(
            page,
            "| {} | {} | {:.1} | {} | {:.1} |",
            row.subject.name,
            statuses(&row.hungry),
            100.0 * row.hungry.excess / f64::from(accuracy::LIMIT.capacity),
            statuses(&row.modest),
            longest.as_secs_f64() * 1e3,
        )?;
    }
    Ok(())
}

fn statuses(tenant: &Tenant) -> String {
    let each = tenant.statuses.iter().map(|(status, count)| match status {
        0 => format!("none: {count}"),
        status => format!("{status}: {count}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Requests a second.
pub fn rate(sample: &Sample) -> f64 {
    sample.load.requests as f64 / sample.load.seconds
}

fn spread(row: &cost::Row, value: &dyn Fn(&Sample) -> f64, decimals: usize) -> String {
    let values = row.samples.iter().map(value);
    let (lowest, highest) = values.fold((f64::MAX, f64::MIN), |(lowest, highest), value| {
        (lowest.min(value), highest.max(value))
    });
    let text = |value: f64| match decimals {
        0 => thousands(value),
        _ => format!("{value:.decimals$}"),
    };
    let median = text(row.median(value));
    match row.samples.len() {
        1 => median,
        _ => format!("{median} ({}–{})", text(lowest), text(highest)),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Redis calls for each request, and how many requests Redis was too late for: few calls are then
/// no merit.
fn calls(row: &cost::Row) -> String {
    let calls = match row.median(|sample| sample.redis_calls) {
        none if none < 5e-5 => "0".to_owned(),
        few if few < 0.1 => format!("{few:.4}"),
        many => format!("{many:.2}"),
    };
    match row.late() {
        few if few < 0.0005 => calls,
        late => format!(
            "{calls} (in the worst round {:.1} % decided without Redis, which was late)",
            100.0 * late
        ),
    }
}
