//! What Linux says of processes: CPU time and memory.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor's name.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = name.map(|line| line.trim_start_matches([':', ' ', '\t']).to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// CPU time that a process has used, all its threads, its own and the kernel's for it. Counts in
/// ticks, which are 10 ms on most machines.
pub fn cpu_of(pid: u32) -> Duration {
    let (user, kernel) = user_and_kernel_of(pid);
    user + kernel
}

/// The same, its own and the kernel's apart.
pub fn user_and_kernel_of(pid: u32) -> (Duration, Duration) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let time = |n: usize| {
        let field = fields.split_whitespace().nth(n);
        let ticks: f64 = field.and_then(|text| text.parse().ok()).unwrap_or(0.0);
        Duration::from_secs_f64(ticks / ticks_per_second())
    };
    (time(11), time(12))
}

/// Resident memory of a process, in bytes.
pub fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    1024.0 * kib.and_then(|kib| kib.trim().parse().ok()).unwrap_or(0.0)
}

fn ticks_per_second() -> f64 {
    static TICKS: OnceLock<f64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let told = Command::new("getconf").arg("CLK_TCK").output().ok();
        let text = told.and_then(|told| String::from_utf8(told.stdout).ok());
        text.and_then(|text| text.trim().parse().ok())
            .unwrap_or(100.0)
    })
}

/// This process, and those that it starts from now on, have the cores only where nobody else wants
/// them. For a Redis that was started before: by rights it would be on another machine, and the
/// scheduler would else let each of its answers wait some ms for a thread of ours to end its turn.
pub fn let_redis_go_first() {
    let own = std::process::id().to_string();
    let idle = Command::new("chrt")
        .args(["--idle", "--all-tasks", "--pid", "0", &own])
        .status();
    assert!(idle.unwrap().success(), "chrt");
}
