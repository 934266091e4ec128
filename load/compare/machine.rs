//! The machine that is measured on: which core does what, and what it says of itself.

use std::fs;
use std::process::{Command, id};

/// Descriptors that a client with a connection for each waiting request may need.
const DESCRIPTORS: &str = "16384";

/// Two or more cores, one of which is the proxy's alone.
pub struct Machine {
    /// The core of the proxy under test, as taskset takes it.
    pub proxy: String,
    /// The cores of everything else: client, upstream, Redis.
    pub others: String,
    /// Clock ticks a second, which CPU time is counted in.
    pub hertz: f64,
    /// Processor, cores and kernel.
    pub description: String,
}

impl Machine {
    /// Divides the cores up, and moves this process to its own.
    pub fn take() -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err("needs two cores: one for the proxy, one for everything else".to_owned());
        }
        let others = match cores {
            2 => "1".to_owned(),
            _ => format!("1-{}", cores - 1),
        };
        let this = id().to_string();
        output("taskset", &["-acp", &others, &this])
            .ok_or("taskset (util-linux) cannot move this process to its cores")?;
        // What is lacking shows as broken connections, which are counted.
        let _ = output(
            "prlimit",
            &["--pid", &this, &format!("--nofile={DESCRIPTORS}:")],
        );
        let hertz = output("getconf", &["CLK_TCK"]).and_then(|text| text.trim().parse().ok());
        Ok(Self {
            proxy: "0".to_owned(),
            others,
            hertz: hertz.unwrap_or(100.0),
            description: format!(
                "{}, {cores} cores, Linux {}",
                processor().unwrap_or_else(|| "an unknown processor".to_owned()),
                first_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            ),
        })
    }
}

/// What a program says on standard output, if it runs and ends well.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.to_owned())
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(str::to_owned)
}
