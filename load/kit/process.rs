//! Programs under load: built, started, asked for their metrics, stopped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A program that ends when this is dropped.
pub struct Program(Child);

impl Program {
    /// Starts it, on one core alone where one is named. What it says goes nowhere.
    pub fn start(core: Option<usize>, program: &Path, arguments: &[&str]) -> Self {
        let mut command = match core {
            None => Command::new(program),
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(program);
                command
            }
        };
        Self::by(command.args(arguments), program)
    }

    /// Starts one that gets its core only where Redis does not want it.
    pub fn start_behind_redis(core: usize, program: &Path, arguments: &[&str]) -> Self {
        Self::by(behind_redis(core).arg(program).args(arguments), program)
    }

    fn by(command: &mut Command, program: &Path) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{}: {error}", program.display())))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "kill -{name} {pid}"
        );
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command, to be followed by what it runs: on one core, and there only where Redis does not want
/// it, which by rights is on a machine of its own.
pub fn behind_redis(core: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), "chrt", "--idle", "0"]);
    command
}

/// The folder of binaries that this load test was built into, and the name of its profile.
fn folder() -> (PathBuf, String) {
    let mut folder = std::env::current_exe().unwrap();
    while folder.file_name().is_some_and(|name| name != "examples") {
        folder.pop();
    }
    folder.pop();
    let profile = folder.file_name().unwrap().to_string_lossy().into_owned();
    (folder, profile)
}

/// Builds the gateway and examples of these names, in the profile of this load test.
pub fn build(examples: &[&str]) {
    let (_, profile) = folder();
    let profile = if profile == "debug" { "dev" } else { &profile };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    // What `cargo run` tells this program of itself would have build scripts run again, and half of
    // the dependencies be built anew.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_")
            && name != "CARGO_HOME"
            && name != "CARGO_TARGET_DIR"
        {
            command.env_remove(name);
        }
    }
    command.args(["build", "--locked", "--profile", profile, "--bin", "aforo"]);
    for example in examples {
        command.args(["--example", example]);
    }
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// The gateway.
pub fn gateway() -> PathBuf {
    folder().0.join("aforo")
}

/// An example.
pub fn example(name: &str) -> PathBuf {
    folder().0.join("examples").join(name)
}

/// A free port on loopback.
pub fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap()
}

/// Waits until something listens.
pub fn await_listener(address: SocketAddr) {
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < PATIENCE, "nothing listens at {address}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a condition holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The body of a page.
pub fn page(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The sum of all series of a metric whose name and labels begin like this.
pub fn metric(admin: SocketAddr, begins: &str) -> f64 {
    let text = page(admin, "/metrics").unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with(begins));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}
