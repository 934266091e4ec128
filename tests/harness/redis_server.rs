//! A Redis server of a test's own.

use super::{PATIENCE, eventually, free_port, send_signal};
use redis::FromRedisValue;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The key of a bucket; names are taken as they are.
pub fn bucket_key(tenant: &str, route: &str) -> String {
    format!("rl:{{{tenant}}}:{route}")
}

/// The program that tests run as Redis: `AFORO_TEST_REDIS`, as `valkey-server`, or what is usual.
pub fn program() -> PathBuf {
    std::env::var_os("AFORO_TEST_REDIS").map_or_else(|| "redis-server".into(), PathBuf::from)
}

pub struct Redis {
    port: u16,
    folder: TempDir,
    server: Option<Child>,
    /// Further settings, as words of the command line.
    settings: Vec<String>,
}

impl Redis {
    /// Starts a server and waits until it answers.
    pub fn start() -> Self {
        for _ in 0..5 {
            let mut redis = Self::absent();
            if redis.try_start() {
                return redis;
            }
        }
        panic!("redis-server does not start on any port; is it installed?");
    }

    /// Starts a server with further settings, as `--cluster-enabled yes`.
    pub fn start_with(settings: &[&str]) -> Self {
        for _ in 0..5 {
            let mut redis = Self::absent();
            redis.settings = settings.iter().map(|&word| word.to_owned()).collect();
            if redis.try_start() {
                return redis;
            }
        }
        panic!("redis-server does not start on any port; is it installed?");
    }

    /// A server that does not run yet: [`Redis::restart`] starts it.
    pub fn absent() -> Self {
        Self {
            port: free_port(),
            folder: TempDir::new().unwrap(),
            server: None,
            settings: Vec::new(),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts it on its port, empty, in place of the one that ran there.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.try_start(), "port {} is taken", self.port);
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Its sockets stay open, and nothing answers.
    pub fn pause(&self) {
        send_signal(self.server.as_ref().unwrap().id(), "STOP");
    }

    pub fn resume(&self) {
        send_signal(self.server.as_ref().unwrap().id(), "CONT");
    }

    /// Runs a command, its words as they are.
    #[track_caller]
    pub fn query<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command
            .query(&mut self.connection())
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The same of a server that may hang up.
    pub fn try_query<T: FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        let client = redis::Client::open(self.url()).ok()?;
        let mut connection = client.get_connection_with_timeout(PATIENCE).ok()?;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut connection).ok()
    }

    /// A connection of one's own.
    #[track_caller]
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url())
            .and_then(|client| client.get_connection_with_timeout(PATIENCE))
            .unwrap_or_else(|error| panic!("connecting to {}: {error}", self.url()))
    }

    pub fn script_flush(&self) {
        self.query::<()>(&["SCRIPT", "FLUSH"]);
    }

    pub fn flushall(&self) {
        self.query::<()>(&["FLUSHALL"]);
    }

    #[track_caller]
    pub fn exists(&self, key: &str) -> bool {
        self.query(&["EXISTS", key])
    }

    /// Keys that match a pattern, in order.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.query(&["KEYS", pattern]);
        keys.sort_unstable();
        keys
    }

    /// The fields of a bucket.
    #[track_caller]
    pub fn hash(&self, key: &str) -> HashMap<String, String> {
        self.query(&["HGETALL", key])
    }

    /// The tokens in a bucket, as of its `ts`.
    #[track_caller]
    pub fn tokens(&self, key: &str) -> f64 {
        let tokens: String = self.query(&["HGET", key, "tokens"]);
        tokens.parse().unwrap()
    }

    /// Its own clock, in milliseconds.
    pub fn time_ms(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.query(&["TIME"]);
        seconds * 1_000 + micros / 1_000
    }

    /// What it is, as `Redis 7.0.15` or `Valkey 9.0.0`.
    pub fn name(&self) -> String {
        let info: String = self.query(&["INFO", "server"]);
        let of = |field: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(field))?;
            Some(line.trim().to_owned())
        };
        of("valkey_version:").map_or_else(
            || format!("Redis {}", of("redis_version:").unwrap()),
            |version| format!("Valkey {version}"),
        )
    }

    /// How often scripts were run.
    pub fn script_calls(&self) -> u64 {
        let stats: String = self.query(&["INFO", "commandstats"]);
        let scripts = stats
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_eval"));
        scripts
            .filter_map(|line| {
                line.split_once("calls=")?
                    .1
                    .split(',')
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .sum()
    }

    /// Writes a bucket as another gateway does: so many tokens, so many milliseconds ago.
    pub fn set_bucket(&self, key: &str, tokens: f64, age_ms: i64) {
        let tokens = tokens.to_string();
        let ts = (self.time_ms() - age_ms).to_string();
        self.query::<()>(&["HSET", key, "tokens", &tokens, "ts", &ts]);
    }

    /// Makes a bucket so much older, as if that time had passed for it.
    #[track_caller]
    pub fn shift_time(&self, key: &str, ms: i64) {
        let _: i64 = self.query(&["HINCRBY", key, "ts", &(-ms).to_string()]);
    }

    /// Whether it answers within the deadline; not where it ended, as for a port that is taken.
    fn try_start(&mut self) -> bool {
        let mut server = Command::new(program())
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program().display()));
        let mut ended = false;
        eventually("redis-server answers", || {
            ended = server.try_wait().unwrap().is_some();
            ended || self.answers()
        });
        self.server = Some(server);
        !ended
    }

    fn answers(&self) -> bool {
        redis::Client::open(self.url())
            .and_then(|client| client.get_connection())
            .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection))
            .is_ok()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
