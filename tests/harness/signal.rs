//! Signals by name.

use std::process::Command;

/// By the shell's own `kill`, which needs no package.
pub fn send_signal(process: u32, name: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {process}")])
        .status()
        .unwrap();
    assert!(status.success(), "kill -{name} {process}: {status}");
}
