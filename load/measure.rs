//! What the benchmarks that run in one process share: time that was computed and not waited, and a
//! word on the machine.
// Each uses its own part of this.
#![allow(dead_code)]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time that this thread has computed so far. Others on the same machine take turns with it, but
/// nothing from it.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative on this clock.
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(now.tv_nsec.unsigned_abs())
}

/// The processor and how many cores of it there are.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    format!("{cores} cores, {model}")
}
