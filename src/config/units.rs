//! How durations and sizes are written in the file: a whole number and its unit, without a space (`5ms`, `64KiB`).
//!
//! It only reads text. Whether a value is sensible for its key is the business of `validate`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The longest duration that a file may hold. It keeps every sum with an `Instant` far from overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What a duration looks like, for messages.
const DURATION_FORM: &str = "a duration such as 5ms, 30s, 2m or 1h";

/// What a size looks like, for messages.
const SIZE_FORM: &str = "a size such as 512B, 64KiB, 10MiB or 1GiB";

/// A duration as the file holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

/// Reads `5ms`, `30s`, `2m` or `1h`.
///
/// A number without a unit is refused: nobody can tell whether `timeout: 5` means seconds or milliseconds.
///
/// # Errors
///
/// A sentence that says what is wrong and what a duration looks like.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text, DURATION_FORM)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => {
            return Err(format!("`{text}` has no unit, expected {DURATION_FORM}"));
        }
        _ => {
            return Err(format!(
                "`{text}` has an unknown unit, expected {DURATION_FORM}"
            ));
        }
    };
    number
        .checked_mul(milliseconds)
        .map(Duration::from_millis)
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| format!("`{text}` is too long, at most 8784h"))
}

/// Reads `512B`, `64KiB`, `10MiB` or `1GiB` as a number of bytes.
///
/// # Errors
///
/// A sentence that says what is wrong and what a size looks like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text, SIZE_FORM)?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "" => return Err(format!("`{text}` has no unit, expected {SIZE_FORM}")),
        _ => {
            return Err(format!(
                "`{text}` has an unknown unit, expected {SIZE_FORM}"
            ));
        }
    };
    number
        .checked_mul(bytes)
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// Writes a duration as the file does, in the largest unit that holds it whole.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    match milliseconds {
        0 => "0s".to_owned(),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

/// Splits `5ms` into its number and its unit.
fn split<'a>(text: &'a str, form: &str) -> Result<(u64, &'a str), String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(format!("`{text}` is not {form}"));
    }
    if unit.starts_with(['.', ',']) {
        return Err(format!("`{text}` is not a whole number, expected {form}"));
    }
    match digits.parse() {
        Ok(number) => Ok((number, unit)),
        Err(_) => Err(format!("`{text}` is too large")),
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimeVisitor;

        impl Visitor<'_> for TimeVisitor {
            type Value = Time;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(DURATION_FORM)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                parse_duration(text).map(Time).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(TimeVisitor)
    }
}

#[cfg(test)]
mod tests;
