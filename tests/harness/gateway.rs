//! A gateway process under test.

use super::{Client, Config, Metrics, PATIENCE, Process, Response, free_port};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The exit code of a port that could not be bound: another process was quicker.
const PORT_TAKEN: i32 = 3;

pub struct Gateway {
    process: Process,
    config: PathBuf,
    listen: String,
    admin: String,
}

impl Gateway {
    /// Starts `aforo run` and waits until it is ready.
    #[track_caller]
    pub fn start(config: &Config) -> Self {
        Self::start_program(&Process::aforo(), &["run", "-c"], config)
    }

    /// Starts a program that is a gateway; the configuration file becomes its last argument.
    #[track_caller]
    pub fn start_program(program: &Path, arguments: &[&str], config: &Config) -> Self {
        for _ in 0..5 {
            let mut gateway = Self::launch(program, arguments, |path, ports| {
                fs::write(path, ports.fill(config)).unwrap();
            });
            match gateway.wait_ready() {
                Ok(()) => return gateway,
                Err(status) if status.code() == Some(PORT_TAKEN) => {}
                Err(status) => panic!("ended with {status}\n{}", gateway.log()),
            }
        }
        panic!("no free ports");
    }

    /// Starts `aforo run` without waiting for it. `prepare` makes the configuration file.
    pub fn launch_with(prepare: impl FnOnce(&Path, &Ports)) -> Self {
        Self::launch(&Process::aforo(), &["run", "-c"], prepare)
    }

    fn launch(program: &Path, arguments: &[&str], prepare: impl FnOnce(&Path, &Ports)) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("aforo.yaml");
        let ports = Ports {
            listen: format!("127.0.0.1:{}", free_port()),
            admin: format!("127.0.0.1:{}", free_port()),
        };
        prepare(&config, &ports);
        let mut arguments = arguments.to_vec();
        let path = config.to_str().unwrap().to_owned();
        arguments.push(&path);
        Self {
            process: Process::spawn(program, &arguments, folder),
            config,
            listen: ports.listen,
            admin: ports.admin,
        }
    }

    /// Waits until `/readyz` is 200; the status where the process ended instead.
    #[track_caller]
    pub fn wait_ready(&mut self) -> Result<(), ExitStatus> {
        let start = Instant::now();
        while self.try_admin("/readyz").map(|response| response.status) != Some(200) {
            if let Some(status) = self.process.exited() {
                return Err(status);
            }
            assert!(start.elapsed() < PATIENCE, "never ready\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Where it listens, as `127.0.0.1:8080`.
    pub fn address(&self) -> &str {
        &self.listen
    }

    /// Where operators ask.
    pub fn admin_address(&self) -> &str {
        &self.admin
    }

    pub fn port(&self) -> &str {
        self.listen.rsplit(':').next().unwrap()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub fn config_path(&self) -> &Path {
        &self.config
    }

    /// Everything that it wrote.
    pub fn log(&self) -> String {
        self.process.stdout() + &self.process.stderr()
    }

    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(&self.listen).unwrap()
    }

    /// A request on a connection of its own.
    #[track_caller]
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        self.connect()
            .request(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.log()))
    }

    /// `GET` as a tenant, on a connection of its own.
    #[track_caller]
    pub fn get(&self, tenant: &str, path: &str) -> Response {
        self.request("GET", path, &[("X-Api-Key", tenant)], b"")
    }

    /// `GET` on the admin port; `None` where nothing answers there.
    pub fn try_admin(&self, path: &str) -> Option<Response> {
        let mut client = Client::connect(&self.admin).ok()?;
        client.request("GET", path, &[], b"").ok()
    }

    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        let response = self.try_admin("/metrics").unwrap();
        assert_eq!(response.status, 200, "{response:?}");
        Metrics::parse(&response.text())
    }

    /// The value of one series, as `aforo_decisions_total{source="store"}`.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        self.metrics().get(series)
    }

    /// Decisions so far, and how many of them took longer than this bound of the histogram, in seconds
    /// as it writes them.
    #[track_caller]
    pub fn decisions_over(&self, bound: &str) -> (f64, f64) {
        let metrics = self.metrics();
        let all = metrics.get("aforo_decision_seconds_count");
        let within = metrics.get(&format!("aforo_decision_seconds_bucket{{le=\"{bound}\"}}"));
        (all, all - within)
    }

    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Replaces the file, ports filled in, at once as an editor does; nothing is signalled.
    pub fn rewrite_config(&self, config: &Config) {
        self.rewrite_config_text(&self.ports().fill(config));
    }

    pub fn rewrite_config_text(&self, text: &str) {
        let new = self.config.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.config).unwrap();
    }

    /// Sends SIGHUP and waits until it was taken, for better or worse: `ok` or `error`.
    #[track_caller]
    pub fn reload(&self) -> &'static str {
        let before = self.reloads();
        self.signal("HUP");
        let mut after = before;
        super::eventually("SIGHUP is taken", || {
            after = self.reloads();
            after != before
        });
        if after.0 > before.0 { "ok" } else { "error" }
    }

    /// Puts a new file in force.
    #[track_caller]
    pub fn reload_with(&self, config: &Config) {
        self.rewrite_config(config);
        assert_eq!(self.reload(), "ok", "{}", self.log());
    }

    /// Reads of the file that went well, and that did not.
    fn reloads(&self) -> (f64, f64) {
        let metrics = self.metrics();
        (
            metrics.get("aforo_config_reload_total{result=\"ok\"}"),
            metrics.get("aforo_config_reload_total{result=\"error\"}"),
        )
    }

    #[track_caller]
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        self.process.wait_exit(deadline)
    }

    fn ports(&self) -> Ports {
        Ports {
            listen: self.listen.clone(),
            admin: self.admin.clone(),
        }
    }
}

/// The addresses that a gateway was given.
pub struct Ports {
    pub listen: String,
    pub admin: String,
}

impl Ports {
    /// The YAML with its ports.
    pub fn fill(&self, config: &Config) -> String {
        config
            .yaml()
            .replace("{listen}", &self.listen)
            .replace("{admin}", &self.admin)
    }
}
