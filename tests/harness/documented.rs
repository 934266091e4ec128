//! What the documentation tells users to type.

use std::fs;
use std::path::Path;

/// The first `ACL SETUSER aforo …` behind these words in `docs/redis.md`, on one line. The password
/// is `PASSWORD`.
#[track_caller]
pub fn documented_user(behind: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/redis.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(behind).unwrap();
    let line = rest
        .lines()
        .find(|line| line.starts_with("ACL SETUSER aforo "));
    line.unwrap_or_else(|| panic!("no line behind {behind}"))
        .to_owned()
}
