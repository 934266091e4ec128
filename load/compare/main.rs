//! Aforo side by side with what a user would pick instead, in one run on one machine.
//!
//! `make compare` installs what is missing, builds, and runs all of it; see `docs/compare.md` for
//! the method. `-- --quick` is a short run for trying, whose tables say nothing; `-- --only PART`
//! runs one of `cost`, `accuracy` and `fault`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod accuracy;
mod client;
mod cost;
mod fault;
mod machine;
mod peers;
mod pictures;
#[path = "../plot.rs"]
mod plot;
mod process;
mod report;
mod server;
mod wrk;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::machine::Machine;
use self::peers::Programs;

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How often each subject's cost is measured.
    pub rounds: u32,
    /// For how long, each time.
    pub seconds: u32,
    /// How long a limit is overrun.
    pub accuracy: Duration,
    /// How long Redis is frozen.
    pub frozen: Duration,
}

const FULL: Scale = Scale {
    rounds: 5,
    seconds: 5,
    accuracy: Duration::from_secs(6),
    frozen: Duration::from_secs(5),
};
const QUICK: Scale = Scale {
    rounds: 1,
    seconds: 1,
    accuracy: Duration::from_secs(2),
    frozen: Duration::from_secs(1),
};

/// What the command line asks for.
struct Wanted {
    scale: Scale,
    only: Option<String>,
    out: PathBuf,
}

fn main() -> ExitCode {
    match wanted().and_then(|wanted| run(&wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::FAILURE
        }
    }
}

fn wanted() -> Result<Wanted, String> {
    let mut wanted = Wanted {
        scale: FULL,
        only: None,
        out: PathBuf::from("load/compare"),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .ok_or(format!("{argument} needs a value behind it"))
        };
        match argument.as_str() {
            // Its tables are no result, and must not take the place of one.
            "--quick" => {
                wanted.scale = QUICK;
                wanted.out = PathBuf::from("target/compare");
            }
            "--rounds" => wanted.scale.rounds = number(&value()?)?,
            "--seconds" => wanted.scale.seconds = number(&value()?)?,
            "--out" => wanted.out = PathBuf::from(value()?),
            "--only" => match value()? {
                part if ["cost", "accuracy", "fault"].contains(&part.as_str()) => {
                    wanted.only = Some(part);
                    wanted.out = PathBuf::from("target/compare");
                }
                other => return Err(format!("--only takes cost, accuracy or fault, not {other}")),
            },
            other => {
                return Err(format!(
                    "{other}: not known; there are --quick, --rounds N, --seconds N, --only PART and --out FOLDER"
                ));
            }
        }
    }
    Ok(wanted)
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text} is not a number above 0")),
    }
}

fn run(wanted: &Wanted) -> Result<(), String> {
    let began = Instant::now();
    std::fs::create_dir_all(&wanted.out)
        .map_err(|error| format!("{}: {error}", wanted.out.display()))?;
    let machine = Machine::take()?;
    let programs = Programs::find()?;
    for skipped in programs.skipped() {
        eprintln!("skipped: {skipped}");
    }
    let wants = |part: &str| wanted.only.as_deref().is_none_or(|only| only == part);
    let scale = wanted.scale;
    let mut results = report::Results::new(&machine, &programs, scale);
    if wants("cost") {
        results.cost = cost::run(&machine, &programs, scale)?;
    }
    if wants("accuracy") {
        results.accuracy = accuracy::run(&machine, &programs, scale)?;
    }
    if wants("fault") {
        results.fault = fault::run(&machine, &programs, scale)?;
    }
    results.took = began.elapsed();
    report::write(&results, &wanted.out)
        .map_err(|error| format!("{}: {error}", wanted.out.display()))?;
    eprintln!(
        "{} in {} s",
        wanted.out.join("results.md").display(),
        began.elapsed().as_secs()
    );
    Ok(())
}
