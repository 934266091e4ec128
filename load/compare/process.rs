//! Processes on cores of their own, and what the kernel says they use.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one may take to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(2);

/// A process with all that it started, until it is dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Runs `program` on `cores`. What it says goes to `log`.
    pub fn start(
        cores: &str,
        program: &Path,
        arguments: &[&str],
        log: &Path,
    ) -> Result<Self, String> {
        Self::by(on(cores), program, arguments, log)
    }

    /// The same for one that gives way to Redis.
    pub fn start_behind_redis(
        cores: &str,
        program: &Path,
        arguments: &[&str],
        log: &Path,
    ) -> Result<Self, String> {
        Self::by(behind_redis(cores), program, arguments, log)
    }

    fn by(
        mut command: Command,
        program: &Path,
        arguments: &[&str],
        log: &Path,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let output = File::create(log).map_err(failed)?;
        let child = command
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child })
    }

    /// Waits until something listens at `address`.
    pub fn listens(&mut self, address: SocketAddr, log: &Path) -> Result<(), String> {
        let began = Instant::now();
        loop {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || began.elapsed() > PATIENCE {
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("nothing listens at {address}: {}", said.trim()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// CPU time used by it and its children so far, in clock ticks.
    pub fn ticks(&self) -> u64 {
        tree(self.child.id()).into_iter().filter_map(ticks_of).sum()
    }

    /// Resident memory of it and its children in KiB; of what several share each has its part.
    pub fn memory_kib(&self) -> u64 {
        tree(self.child.id())
            .into_iter()
            .filter_map(memory_of)
            .sum()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        signal(name, &[self.child.id()]);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // nginx's first process takes the others along when it is asked to end, not when it is
        // killed.
        let all = tree(self.child.id());
        signal("CONT", &all);
        self.signal("TERM");
        let began = Instant::now();
        while began.elapsed() < FAREWELL {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        signal("KILL", &all);
        let _ = self.child.wait();
    }
}

/// A command on `cores`, to be followed by what it runs.
fn on(cores: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cores]);
    command
}

/// The same for one that gets a core only where Redis does not want it. By rights Redis is on a
/// machine of its own.
pub fn behind_redis(cores: &str) -> Command {
    let mut command = on(cores);
    command.args(["chrt", "--idle", "0"]);
    command
}

/// An address at which nothing listens. Not one of those that the kernel gives to connections,
/// which might take it before it is used.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = (std::process::id() % 10_000) as u16;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (begin + step) % 12_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A process and all below it.
fn tree(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut at = 0;
    while let Some(id) = all.get(at) {
        let threads = fs::read_dir(format!("/proc/{id}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace();
            all.extend(children.filter_map(|child| child.parse::<u32>().ok()));
        }
        at += 1;
    }
    all
}

/// `utime` and `stime` of all threads.
fn ticks_of(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let utime: u64 = fields.next()?.parse().ok()?;
    let stime: u64 = fields.next()?.parse().ok()?;
    Some(utime + stime)
}

fn memory_of(id: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn signal(name: &str, ids: &[u32]) {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    // The shell's own `kill`: the program is not everywhere.
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", ids.join(" "))])
        .stderr(Stdio::null())
        .status();
}
