//! What can be wrong with a configuration, and how that is said: one line for each problem, with its place.
//!
//! Messages are cleaned here once for all: they keep to one line, and they never show the password of a URL.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

/// Why a configuration cannot be used. Displayed, it is one line a problem, each beginning with the file.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error("{file}: cannot be read: {cause}")]
    Read {
        /// The file's path as it was given.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The text is no YAML, or it has not the shape of a configuration. The first such error alone is known:
    /// nothing behind it can be trusted.
    #[error("{file}:{line}:{column}: {message}")]
    Shape {
        /// The file's path, or the name of a built-in configuration.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1, in the text as it stands in the file (before variables were replaced).
        column: usize,
        /// What is wrong, in one line.
        message: String,
    },
    /// The text has the right shape, but what it says cannot be. All such problems at once.
    #[error("{}", lines(file, problems))]
    Meaning {
        /// The file's path, or the name of a built-in configuration.
        file: String,
        /// What is wrong, in the order of the file's sections; never empty.
        problems: Vec<Problem>,
    },
}

/// One error of meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, as in `routes[2].upstream`; indices count from 0.
    pub path: String,
    /// What is wrong and what would be right, in one line.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects the problems of one file, so that a person sees all of them at once.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// Adds one problem.
    pub(super) fn add(&mut self, path: impl Into<String>, message: impl AsRef<str>) {
        self.0.push(Problem {
            path: clean(&path.into()),
            message: clean(message.as_ref()),
        });
    }

    /// All problems, in the order in which they were added.
    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// Keeps a message to one line and hides what stands between `://` and `@` of a URL.
pub(super) fn clean(message: &str) -> String {
    let mut clean = String::with_capacity(message.len());
    // Values stand between quotes, and may hold white space.
    for (place, part) in message.split_inclusive(['"', '`']).enumerate() {
        if place % 2 == 1 {
            clean.push_str(&without_credentials(part));
        } else {
            let words = part.split_inclusive(char::is_whitespace);
            clean.extend(words.map(|word| match word.contains("://") {
                true => without_credentials(word),
                false => Cow::Borrowed(word),
            }));
        }
    }
    if clean.contains(char::is_control) {
        clean = clean
            .chars()
            .flat_map(|c| {
                let escaped = c.is_control().then(|| c.escape_default());
                let plain = (!c.is_control()).then_some(c);
                escaped.into_iter().flatten().chain(plain)
            })
            .collect();
    }
    clean
}

/// Hides what stands in front of the last `@`: from `://` on, or else the word with a colon in it.
fn without_credentials(part: &str) -> Cow<'_, str> {
    let hidden = part.rfind('@').and_then(|at| {
        let start = match part[..at].find("://") {
            Some(scheme) => scheme + 3,
            None => {
                let colon = part[..at].find(':')?;
                part[..colon]
                    .rfind(char::is_whitespace)
                    .map_or(0, |space| space + 1)
            }
        };
        Some(start..at)
    });
    match hidden {
        Some(hidden) => Cow::Owned(format!(
            "{}***{}",
            &part[..hidden.start],
            &part[hidden.end..]
        )),
        None => Cow::Borrowed(part),
    }
}

/// Every problem in a line of its own, each with the file's name.
fn lines(file: &str, problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("{file}: {problem}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_to_one_line_and_hides_credentials() {
        for (message, cleaned) in [
            ("plain", "plain"),
            ("two\nlines\there", "two\\nlines\\there"),
            (
                "invalid type: string \"redis://me:s@cret@host:1/0\", expected a mapping",
                "invalid type: string \"redis://***@host:1/0\", expected a mapping",
            ),
            (
                "redis://host:1 and redis://u:p@h",
                "redis://host:1 and redis://***@h",
            ),
            (
                "invalid type: string \"redis://u:two words@h:1\", expected a mapping",
                "invalid type: string \"redis://***@h:1\", expected a mapping",
            ),
            (
                "`me:secret@127.0.0.1:1` must be `host:port` (or user:password@host)",
                "`***@127.0.0.1:1` must be `host:port` (or user:password@host)",
            ),
        ] {
            assert_eq!(clean(message), cleaned);
        }
    }

    #[test]
    fn every_problem_gets_a_line_with_the_file() {
        let mut problems = Problems::default();
        problems.add("a", "is wrong");
        problems.add("b[1].c", "is wrong too");
        let error = ConfigError::Meaning {
            file: "f.yaml".to_owned(),
            problems: problems.into_vec(),
        };
        assert_eq!(
            error.to_string(),
            "f.yaml: a: is wrong\nf.yaml: b[1].c: is wrong too"
        );
    }
}
