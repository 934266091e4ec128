//! `aforo check --connect`.

use super::{Config, Process};
use std::fs;
use tempfile::TempDir;

/// What it prints for a Redis at this URL, and whether it liked it.
pub fn check(url: &str, keys: &str) -> (bool, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("aforo.yaml");
    let config = Config::with_upstream_address("127.0.0.1:9").redis_url(url, 1, keys);
    let yaml = config
        .yaml()
        .replace("{listen}", "127.0.0.1:1")
        .replace("{admin}", "127.0.0.1:2");
    fs::write(&file, yaml).unwrap();
    let (process, status) =
        Process::run_aforo(&["check", "--connect", "-c", file.to_str().unwrap()]);
    (status.success(), process.stdout() + &process.stderr())
}
