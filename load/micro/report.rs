//! Tables and plots of what criterion measured.

use std::fmt::Write;
use std::path::Path;

use crate::decisions::{DECISIONS, PARTS};
use crate::maps;
use crate::measure::machine;
use crate::plot::{self, Axes, Bars, number};
use crate::request::REQUEST;

/// What is to be reached, in nanoseconds.
const GOAL: f64 = 150.0;

/// Nanoseconds: the median, and the bounds that it lies within with 95 % confidence.
struct Measured {
    name: String,
    median: f64,
    bounds: (f64, f64),
}

/// Writes `results.md` and the plots beside this file.
pub fn write(measured: &Path) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("load/micro");
    let mut text = format!(
        "# Results\n\n\
         One run on {}. Nanoseconds on one core: the median, and the bounds that it lies within with 95 %\n\
         confidence. Written by `cargo bench --bench micro --profile thin`.\n",
        machine()
    );
    for (group, title) in [
        (DECISIONS, "A decision"),
        (PARTS, "Parts of a decision from a lease"),
        (REQUEST, "What a request needs besides"),
    ] {
        let rows = group_of(measured, group);
        let _ = write!(text, "\n## {title}\n\n| | ns | 95 % |\n|---|--:|--:|\n");
        for row in &rows {
            let (low, high) = row.bounds;
            let _ = writeln!(
                text,
                "| {} | {} | {} to {} |",
                row.name,
                number(row.median),
                number(low),
                number(high)
            );
        }
        if group == DECISIONS {
            plot_decisions(&here.join("decisions.svg"), &rows);
        }
    }
    let _ = write!(text, "\n![decisions](decisions.svg)\n");
    text.push_str(&table_of_maps(measured, &here.join("maps.svg")));
    std::fs::write(here.join("results.md"), &text).unwrap();
    println!("{text}");
}

fn plot_decisions(path: &Path, rows: &[Measured]) {
    const SHOWN: [(&str, &str); 6] = [
        ("lease", "lease"),
        ("lease, batch 50", "lease, batch 50"),
        ("remembered rejection", "rejection"),
        ("memory", "memory"),
        ("governor", "governor"),
        ("governor, rejected", "gov., rejected"),
    ];
    let of = |name: &str| rows.iter().find(|row| row.name == name);
    let shown: Vec<(&str, f64)> = SHOWN
        .iter()
        .filter_map(|(name, short)| Some((*short, of(name)?.median)))
        .collect();
    let groups: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
    let bars = Bars {
        name: "one key".to_owned(),
        values: shown.iter().map(|(_, median)| *median).collect(),
    };
    let axes = Axes {
        goals: &[(GOAL, "to reach, for a lease")],
        ..Axes::new("One decision on one core", "", "ns")
    };
    plot::bars(path, &axes, &groups, &[bars]).unwrap();
}

fn table_of_maps(measured: &Path, plot: &Path) -> String {
    let rows = group_of(measured, maps::MAPS);
    let median = |map: &str, load| {
        let name = maps::name(map, load);
        rows.iter().find(|row| row.name == name).unwrap().median
    };
    let loads = maps::LOADS.map(|(threads, keys)| {
        let threads = if threads == 1 {
            "1 thread"
        } else {
            "2 threads"
        };
        let keys = if keys == 1 { "1 key" } else { "100,000 keys" };
        format!("{threads}, {keys}")
    });
    let mut text = format!(
        "\n## The table of keys\n\n\
         Nanoseconds in which one thread looks a key up and spends one token of its lease.\n\n\
         | map | {} |\n|---|--:|--:|--:|--:|\n",
        loads.join(" | ")
    );
    let mut bars = Vec::new();
    for map in maps::NAMES {
        let values = maps::LOADS.map(|load| median(map, load));
        let _ = writeln!(text, "| {map} | {} |", values.map(number).join(" | "));
        bars.push(Bars {
            name: map.to_owned(),
            values: values.to_vec(),
        });
    }
    let groups = loads.each_ref().map(String::as_str);
    let axes = Axes::new("Looking a key up and spending a token", "", "ns");
    plot::bars(plot, &axes, &groups, &bars).unwrap();
    text.push_str("\n![maps](maps.svg)\n");
    text
}

/// All that was measured in a group, in the order in which it was.
fn group_of(measured: &Path, group: &str) -> Vec<Measured> {
    let folders = std::fs::read_dir(measured.join(group)).unwrap();
    let mut rows: Vec<_> = folders
        .map(|folder| folder.unwrap().path().join("new"))
        .filter(|new| new.is_dir())
        .map(|new| {
            let written = new.join("estimates.json").metadata().unwrap().modified();
            (written.unwrap(), one(&new))
        })
        .collect();
    rows.sort_by_key(|(written, _)| *written);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn one(new: &Path) -> Measured {
    let read = |file| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(new.join(file)).unwrap()).unwrap()
    };
    let (benchmark, estimates) = (read("benchmark.json"), read("estimates.json"));
    let median = &estimates["median"];
    let interval = &median["confidence_interval"];
    let nanos = |value: &serde_json::Value| value.as_f64().unwrap();
    Measured {
        name: benchmark["function_id"].as_str().unwrap().to_owned(),
        median: nanos(&median["point_estimate"]),
        bounds: (
            nanos(&interval["lower_bound"]),
            nanos(&interval["upper_bound"]),
        ),
    }
}
