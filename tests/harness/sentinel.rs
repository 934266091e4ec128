//! A primary of a test's own, its replica, and Sentinels that watch them.

use super::{Process, Redis, eventually, free_port, redis_program};
use std::collections::HashMap;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// A primary, its replica, and three Sentinels that watch them.
pub struct Group {
    pub primary: Redis,
    pub replica: Redis,
    pub sentinels: Vec<Sentinel>,
}

pub struct Sentinel {
    /// Where the test asks it.
    port: u16,
    /// Where gateways do, with TLS or without.
    public: u16,
    process: Process,
}

impl Group {
    pub fn start() -> Self {
        Self::make(None)
    }

    /// All of them speak TLS to each other, and plainly to the test. `tls` gives the certificates as
    /// words of the command line.
    pub fn with_tls(tls: &[&str]) -> Self {
        Self::make(Some(tls))
    }

    fn make(tls: Option<&[&str]>) -> Self {
        let server = |of: Option<u16>| {
            let tls_port = free_port();
            let shown = tls_port.to_string();
            let mut settings = Vec::new();
            if let Some(tls) = tls {
                settings.extend(["--tls-port", &shown, "--tls-replication", "yes"]);
                settings.extend(tls);
            }
            let of = of.map(|port| port.to_string());
            if let Some(port) = &of {
                settings.extend(["--replicaof", "127.0.0.1", port]);
            }
            let redis = Redis::start_with(&settings);
            let port = tls.map_or(redis.port(), |_| tls_port);
            (redis, port)
        };
        let (primary, port) = server(None);
        let (replica, _) = server(Some(port));
        let sentinels = (0..3).map(|_| Sentinel::start(port, tls)).collect();
        let group = Self {
            primary,
            replica,
            sentinels,
        };
        eventually("the Sentinels know each other and the replica", || {
            group.sentinels.iter().all(|sentinel| {
                let state: Option<HashMap<String, String>> =
                    sentinel.ask(&["SENTINEL", "MASTER", "main"]);
                state.is_some_and(|state| {
                    state["num-other-sentinels"] == "2" && state["num-slaves"] == "1"
                })
            })
        });
        group
    }

    /// `redis+sentinel://` of all Sentinels; with TLS it is `rediss`.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(Sentinel::address).collect();
        let tls = self.sentinels.iter().any(|s| s.public != s.port);
        let tls = if tls { "s" } else { "" };
        format!("redis{tls}+sentinel://{}/main", hosts.join(","))
    }

    /// The port of the primary that the first Sentinel names.
    pub fn named(&self) -> Option<String> {
        let named: Option<(String, String)> =
            self.sentinels[0].ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
        named.map(|(_, port)| port)
    }
}

impl Sentinel {
    /// One that watches the primary at this port as `main`; two must agree that it is down.
    pub fn start(primary: u16, tls: Option<&[&str]>) -> Self {
        let folder = TempDir::new().unwrap();
        let (port, tls_port) = (free_port(), free_port());
        let file = folder.path().join("sentinel.conf");
        let mut text = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\n\
             sentinel monitor main 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 3000\n",
            folder.path().display()
        );
        for pair in tls.unwrap_or_default().chunks_exact(2) {
            text += &format!("{} {}\n", pair[0].trim_start_matches("--"), pair[1]);
        }
        if tls.is_some() {
            text += &format!("tls-port {tls_port}\ntls-replication yes\n");
        }
        fs::write(&file, text).unwrap();
        let arguments = [file.to_str().unwrap(), "--sentinel"];
        let sentinel = Self {
            port,
            public: tls.map_or(port, |_| tls_port),
            process: Process::spawn(&redis_program(), &arguments, folder),
        };
        eventually("a Sentinel answers", || {
            sentinel.ask::<String>(&["PING"]).is_some()
        });
        sentinel
    }

    /// Where gateways ask it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.public)
    }

    /// What it says, if it answers and that is no error.
    pub fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let client = redis::Client::open(url).unwrap();
        let mut connection = client
            .get_connection_with_timeout(Duration::from_secs(5))
            .ok()?;
        redis::cmd(words[0])
            .arg(&words[1..])
            .query(&mut connection)
            .ok()
    }
}
