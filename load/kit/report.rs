//! What a load test found: shown, and written beside the test, with its plots.

use std::fs;
use std::path::PathBuf;

use super::machine;

/// Text, tables and plots of one run. One that is aside (`--quick`, or with another load) leaves what
/// is committed alone and writes into `target/load`.
pub struct Report {
    folder: PathBuf,
    text: String,
}

impl Report {
    /// `name` is the test's folder in `load/`, `command` what was typed.
    pub fn new(name: &str, command: &str, aside: bool) -> Self {
        let parent = if aside { "target/load" } else { "load" };
        let folder = [env!("CARGO_MANIFEST_DIR"), parent, name].iter().collect();
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        let short = if aside {
            " Not the run that is committed: shorter, or with another load."
        } else {
            ""
        };
        let mut report = Self {
            folder,
            text: String::new(),
        };
        report.line("# Results\n");
        report.line(&format!(
            "Of `{command}`, on {} cores ({}).{short}",
            machine::cores(),
            machine::processor()
        ));
        report
    }

    /// A paragraph, or what one likes.
    pub fn line(&mut self, text: &str) {
        println!("{text}");
        self.text += text;
        self.text.push('\n');
    }

    /// A table.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let mut lines = vec![format!("\n| {} |", head.join(" | "))];
        lines.push(format!("|{}", "---|".repeat(head.len())));
        lines.extend(rows.iter().map(|row| format!("| {} |", row.join(" | "))));
        self.line(&(lines.join("\n") + "\n"));
    }

    /// Where a plot goes; the report shows it.
    pub fn plot(&mut self, name: &str, what: &str) -> PathBuf {
        self.line(&format!("![{what}]({name}.svg)"));
        self.folder.join(format!("{name}.svg"))
    }

    /// Writes `results.md`.
    pub fn finish(self) {
        let path = self.folder.join("results.md");
        fs::write(&path, self.text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}
