//! A PostgreSQL server of a test's own.

use super::{PATIENCE, Process, eventually, free_port, send_signal};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tempfile::TempDir;

/// The database that tests use.
const DATABASE: &str = "aforo";

pub struct Postgres {
    port: u16,
    folder: TempDir,
    server: Option<Child>,
}

impl Postgres {
    /// Starts a server with an empty database and waits until it answers.
    pub fn start() -> Self {
        for _ in 0..5 {
            let mut postgres = Self::absent();
            if postgres.try_start() {
                postgres.sql_in("postgres", &format!("create database {DATABASE}"));
                return postgres;
            }
        }
        panic!("no PostgreSQL starts on any port");
    }

    /// Starts a server whose database has Aforo's tables.
    pub fn migrated() -> Self {
        let postgres = Self::start();
        postgres.migrate();
        postgres
    }

    /// A server that does not run yet, and has no database: [`Postgres::restart`] starts it.
    pub fn absent() -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let template = template();
        if template.exists() {
            run(Command::new("cp").arg("-r").args([&template, &data]));
            run(Command::new("chmod").args(["-R", "go="]).arg(&data));
            give_away(folder.path());
        } else {
            give_away(folder.path());
            run(command("initdb")
                .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
                .arg(&data));
            // Of several that come here at once, the first to rename wins; all are alike.
            let new = TempDir::new_in(template.parent().unwrap()).unwrap();
            let made = new.path().join("made");
            run(Command::new("cp").arg("-r").args([&data, &made]));
            let _ = fs::rename(made, &template);
        }
        Self {
            port: free_port(),
            folder,
            server: None,
        }
    }

    pub fn url(&self) -> String {
        self.url_as("postgres")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Over a cable to [`Postgres::port`].
    pub fn url_over(&self, cable: &super::Cable) -> String {
        let (own, other) = (format!(":{}/", self.port), format!(":{}/", cable.port()));
        self.url().replace(&own, &other)
    }

    /// As another user than the one who may do everything.
    pub fn url_as(&self, user: &str) -> String {
        format!(
            "postgres://{user}:hunter2@127.0.0.1:{}/{DATABASE}",
            self.port
        )
    }

    /// Runs `aforo migrate`.
    #[track_caller]
    pub fn migrate(&self) {
        let (process, status) = self.run_aforo(&["migrate"]);
        assert!(status, "{}", process.stderr());
    }

    /// Runs a command of `aforo` with a configuration whose rules are here; whether it went well.
    pub fn run_aforo(&self, arguments: &[&str]) -> (Process, bool) {
        let folder = TempDir::new().unwrap();
        let config = self.config_in(folder.path());
        let mut arguments = arguments.to_vec();
        arguments.extend(["-c", config.to_str().unwrap()]);
        let mut process = Process::spawn(&Process::aforo(), &arguments, folder);
        let status = process.wait_exit(PATIENCE);
        (process, status.success())
    }

    /// Writes a configuration whose rules are here.
    pub fn config_in(&self, folder: &Path) -> PathBuf {
        let path = folder.join("aforo.yaml");
        let yaml = format!(
            "version: 1
listeners: [{{ address: \"127.0.0.1:1\" }}]
upstreams: {{ main: {{ servers: [\"127.0.0.1:1\"] }} }}
routes: [{{ id: r, path: /*, upstream: main }}]
rules: {{ postgres: {{ url: \"{}\" }} }}
",
            self.url()
        );
        fs::write(&path, yaml).unwrap();
        path
    }

    /// Runs statements with psql, each in a transaction of its own, and gives what it prints:
    /// columns separated by `|`.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> String {
        self.sql_in(DATABASE, statements)
    }

    #[track_caller]
    fn sql_in(&self, database: &str, statements: &str) -> String {
        let (ok, out, errors) = self.run_psql(database, statements);
        assert!(ok, "{statements}: {errors}");
        out
    }

    /// What psql says about statements that must fail.
    #[track_caller]
    pub fn sql_error(&self, statements: &str) -> String {
        let (ok, out, errors) = self.run_psql(DATABASE, statements);
        assert!(!ok, "{statements}: {out}");
        errors
    }

    fn run_psql(&self, database: &str, statements: &str) -> (bool, String, String) {
        let mut psql = self
            .psql(database)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = psql.stdin.take().unwrap();
        let text = format!("{statements};\n");
        let writing = std::thread::spawn(move || {
            // It stops reading at the first error.
            let _ = input.write_all(text.as_bytes());
        });
        let output = psql.wait_with_output().unwrap();
        writing.join().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        (output.status.success(), out, errors)
    }

    /// A session that stays open between statements.
    pub fn session(&self) -> Session {
        Session::new(self.psql(DATABASE))
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .args(["-h", "127.0.0.1", "-U", "postgres", "-d", database])
            .args(["-p", &self.port.to_string()])
            .env("PGOPTIONS", "-c client_min_messages=warning")
            .stdin(Stdio::piped());
        psql
    }

    /// The processes that serve gateways.
    pub fn backends(&self) -> Vec<u32> {
        let pids = self.sql("select pid from pg_stat_activity where application_name = 'aforo'");
        pids.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Lets all other processes go before this server's, also those that it starts from now on.
    pub fn yield_to_others(&self) {
        let server = self.server.as_ref().expect("it runs").id();
        run(Command::new("renice").args(["-n", "19", "-p", &server.to_string()]));
    }

    /// Starts it on its port with the data it had.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.try_start(), "{}", self.log());
        let exists = format!("select from pg_database where datname = '{DATABASE}'");
        let count = format!("select count(*) from ({exists}) as found");
        if self.sql_in("postgres", &count) == "0" {
            self.sql_in("postgres", &format!("create database {DATABASE}"));
        }
    }

    /// Ends it at once, with all its processes and without a word to their clients.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            if server.try_wait().unwrap().is_none() {
                send_signal(server.id(), "QUIT");
            }
            let _ = server.wait();
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Whether it answers within the deadline; not where it ended, as for a port that is taken.
    fn try_start(&mut self) -> bool {
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let mut server = command("postgres")
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .args(["-p", &self.port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories="])
            .args(["-c", "fsync=off", "-c", "shared_buffers=32MB"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut ended = false;
        eventually("PostgreSQL answers", || {
            ended = server.try_wait().unwrap().is_some();
            ended || self.run_psql("postgres", "select 1").0
        });
        self.server = Some(server);
        !ended
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One psql that stays open. Notifications appear among what it prints.
pub struct Session {
    psql: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    done: u32,
}

impl Session {
    fn new(mut psql: Command) -> Self {
        let mut psql = psql.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(psql.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            input: psql.stdin.take().unwrap(),
            psql,
            lines,
            done: 0,
        }
    }

    /// Runs statements and gives the lines that they and the notifications before their end made.
    #[track_caller]
    pub fn sql(&mut self, statements: &str) -> Vec<String> {
        self.done += 1;
        let end = format!("done-{}", self.done);
        writeln!(self.input, "{statements};\n\\echo {end}").unwrap();
        self.input.flush().unwrap();
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == end => return lines,
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("no end of {statements}: {lines:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("failed: {statements}: {lines:?}"),
            }
        }
    }

    /// The payloads of the notifications that came by now. Whoever changed something has committed
    /// before, so that they are there.
    #[track_caller]
    pub fn notifications(&mut self) -> Vec<String> {
        // Two turns: psql looks for notifications at the end of each statement.
        let mut lines = self.sql("select");
        lines.extend(self.sql("select"));
        lines
            .iter()
            .filter_map(|line| {
                let (_, rest) = line.split_once("with payload \"")?;
                let (payload, _) = rest.rsplit_once("\" received")?;
                Some(payload.to_owned())
            })
            .collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}

/// What `initdb` makes, kept between tests: it takes seconds on a busy machine.
fn template() -> PathBuf {
    let programs = programs();
    let version = programs.parent().and_then(Path::file_name).unwrap();
    let name = format!("postgres-{}", version.to_string_lossy());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Makes a folder the server's.
fn give_away(folder: &Path) {
    if let Some(user) = user() {
        let owner = format!("{user}:{}", user_group(user));
        run(Command::new("chown").arg("-R").arg(owner).arg(folder));
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A program of the server, run by somebody that it accepts: it refuses to be root.
fn command(program: &str) -> Command {
    let program = programs().join(program);
    let mut command = match user() {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command
                .args([
                    "--reuid",
                    user,
                    "--regid",
                    user_group(user),
                    "--clear-groups",
                ])
                .arg(program);
            command
        }
        None => Command::new(program),
    };
    // It must be somewhere that this user may be.
    command.current_dir("/");
    command
}

/// Who the server runs as, where we are root.
fn user() -> Option<&'static str> {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let known = |name: &str| {
        let users = fs::read_to_string("/etc/passwd").unwrap();
        users
            .lines()
            .any(|line| line.starts_with(&format!("{name}:")))
    };
    root.then(|| {
        if known("postgres") {
            "postgres"
        } else {
            "nobody"
        }
    })
}

fn user_group(user: &str) -> &str {
    if user == "nobody" { "nogroup" } else { user }
}

/// Where the server's programs are: Debian keeps each version's apart.
fn programs() -> PathBuf {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = folders
        .filter_map(|folder| {
            let path = folder.ok()?.path();
            let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
            let bin = path.join("bin");
            bin.join("postgres").exists().then_some((version, bin))
        })
        .max();
    match newest {
        Some((_, folder)) => folder,
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .find(|folder| folder.join("postgres").exists())
            .expect("PostgreSQL is installed"),
    }
}

/// How soon a change has to be in force where it is announced.
pub const ANNOUNCED: Duration = Duration::from_secs(1);
