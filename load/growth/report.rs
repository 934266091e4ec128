//! Tables and plots of what was measured.

use std::fmt::Write;
use std::path::Path;

use crate::measure::machine;
use crate::plot::{self, Axes, Line, Scale, number};
use crate::process::{Kind, Measured, OF_THREADS};
use crate::redis_memory::RedisMemory;

const MIB: f64 = 1_048_576.0;
/// Megabytes of the process that are to suffice for a million keys.
const PROCESS_GOAL: f64 = 200.0;
/// Bytes that are to suffice for a bucket in Redis.
const REDIS_GOAL: f64 = 200.0;

/// Writes `results.md` and the plots beside this file.
pub fn write(measured: &[Measured], redis: &RedisMemory) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("load/growth");
    let mut text = format!(
        "# Results\n\n\
         One run on {}. Written by `cargo bench --bench growth --profile thin`.\n\n\
         ## From 1,000 to 1,000,000 keys\n\n\
         To reach: at most {PROCESS_GOAL} MB for the last.\n\n\
         | mode | keys | held | process, MB | of them for keys, MB | bytes a key | ns a decision |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
        machine()
    );
    let alone = |kind| {
        let of_kind = move |one: &&Measured| one.kind == kind && one.threads == 1;
        measured.iter().filter(of_kind)
    };
    for one in Kind::ALL.into_iter().flat_map(alone) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            one.kind.name(),
            number(one.keys as f64),
            number(one.held as f64),
            number(one.resident as f64 / 1e6),
            number(one.grown as f64 / 1e6),
            number(one.grown as f64 / one.held as f64),
            number(one.cpu_nanos),
        );
    }
    text.push_str(
        "\n`store` and `lease` also hold what does not grow with keys, 1 MiB of sketches. Few keys cost more each, \
         for the table's parts are made as they are needed.\n\n\
         ![cost](cost.svg)\n\n![memory](memory.svg)\n",
    );
    let _ = write!(
        text,
        "\n## From one core to all, {} keys\n\n\
         | mode | threads | decisions a second | ns of a core a decision |\n|---|--:|--:|--:|\n",
        number(OF_THREADS as f64)
    );
    for one in measured.iter().filter(|one| one.keys == OF_THREADS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            one.kind.name(),
            one.threads,
            number(one.per_second),
            number(one.cpu_nanos),
        );
    }
    let grown = (redis.full - redis.empty) as f64;
    let _ = write!(
        text,
        "\n## In Redis\n\n\
         {} buckets of 100,000 tenants on 3 routes: {} MB ({} MiB), {} B a bucket by `used_memory`. To reach: at most\n\
         {REDIS_GOAL} B a bucket, 60 MB for all.\n",
        number(redis.buckets as f64),
        number(grown / 1e6),
        number(grown / MIB),
        number(redis.per_bucket()),
    );
    let line = |value: fn(&Measured) -> f64| {
        Kind::ALL.map(|kind| Line {
            name: kind.name().to_owned(),
            points: alone(kind)
                .map(|one| (one.keys as f64, value(one)))
                .collect(),
        })
    };
    let cost = Axes {
        x_scale: Scale::Log,
        ..Axes::new("What a decision takes of one core", "live keys", "ns")
    };
    plot::lines(&here.join("cost.svg"), &cost, &line(|one| one.cpu_nanos)).unwrap();
    let memory = Axes {
        x_scale: Scale::Log,
        goals: &[(PROCESS_GOAL, "to reach, for 1,000,000")],
        ..Axes::new("Memory of the process", "live keys", "MB")
    };
    let megabytes = line(|one| one.resident as f64 / 1e6);
    plot::lines(&here.join("memory.svg"), &memory, &megabytes).unwrap();
    std::fs::write(here.join("results.md"), &text).unwrap();
    println!("{text}");
}
