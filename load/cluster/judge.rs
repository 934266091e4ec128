//! What the record says.

use std::collections::HashMap;

use crate::fleet::{Outcome, Run, SOURCES};
use crate::kit::{Report, quantile, sorted};
use crate::plot::{self, Axes, Bars, Line, number};
use crate::traffic::{Key, OVER};
use crate::windows::{Admission, worst};

impl Run {
    /// Outcomes after the warming up.
    fn counted(&self) -> impl Iterator<Item = &Outcome> {
        let warm = self.warm.as_nanos() as u64;
        self.outcomes.iter().filter(move |one| one.due >= warm)
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// p50, p99, p99.9 and the longest, in ms.
fn four(sorted: &[f64]) -> Vec<String> {
    [0.5, 0.99, 0.999, 1.0]
        .map(|share| number(quantile(sorted, share)))
        .to_vec()
}

/// How long decisions took.
pub fn latencies(report: &mut Report, runs: &[Run]) {
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for run in runs {
        let of = |value: fn(&Outcome) -> u64| sorted(run.counted().map(|o| ms(value(o))).collect());
        let late = of(|one| one.called);
        let alone = of(|one| one.decided - one.called);
        let whole = of(|one| one.decided);
        for (what, values) in [
            ("due to call (the driver's delay)", &late),
            ("call to decision", &alone),
            ("due to decision", &whole),
        ] {
            if run.name != "driver alone" || values == &late {
                rows.push([vec![run.name.to_owned(), what.to_owned()], four(values)].concat());
            }
        }
        if run.name == "driver alone" {
            curves.push(("driver alone: due to call".to_owned(), late));
        } else {
            curves.push((format!("{}: call to decision", run.name), alone));
            curves.push((format!("{}: due to decision", run.name), whole));
        }
    }
    report.line("\n## Added latency, ms");
    report.table(
        &["traffic", "from … to", "p50", "p99", "p99.9", "longest"],
        &rows,
    );
    let path = report.plot("latency", "Added latency by share of requests");
    let goals = [(2.0, "p99 to reach: 2 ms"), (0.3, "p50 to reach: 0.3 ms")];
    plot::percentiles(&path, "Added latency", &goals, &curves).unwrap();

    let mut rows = Vec::new();
    for run in runs.iter().filter(|run| run.name != "driver alone") {
        let all = run.counted().count() as f64;
        for source in SOURCES {
            let mine = run.counted().filter(|one| one.source == Some(source));
            let took = sorted(mine.map(|one| ms(one.decided - one.called)).collect());
            let share = 100.0 * took.len() as f64 / all;
            let head = vec![
                run.name.to_owned(),
                format!("{source:?}"),
                format!("{share:.2} %"),
            ];
            rows.push([head, four(&took)].concat());
        }
    }
    report.line("Who decided, and how long that took from the call on, ms:");
    report.table(
        &[
            "traffic",
            "decided by",
            "share",
            "p50",
            "p99",
            "p99.9",
            "longest",
        ],
        &rows,
    );
}

/// Calls, CPU and memory.
pub fn costs(report: &mut Report, runs: &[Run]) {
    let mut rows = Vec::new();
    for run in runs {
        let n = run.counted().count() as f64;
        let used = &run.usage;
        let wall = used.wall.as_secs_f64();
        let mib = |bytes: f64| number(bytes / 1_048_576.0);
        rows.push(vec![
            run.name.to_owned(),
            number(n / wall),
            number(used.calls / wall),
            number(used.calls / n),
            number(used.process.as_secs_f64() / wall),
            number(used.process.as_secs_f64() * 1e6 / n),
            number(used.redis.as_secs_f64() / wall),
            format!("{} → {}", mib(run.resident_before), mib(run.resident)),
            format!(
                "{} in {} keys",
                mib(run.redis_memory),
                number(run.redis_keys)
            ),
        ]);
    }
    report.line("\n## What it costs\n");
    report.line(
        "The process is all twenty limiters and the driver with its record of each request; the driver \
         alone sends the same requests and decides none.",
    );
    report.table(
        &[
            "traffic",
            "decisions/s",
            "Redis calls/s",
            "calls a decision",
            "CPU of the process, cores",
            "the same, µs a decision",
            "CPU of Redis, cores",
            "memory of the process, MiB: before → after",
            "memory of Redis, MiB",
        ],
        &rows,
    );
}

/// Requests of one key, as far as they count, in their order.
struct Judged {
    admitted: f64,
    ideal: f64,
    seconds: f64,
    /// Beyond C, in any window.
    beyond: f64,
}

fn by_key(run: &Run) -> HashMap<u32, Vec<&Outcome>> {
    let mut of: HashMap<u32, Vec<&Outcome>> = HashMap::new();
    for (arrival, outcome) in run.traffic.arrivals.iter().zip(&run.outcomes) {
        if run.traffic.keys[arrival.key as usize].over {
            of.entry(arrival.key).or_default().push(outcome);
        }
    }
    of
}

/// Against one bucket that sees all requests at the moments at which they were due. Both begin
/// empty.
fn judge(run: &Run, key: &Key, outcomes: &[&Outcome]) -> Judged {
    let warm = run.warm.as_nanos() as u64;
    let rule = &key.rule;
    let (mut tokens, mut last) = (0.0, 0);
    let mut judged = Judged {
        admitted: 0.0,
        ideal: 0.0,
        seconds: (outcomes
            .last()
            .map_or(0, |one| one.due)
            .saturating_sub(warm)) as f64
            / 1e9,
        beyond: 0.0,
    };
    for one in outcomes {
        let refilled = rule.refill_per_second * (one.due - last) as f64 / 1e9;
        tokens = f64::min(rule.capacity, tokens + refilled);
        last = one.due;
        if tokens >= 1.0 {
            tokens -= 1.0;
            judged.ideal += f64::from(u8::from(one.due >= warm));
        }
        judged.admitted += f64::from(u8::from(one.allowed && one.due >= warm));
    }
    let admissions = outcomes
        .iter()
        .filter(|one| one.allowed)
        .map(|one| Admission {
            asked: one.due + one.called,
            answered: one.due + one.decided,
            cost: 1,
        });
    let record: Vec<Admission> = admissions.collect();
    judged.beyond = worst(&record, rule.refill_per_second).any_window - rule.capacity;
    judged
}

/// Admitted against ideal, for each key that asks for too much.
pub fn errors(report: &mut Report, run: &Run) {
    let by_key = by_key(run);
    let mut rows = Vec::new();
    let mut bars: Vec<Bars> = Vec::new();
    let mut lines = Vec::new();
    for (number_of, key) in run.traffic.keys.iter().enumerate() {
        let outcomes = by_key
            .get(&(number_of as u32))
            .map_or(&[][..], Vec::as_slice);
        let judged = judge(run, key, outcomes);
        let error = 100.0 * (judged.admitted / judged.ideal.max(1.0) - 1.0);
        let limit = format!("{}/{}", key.rule.capacity, key.rule.refill_per_second);
        rows.push(vec![
            limit.clone(),
            key.spread.to_owned(),
            number(judged.admitted / judged.seconds),
            number(judged.ideal / judged.seconds),
            format!("{error:+.2} %"),
            number(judged.beyond.max(0.0)),
            number(key.leased(run.batch)),
        ]);
        match bars.iter_mut().find(|bars| bars.name == limit) {
            Some(bars) => bars.values.push(error),
            None => bars.push(Bars {
                name: limit.clone(),
                values: vec![error],
            }),
        }
        if key.rule.refill_per_second >= 500.0 {
            lines.push(Line {
                name: format!("{limit}, {}", key.spread),
                points: over_time(key, outcomes),
            });
        }
    }
    report.line("\n## Error of the admitted rate under steady overload\n");
    report.line(&format!(
        "Each tenant asks for {OVER} × its limit; its bucket is empty when it begins. Ideal: one bucket that \
         sees all requests. Beyond C: what was surely let through beyond C + r·T in any window, which may be \
         what twenty gateways hold at most. Skewed: the n-th gateway gets 1/n of what the first one gets.",
    ));
    report.table(
        &[
            "limit C/r",
            "at the gateways",
            "admitted/s",
            "ideal/s",
            "error",
            "beyond C, tokens",
            "may be, N·H",
        ],
        &rows,
    );
    let path = report.plot("error", "Error of the admitted rate");
    let goals = [(2.0, "to reach: within ±2 %"), (-2.0, "")];
    let mut axes = Axes::new("Error of the admitted rate under steady overload", "", "%");
    axes.goals = &goals;
    plot::bars(&path, &axes, &["even", "skewed", "one gateway"], &bars).unwrap();
    let path = report.plot("admitted", "Admitted rate over time");
    let mut axes = Axes::new(
        "Admitted at 1.5 × the limit, each second",
        "s",
        "% of the limit",
    );
    let goals = [(100.0, "the limit")];
    axes.goals = &goals;
    plot::lines(&path, &axes, &lines).unwrap();
}

/// Admitted in each whole second, in percent of the refill.
fn over_time(key: &Key, outcomes: &[&Outcome]) -> Vec<(f64, f64)> {
    let seconds = outcomes.last().map_or(0, |one| one.due / 1_000_000_000) as usize;
    let mut admitted = vec![0.0; seconds];
    for one in outcomes.iter().filter(|one| one.allowed) {
        if let Some(second) = admitted.get_mut((one.due / 1_000_000_000) as usize) {
            *second += 1.0;
        }
    }
    let percent = |count: f64| 100.0 * count / key.rule.refill_per_second;
    let of = |(second, count): (usize, f64)| (second as f64 + 0.5, percent(count));
    admitted.into_iter().enumerate().map(of).collect()
}

/// Those in the field who ask for too much, together, and what legal requests got.
pub fn limited_tenants(report: &mut Report, run: &Run) {
    let (mut admitted, mut ideal, mut beyond) = (0.0, 0.0, 0_usize);
    let by_key = by_key(run);
    for (number_of, outcomes) in &by_key {
        let key = &run.traffic.keys[*number_of as usize];
        let judged = judge(run, key, outcomes);
        admitted += judged.admitted;
        ideal += judged.ideal;
        // Redis counts whole milliseconds.
        let allowed = key.leased(run.batch) + key.rule.refill_per_second / 1_000.0 + 1e-6;
        beyond += usize::from(judged.beyond > allowed);
    }
    let legal = run.traffic.arrivals.iter().zip(&run.outcomes);
    let legal = legal.filter(|(arrival, _)| !run.traffic.keys[arrival.key as usize].over);
    let (mut all, mut rejected) = (0_u64, 0_u64);
    for (_, outcome) in legal {
        all += 1;
        rejected += u64::from(!outcome.allowed);
    }
    report.line(&format!(
        "\nIn the field {} tenants ask for three times their limit, of 4.2 to 1,000 requests a second at 50,000 in all; \
         together they were admitted {:+.2} % against ideal buckets, and {beyond} of them more in some window than the \
         bound allows. Of {} requests of the others, who are within theirs, {rejected} were rejected.",
        by_key.len(),
        100.0 * (admitted / ideal.max(1.0) - 1.0),
        number(all as f64),
    ));
}
