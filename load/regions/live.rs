//! Two regions for real: two Redis, one PostgreSQL, four gateways, and demand that swings from
//! 70/30 to 10/90.

use std::time::{Duration, Instant};

use crate::harness::{Config, Gateway, Paced, Postgres, Redis, Upstream};
use crate::kit::Report;
use crate::plot::{self, Axes, Line};

/// The limit of the one tenant, in requests a second, and its burst.
const LIMIT: f64 = 400.0;
/// What all clients together ask for, in limits.
const ASKED: f64 = 1.1;
/// Where demand is before and after the swing.
const BEFORE: [f64; 2] = [0.7, 0.3];
const AFTER: [f64; 2] = [0.1, 0.9];
const BASES: [f64; 2] = [0.7, 0.3];
const NAMES: [&str; 2] = ["eu", "us"];
/// The time between two computations of the shares.
const REBALANCE: Duration = Duration::from_secs(1);
/// How often it is looked.
const SAMPLE: Duration = Duration::from_millis(250);
/// Seconds at the start whose rate is not looked at: the bucket is full then.
const START: f64 = 12.0;
/// Periods after a swing in which shares settle.
const SETTLE: u32 = 7;
/// Beyond the limit's burst and refill: the part of the limit that leases may hold.
const LEASES: f64 = 0.05;

/// What was seen at one moment.
struct Sample {
    /// Seconds from the start.
    at: f64,
    shares: [f64; 2],
    /// Admitted so far.
    admitted: [u64; 2],
    sent: u64,
}

struct Run {
    samples: Vec<Sample>,
    swing: f64,
    failed: u64,
}

pub fn run(report: &mut Report, quick: bool) {
    let phase = if quick { 18 } else { 30 };
    report.line(&format!(
        "## Gateways\n\nTwo redis-server, one PostgreSQL, four gateways, two in each region, all on this machine. One tenant, a limit of {LIMIT} \
         a second and as much at once; {ASKED} times the limit is asked for at a steady pace, {phase} s of it 70/30 and {phase} s 10/90. Base shares are \
         70/30, and shares move each {} s."
    , REBALANCE.as_secs()));
    let phase = Duration::from_secs(phase);
    let fixed = measure(false, phase);
    let moved = measure(true, phase);
    report.table(
        &[
            "admitted of the limit",
            "at 70/30",
            "the swing",
            "settled at 10/90",
            "all",
            "most above C + r·T in any window (leases may hold)",
            "without an answer",
        ],
        &[
            row("fixed shares", &fixed),
            row("shares that follow demand", &moved),
        ],
    );
    let sent = moved.samples.last().map_or(0, |sample| sample.sent);
    report.line(&format!(
        "*The swing* is the first {SETTLE} periods after demand has moved, *settled* is what comes after them. Shares were within 5 points of where they \
         ended {:.1} periods after it. {sent} requests with shares that follow demand; of the first {} s nothing but the excess is counted, for the \
         bucket is full then.\n",
        reached(&moved) / REBALANCE.as_secs_f64(), START,
    ));
    draw(report, &fixed, &moved);
}

fn measure(moves: bool, phase: Duration) -> Run {
    let upstream = Upstream::start();
    let postgres = Postgres::migrated();
    let redis = [Redis::start(), Redis::start()];
    let gateways: Vec<[Gateway; 2]> = (0..2)
        .map(|region| {
            let config = Config::new(&upstream)
                .default_rule(LIMIT as u64, LIMIT)
                .redis(&redis[region], 2, "timeout: 50ms");
            let (name, base) = (NAMES[region], BASES[region]);
            let config = if moves {
                config.postgres(&postgres, "refresh: 30s").section(&format!(
                    "region: {{ name: {name}, share: {base}, rebalance: {}s }}",
                    REBALANCE.as_secs()
                ))
            } else {
                config.section(&format!("region: {{ name: {name}, share: {base} }}"))
            };
            [Gateway::start(&config), Gateway::start(&config)]
        })
        .collect();
    let rate = |part: f64| (part * ASKED * LIMIT) as u64;
    let began = Instant::now();
    let paced: Vec<Paced> = (0..2)
        .map(|region| {
            let own = [&gateways[region][0], &gateways[region][1]];
            Paced::start(&own, "shop-a", "/x", rate(BEFORE[region]))
        })
        .collect();
    let mut samples = Vec::new();
    let mut swing = 0.0;
    while began.elapsed() < 2 * phase {
        std::thread::sleep(SAMPLE);
        if swing == 0.0 && began.elapsed() >= phase {
            swing = began.elapsed().as_secs_f64();
            for (paced, part) in paced.iter().zip(AFTER) {
                paced.pace(rate(part));
            }
        }
        let share = |region: usize| gateways[region][0].metric("aforo_region_share");
        let shares = [share(0), share(1)];
        let counts = [paced[0].counts(), paced[1].counts()];
        samples.push(Sample {
            at: began.elapsed().as_secs_f64(),
            shares,
            admitted: [counts[0].1, counts[1].1],
            sent: counts[0].0 + counts[1].0,
        });
    }
    Run {
        failed: paced.iter().map(Paced::failed).sum(),
        samples,
        swing,
    }
}

fn row(name: &str, run: &Run) -> Vec<String> {
    let settled = run.swing + (SETTLE * REBALANCE).as_secs_f64();
    let end = f64::INFINITY;
    let spans = [
        (START, run.swing),
        (run.swing, settled),
        (settled, end),
        (START, end),
    ];
    let admitted = spans.map(|(from, to)| format!("{:.1} %", run.rate(from, to) / LIMIT * 100.0));
    let mut row = vec![name.to_owned()];
    row.extend(admitted);
    row.push(format!("{:.1} ({:.0})", run.excess(), LEASES * 2.0 * LIMIT));
    row.push(run.failed.to_string());
    row
}

impl Run {
    fn between(&self, from: f64, to: f64) -> Vec<&Sample> {
        let within = self.samples.iter();
        within
            .filter(|sample| (from..to).contains(&sample.at))
            .collect()
    }

    /// Admitted in a second, both regions together.
    fn rate(&self, from: f64, to: f64) -> f64 {
        let within = self.between(from, to);
        let (first, last) = (within.first().unwrap(), within.last().unwrap());
        let admitted = |sample: &Sample| sample.admitted.iter().sum::<u64>() as f64;
        (admitted(last) - admitted(first)) / (last.at - first.at)
    }

    /// The most that was admitted between any two samples beyond the burst and what came back.
    fn excess(&self) -> f64 {
        let mut worst = 0.0_f64;
        // Of the start, where nothing was admitted yet.
        let mut lowest = 0.0_f64;
        for sample in &self.samples {
            let level = sample.admitted.iter().sum::<u64>() as f64 - LIMIT * sample.at;
            lowest = lowest.min(level);
            worst = worst.max(level - lowest - LIMIT);
        }
        worst
    }

    /// A curve of each region's admitted rate, over a second.
    fn rates(&self, region: Option<usize>) -> Vec<(f64, f64)> {
        let admitted = |sample: &Sample| match region {
            Some(region) => sample.admitted[region] as f64,
            None => sample.admitted.iter().sum::<u64>() as f64,
        };
        self.samples
            .windows(5)
            .map(|window| {
                let (first, last) = (&window[0], &window[4]);
                let rate = (admitted(last) - admitted(first)) / (last.at - first.at);
                (last.at, rate)
            })
            .collect()
    }
}

/// Seconds from the swing until the shares are within 5 points of where they end, for good.
fn reached(run: &Run) -> f64 {
    let end = run.samples.last().unwrap().shares;
    let after = run.between(run.swing, f64::INFINITY);
    let far = after.iter().rev().find(|sample| {
        (sample.shares[0] - end[0]).abs() > 0.05 || (sample.shares[1] - end[1]).abs() > 0.05
    });
    far.map_or(0.0, |sample| sample.at - run.swing)
}

fn draw(report: &mut Report, fixed: &Run, moved: &Run) {
    let line = |name: &str, points: Vec<(f64, f64)>| Line {
        name: name.to_owned(),
        points,
    };
    let share = |region: usize| -> Vec<(f64, f64)> {
        let samples = moved.samples.iter();
        samples
            .map(|sample| (sample.at, sample.shares[region] * 100.0))
            .collect()
    };
    let axes = Axes::new(
        "Shares of one limit while demand swings from 70/30 to 10/90",
        "s",
        "% of the limit",
    );
    let path = report.plot("shares", "shares over time");
    plot::lines(&path, &axes, &[line("eu", share(0)), line("us", share(1))]).unwrap();
    let axes = Axes {
        goals: &[(LIMIT, "the limit")],
        ..Axes::new(
            "Admitted while demand swings from 70/30 to 10/90",
            "s",
            "requests a second",
        )
    };
    let curves = [
        line("both regions", moved.rates(None)),
        line("eu", moved.rates(Some(0))),
        line("us", moved.rates(Some(1))),
        line("both, fixed shares", fixed.rates(None)),
    ];
    let path = report.plot("admitted", "admitted over time");
    plot::lines(&path, &axes, &curves).unwrap();
}
