//! A real redis-server, and what can happen to it.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::FromRedisValue;

/// How long a server may take to answer, also one that loads half a gigabyte.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Server {
    pub address: SocketAddr,
    process: Option<Child>,
    folder: tempfile::TempDir,
    /// A shell whose built-in `kill` sends signals, for starting a program each time takes longer
    /// than the stalls that are wanted.
    shell: Child,
}

impl Server {
    /// A server that runs.
    pub fn start() -> Self {
        let mut server = Self::absent();
        server.restart();
        server
    }

    /// A port at which no server runs yet.
    pub fn absent() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let shell = Command::new("sh").stdin(Stdio::piped()).spawn().unwrap();
        Self {
            address: free.local_addr().unwrap(),
            process: None,
            folder: tempfile::tempdir().unwrap(),
            shell,
        }
    }

    /// Starts it empty, in place of the one that ran.
    pub fn restart(&mut self) {
        self.kill();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port"])
            .arg(self.address.port().to_string())
            .args(["--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "local"])
            .arg("--dir")
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server");
        self.process = Some(process);
        let began = Instant::now();
        while self.try_query::<String>(&["PING"]).is_err() {
            assert!(began.elapsed() < PATIENCE, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn signal(&mut self, name: &str) {
        let pid = self.process.as_ref().map_or(0, Child::id);
        let shell = self.shell.stdin.as_mut().unwrap();
        writeln!(shell, "kill -{name} {pid}").unwrap();
        shell.flush().unwrap();
    }

    /// Keeps it to one core.
    pub fn pin(&self, core: usize) {
        let pid = self.process.as_ref().map_or(0, Child::id).to_string();
        let status = Command::new("taskset")
            .args(["-a", "-c", "-p", &core.to_string(), &pid])
            .stdout(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "taskset");
    }

    pub fn query<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_query(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    fn try_query<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://{}", self.address))?;
        let mut connection = client.get_connection_with_timeout(PATIENCE)?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
