//! wrk, which asks as fast as it is answered, over 64 connections.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::process;

const CONNECTIONS: &str = "64";
const SCRIPT: &str = include_str!("wrk.lua");

/// What wrk measured.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Answers.
    pub requests: u64,
    pub seconds: f64,
    /// Milliseconds.
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// Answers with a status of 400 or more.
    pub refused: u64,
    /// Requests without an answer.
    pub broken: u64,
}

/// Loads `address` for so long with requests of so many tenants.
pub fn run(cores: &str, address: SocketAddr, seconds: u32, keys: u32) -> Result<Load, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let script = folder.path().join("wrk.lua");
    std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let output = process::behind_redis(cores)
        .args(["wrk", "-t1", "-c", CONNECTIONS])
        .args(["-d", &format!("{seconds}s"), "-s"])
        .arg(&script)
        .arg(format!("http://{address}/x"))
        .env("KEYS", keys.to_string())
        .output()
        .map_err(|error| format!("wrk: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("result "));
    read(line.unwrap_or_default()).ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("wrk said nothing that can be read: {text}{error}")
    })
}

fn read(line: &str) -> Option<Load> {
    let fields: HashMap<&str, u64> = line
        .split_ascii_whitespace()
        .filter_map(|field| {
            let (name, value) = field.split_once('=')?;
            Some((name, value.parse().ok()?))
        })
        .collect();
    let field = |name| fields.get(name).copied();
    let millis = |name| field(name).map(|micros| micros as f64 / 1e3);
    Some(Load {
        requests: field("requests")?,
        seconds: field("micros")? as f64 / 1e6,
        p50: millis("p50")?,
        p99: millis("p99")?,
        p999: millis("p999")?,
        refused: field("refused")?,
        broken: field("broken")?,
    })
}
