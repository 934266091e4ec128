//! What was measured, as plots.

use std::error::Error;
use std::path::Path;

use super::accuracy::{DEMAND, LIMIT};
use super::cost::{Row, Sample};
use super::fault::{self, STEP};
use super::plot::{self, Axes, Bars, Line};
use super::report::{Results, rate};

/// Draws all that there are results for.
pub fn draw(results: &Results, folder: &Path) -> Result<(), Box<dyn Error>> {
    if !results.cost.is_empty() {
        let axes = Axes::new(
            "One hot key, 64 connections, one core: throughput",
            "",
            "requests/s",
        );
        of_subjects(results, &folder.join("throughput.svg"), &axes, &rate)?;
        let axes = Axes::new(
            "One hot key, 64 connections, one core: CPU time",
            "",
            "µs per request",
        );
        of_subjects(results, &folder.join("cpu.svg"), &axes, &|sample| {
            sample.cpu
        })?;
    }
    if !results.accuracy.is_empty() {
        accuracy(results, &folder.join("accuracy.svg"))?;
    }
    if !results.fault.is_empty() {
        fault(results, &folder.join("fault.svg"))?;
    }
    Ok(())
}

fn of_subjects(
    results: &Results,
    path: &Path,
    axes: &Axes<'_>,
    value: &dyn Fn(&Sample) -> f64,
) -> Result<(), Box<dyn Error>> {
    let shown: Vec<&Row> = results
        .cost
        .iter()
        .filter(|row| !row.subject.short.is_empty())
        .collect();
    let names: Vec<&str> = shown.iter().map(|row| row.subject.short).collect();
    let bars = Bars {
        name: axes.y.to_owned(),
        values: shown.iter().map(|row| row.median(value)).collect(),
    };
    plot::bars(path, axes, &names, &[bars])
}

fn accuracy(results: &Results, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut axes = Axes::new(
        "Two proxies, one limit, three times the load: what was let through",
        "",
        "% of the limit",
    );
    axes.goals = &[(100.0, "the limit")];
    let rows = &results.accuracy;
    let names: Vec<&str> = rows.iter().map(|row| row.pair.short).collect();
    let bars = [
        Bars {
            name: "evenly loaded".to_owned(),
            values: rows.iter().map(|row| row.even.percent().round()).collect(),
        },
        Bars {
            name: "nine tenths at one of them".to_owned(),
            values: rows
                .iter()
                .map(|row| row.skewed.percent().round())
                .collect(),
        },
    ];
    plot::bars(path, &axes, &names, &bars)
}

fn fault(results: &Results, path: &Path) -> Result<(), Box<dyn Error>> {
    let from = fault::frozen_at().as_secs_f64();
    let title = format!(
        "Redis frozen from second {from:.0} to {:.0}: requests let through",
        from + results.scale.frozen.as_secs_f64()
    );
    let mut axes = Axes::new(&title, "seconds", "requests/s");
    let goals = [
        (f64::from(LIMIT.refill), "the limit"),
        (DEMAND, "asked for"),
    ];
    axes.goals = &goals;
    let step = STEP.as_secs_f64();
    let lines: Vec<Line> = results
        .fault
        .iter()
        .map(|row| Line {
            name: row.subject.name.to_owned(),
            points: row
                .timeline
                .iter()
                .enumerate()
                .map(|(at, count)| ((at as f64 + 0.5) * step, *count as f64 / step))
                .collect(),
        })
        .collect();
    plot::lines(path, &axes, &lines)
}
