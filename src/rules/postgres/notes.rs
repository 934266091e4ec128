//! Naming the rows that are not used as they are: each once, and never so many lines that a
//! broken table drowns the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tracing::warn;

#[cfg(test)]
mod tests;

/// Rows that are remembered. Of more, the rest is counted alone.
const MOST_ROWS: usize = 10_000;
/// Lines within [`WINDOW`]. Of more, the number alone is said.
const MOST_LINES: usize = 20;
const WINDOW: Duration = Duration::from_secs(10);

type Pair = (String, String);

/// What was found wrong while rows were read.
#[derive(Default)]
pub struct Findings {
    rows: Vec<(Pair, String)>,
    more: usize,
}

impl Findings {
    /// Something about the row of this pair.
    pub fn add(&mut self, tenant: &str, route: &str, what: impl FnOnce() -> String) {
        if self.rows.len() < MOST_ROWS {
            let pair = (tenant.to_owned(), route.to_owned());
            self.rows.push((pair, what()));
        } else {
            self.more += 1;
        }
    }

    fn by_pair(self) -> HashMap<Pair, String> {
        let mut rows: HashMap<Pair, String> = HashMap::new();
        for (pair, what) in self.rows {
            rows.entry(pair)
                .and_modify(|all| *all = format!("{all}; {what}"))
                .or_insert(what);
        }
        rows
    }
}

/// What was said already.
#[derive(Default)]
pub struct Notes {
    named: HashMap<Pair, String>,
    window: Option<Instant>,
    lines: usize,
    unsaid: usize,
}

impl Notes {
    /// These are all findings, of a load of every row.
    pub fn all(&mut self, findings: Findings) {
        let more = findings.more;
        let now = findings.by_pair();
        for line in self.news(&now) {
            self.say(&line);
        }
        self.named = now;
        if more > 0 {
            warn!("rate_limit_rule: {more} more rows are not used as they are");
        }
        self.say_unsaid();
    }

    /// These are the findings among the rows of `pairs`.
    pub fn some(&mut self, pairs: &[Pair], findings: Findings) {
        let now = findings.by_pair();
        for line in self.news(&now) {
            self.say(&line);
        }
        for pair in pairs {
            self.named.remove(pair);
        }
        let room = MOST_ROWS.saturating_sub(self.named.len());
        self.named.extend(now.into_iter().take(room));
        self.say_unsaid();
    }

    /// A line for each finding that was not said before. Names are escaped: they come from
    /// whoever may write the table.
    fn news(&self, now: &HashMap<Pair, String>) -> Vec<String> {
        let new = now
            .iter()
            .filter(|(pair, what)| self.named.get(*pair) != Some(*what));
        let mut lines: Vec<String> = new
            .map(|((tenant, route), what)| {
                format!("rate_limit_rule: tenant {tenant:?} on route {route:?}: {what}")
            })
            .collect();
        lines.sort_unstable();
        lines
    }

    fn say(&mut self, line: &str) {
        let now = Instant::now();
        if self.window.is_none_or(|begun| now - begun >= WINDOW) {
            self.window = Some(now);
            self.lines = 0;
        }
        if self.lines < MOST_LINES {
            self.lines += 1;
            warn!("{line}");
        } else {
            self.unsaid += 1;
        }
    }

    fn say_unsaid(&mut self) {
        if self.unsaid > 0 {
            warn!(
                "rate_limit_rule: {} more rows are not used as they are, and not named here",
                self.unsaid
            );
            self.unsaid = 0;
        }
    }
}
