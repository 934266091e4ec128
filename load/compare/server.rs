//! The one Redis of a comparison.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::machine::Machine;
use super::process::{Process, free_address};

/// A redis-server, with nothing on disk.
pub struct Redis {
    pub address: SocketAddr,
    pub process: Process,
    _folder: TempDir,
}

impl Redis {
    /// Starts one beside client and upstream.
    pub fn start(machine: &Machine) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let address = free_address();
        let log = folder.path().join("log");
        let (port, here) = (
            address.port().to_string(),
            folder.path().display().to_string(),
        );
        let arguments = [
            "--bind",
            "127.0.0.1",
            "--port",
            &port,
            "--dir",
            &here,
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let mut process =
            Process::start(&machine.others, "redis-server".as_ref(), &arguments, &log)?;
        process.listens(address, &log)?;
        Ok(Self {
            address,
            process,
            _folder: folder,
        })
    }

    /// Forgets all buckets.
    pub fn clear(&self) -> Result<(), String> {
        self.query::<()>(&["FLUSHALL"])
    }

    /// How many scripts were called so far.
    pub fn calls(&self) -> Result<u64, String> {
        let stats: String = self.query(&["INFO", "commandstats"])?;
        let calls = |line: &str| {
            let (name, rest) = line.split_once(":calls=")?;
            let (calls, _) = rest.split_once(',')?;
            let counts = matches!(name, "cmdstat_evalsha" | "cmdstat_eval");
            counts.then(|| calls.parse::<u64>().ok()).flatten()
        };
        Ok(stats.lines().filter_map(calls).sum())
    }

    fn query<T: redis::FromRedisValue>(&self, words: &[&str]) -> Result<T, String> {
        let ask = || {
            let client = redis::Client::open(format!("redis://{}", self.address))?;
            let mut connection = client.get_connection()?;
            redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
        };
        ask().map_err(|error: redis::RedisError| format!("Redis, {words:?}: {error}"))
    }
}
