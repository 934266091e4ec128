//! A child process whose output goes to files and which does not outlive its test.

use super::send_signal;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    /// The binary of this package.
    pub fn aforo() -> PathBuf {
        PathBuf::from(env!("CARGO_BIN_EXE_aforo"))
    }

    /// Starts it with its output in the folder, which lives as long as the process.
    pub fn spawn(program: &Path, arguments: &[&str], folder: TempDir) -> Self {
        let stdout = File::create(folder.path().join("stdout")).unwrap();
        let stderr = File::create(folder.path().join("stderr")).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self { child, folder }
    }

    /// Runs `aforo` with these arguments to its end.
    #[track_caller]
    pub fn run_aforo(arguments: &[&str]) -> (Self, ExitStatus) {
        let mut process = Self::spawn(&Self::aforo(), arguments, TempDir::new().unwrap());
        let status = process.wait_exit(super::PATIENCE);
        (process, status)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("stdout")).unwrap()).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("stderr")).unwrap()).into_owned()
    }

    /// Sends a signal by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        send_signal(self.id(), name);
    }

    /// The status, where it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end, and fails the test where it does not come within the deadline.
    #[track_caller]
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(
                start.elapsed() < deadline,
                "still there after {deadline:?}\n{}{}",
                self.stdout(),
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A field of `/proc/PID/status`, as `VmRSS`.
    pub fn proc_status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("no {field} in {status}"))
            .trim()
            .to_owned()
    }

    /// Whether it handles the signal of this number itself.
    pub fn catches_signal(&self, number: u32) -> bool {
        let mask = u64::from_str_radix(&self.proc_status("SigCgt"), 16).unwrap();
        mask >> (number - 1) & 1 == 1
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either may fail where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
