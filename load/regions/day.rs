//! A day of two regions, in periods of two minutes, in numbers alone: what each way of sharing a
//! limit lets through. Shares move by the gateway's own code; buckets are taken for a flow.

use aforo::region::grant::{Claim, grants};
use aforo::region::need::Needs;
use aforo::region::target::{Standing, targets};
use aforo::rules::ledger::Asked;

use crate::kit::Report;

/// Periods of two minutes in a day.
const DAY: usize = 720;
/// The limit, in requests a second.
const LIMIT: f64 = 1_000.0;
const REGIONS: [&str; 2] = ["a", "b"];
const BASES: [f64; 2] = [0.7, 0.3];
/// Demand varies by so much from one period to the next.
const NOISE: f64 = 0.1;

/// What both regions are asked for in a period, in requests a second.
type Demand = fn(usize) -> [f64; 2];

const SCENARIOS: [(&str, Demand); 5] = [
    ("steady, 500 and 500", |_| [500.0, 500.0]),
    ("swing between 900/100 and 100/900 in 2 h", |period| {
        let turn = period as f64 / 60.0 * std::f64::consts::TAU;
        let a = 500.0 + 400.0 * turn.cos();
        [a, 1_000.0 - a]
    }),
    ("b fails over to a for 1 h, three times", |period| {
        if period % 240 >= 120 && period % 240 < 150 {
            [950.0, 0.0]
        } else {
            [550.0, 400.0]
        }
    }),
    ("attack of 20,000 in b, a needs 300", |period| {
        if period % 240 >= 120 {
            [300.0, 20_000.0]
        } else {
            [300.0, 200.0]
        }
    }),
    ("b idle for 3 h, then 600", |period| {
        if period % 180 < 90 {
            [400.0, 10.0]
        } else {
            [400.0, 600.0]
        }
    }),
];

/// Moves shares after a period.
trait Sharing {
    fn shares(&self) -> [f64; 2];
    fn learn(&mut self, demand: [f64; 2]);
}

pub fn run(report: &mut Report) {
    report.line(
        "\n## A day, simulated\n\nAdmitted of what one bucket for all would have admitted; and *own*: admitted in a of what a needs up to its base share.",
    );
    let rows: Vec<Vec<String>> = SCENARIOS
        .iter()
        .map(|(name, demand)| {
            let mut row = vec![(*name).to_owned()];
            for mut sharing in [
                Box::new(Fixed) as Box<dyn Sharing>,
                Box::new(Proportional::new()),
                Box::new(Guaranteed::new()),
            ] {
                let (admitted, own) = day(*demand, &mut *sharing);
                row.extend([admitted, own].map(|part| format!("{:.1} %", part * 100.0)));
            }
            row
        })
        .collect();
    report.table(
        &[
            "limit 1,000/s, base shares 70/30, requests a second",
            "fixed",
            "own",
            "in proportion to demand",
            "own",
            "base guarantee",
            "own",
        ],
        &rows,
    );
}

/// What was admitted of what one bucket would have admitted; and in region a, of what it needs up
/// to its base share.
fn day(demand: Demand, sharing: &mut dyn Sharing) -> (f64, f64) {
    // The same noise for everybody.
    let mut random = fastrand::Rng::with_seed(10);
    let (mut admitted, mut possible) = (0.0, 0.0);
    let (mut own, mut own_possible) = (0.0, 0.0);
    for period in 0..DAY {
        let noisy = demand(period).map(|rate| rate * (1.0 + NOISE * (2.0 * random.f64() - 1.0)));
        let passed: Vec<f64> = noisy
            .iter()
            .zip(sharing.shares())
            .map(|(rate, share)| rate.min(share * LIMIT))
            .collect();
        admitted += passed.iter().sum::<f64>();
        possible += noisy.iter().sum::<f64>().min(LIMIT);
        let needs = noisy[0].min(BASES[0] * LIMIT);
        own += passed[0].min(needs);
        own_possible += needs;
        sharing.learn(noisy);
    }
    (admitted / possible, own / own_possible)
}

struct Fixed;

impl Sharing for Fixed {
    fn shares(&self) -> [f64; 2] {
        BASES
    }

    fn learn(&mut self, _demand: [f64; 2]) {}
}

/// A floor of 5 %, the rest in proportion to smoothed demand of twice the limit at most; 2 % of
/// hysteresis, 10 points a step.
struct Proportional {
    shares: [f64; 2],
    smoothed: [f64; 2],
}

impl Proportional {
    fn new() -> Self {
        Self {
            shares: BASES,
            smoothed: BASES.map(|base| base * LIMIT),
        }
    }
}

impl Sharing for Proportional {
    fn shares(&self) -> [f64; 2] {
        self.shares
    }

    fn learn(&mut self, demand: [f64; 2]) {
        for (smoothed, demand) in self.smoothed.iter_mut().zip(demand) {
            *smoothed += 0.5 * (demand.min(2.0 * LIMIT) - *smoothed);
        }
        let target = 0.05 + 0.9 * self.smoothed[0] / self.smoothed.iter().sum::<f64>();
        let step = target - self.shares[0];
        if step.abs() > 0.02 {
            let a = self.shares[0] + step.clamp(-0.1, 0.1);
            self.shares = [a, 1.0 - a];
        }
    }
}

/// What the gateway does.
struct Guaranteed {
    needs: Needs,
    shares: [f64; 2],
}

impl Guaranteed {
    fn new() -> Self {
        Self {
            needs: Needs::default(),
            shares: BASES,
        }
    }
}

impl Sharing for Guaranteed {
    fn shares(&self) -> [f64; 2] {
        self.shares
    }

    fn learn(&mut self, demand: [f64; 2]) {
        let asked = REGIONS.iter().zip(demand).map(|(region, demand)| Asked {
            region: (*region).to_owned(),
            tenant: "t".to_owned(),
            route: "r".to_owned(),
            demand,
            refill: LIMIT,
        });
        let asked: Vec<Asked> = asked.collect();
        self.needs.learn(&asked, &REGIONS);
        let standings: Vec<Standing> = (0..2)
            .map(|place| Standing {
                base: BASES[place],
                need: self.needs.of_all(REGIONS[place]),
                share: self.shares[place],
                heard: true,
            })
            .collect();
        let targets = targets(&standings);
        // First what shrinks, and once that was acknowledged, what grows; both within a period.
        for _ in 0..2 {
            let claims: Vec<Claim> = (0..2)
                .map(|place| Claim {
                    granted: self.shares[place],
                    held: self.shares[place],
                    target: targets[place],
                })
                .collect();
            let next = grants(&claims, 1.0);
            self.shares = [next[0], next[1]];
        }
    }
}
