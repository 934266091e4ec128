//! From text to the file's shape, or to the first error with its place.
//!
//! What the values mean is not looked at. YAML's reader places most errors itself; a key that is there twice it
//! either places at the mapping's start or does not see, so a second pass (`Unique`) finds it.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::env::{self, Text};
use super::error::{ConfigError, clean};
use super::raw::File;

/// Reads a text whose variables are still to be replaced. The text comes back too, to speak of what it holds.
pub(super) fn parse(
    name: &str,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(File, Text), ConfigError> {
    let text = env::replace(text, env).map_err(|failure| ConfigError::Shape {
        file: name.to_owned(),
        line: failure.line,
        column: failure.column,
        message: clean(&failure.message),
    })?;
    let file = serde_yaml::from_str::<File>(&text.text);
    let twice = serde_yaml::from_str::<Unique>(&text.text).err();
    match (file, twice) {
        (Ok(file), None) => Ok((file, text)),
        (Ok(_), Some(twice)) => Err(shape(name, &text, &twice)),
        (Err(error), None) => Err(shape(name, &text, &error)),
        (Err(error), Some(twice)) => {
            // What is no YAML at all comes before everything: only the second pass sees it for what it is. Otherwise
            // the first in the file counts, and for one and the same doubled key the better place.
            let no_yaml = !twice.to_string().contains(TWICE);
            let same = error.to_string().contains("duplicate field `");
            if no_yaml || same || place(&twice) < place(&error) {
                Err(shape(name, &text, &twice))
            } else {
                Err(shape(name, &text, &error))
            }
        }
    }
}

/// The admin listener's address in a text that may have any other fault but that of being no YAML.
pub(super) fn admin_address(text: &str) -> Option<SocketAddr> {
    // A variable that is not set leaves nothing, as it would in a shell.
    let env = |variable: &str| Some(std::env::var(variable).unwrap_or_default());
    let text = env::replace(text, &env).ok()?;
    let file: serde_yaml::Value = serde_yaml::from_str(&text.text).ok()?;
    file.get("admin")?.get("address")?.as_str()?.parse().ok()
}

/// What is said about a key that is there twice.
const TWICE: &str = "is here twice";

/// Line and column of an error in the replaced text; the beginning where the reader does not say.
fn place(error: &serde_yaml::Error) -> (usize, usize) {
    error
        .location()
        .map_or((1, 1), |at| (at.line(), at.column()))
}

/// One of YAML's errors as ours: placed in the file, without the reader's own mention of the place.
fn shape(name: &str, text: &Text, error: &serde_yaml::Error) -> ConfigError {
    let (line, column) = place(error);
    let message = error.to_string();
    let own_place = format!(" at line {line} column {column}");
    let message = match message.rfind(&own_place) {
        // The reader's words, with what it was in the middle of (", while parsing ... at line 1 column 1").
        Some(at) => message[..at].to_owned() + &message[at + own_place.len()..],
        None => message,
    };
    let message = text.hide(line, column, &message);
    let message = without_credentials(message);
    let (line, column) = text.place(line, column);
    ConfigError::Shape {
        file: name.to_owned(),
        line,
        column,
        message: clean(&message),
    }
}

/// Does not name a key that is the tail of a URL: unquoted between braces, a comma in a password ends the value.
fn without_credentials(message: String) -> String {
    const UNKNOWN: &str = "unknown field `";
    let key = message.find(UNKNOWN).and_then(|at| {
        let start = at + UNKNOWN.len();
        let end = start + message[start..].find("`, expected ")?;
        message[start..end].contains('@').then_some((start, end))
    });
    match key {
        Some((start, end)) => format!("{}***{}", &message[..start], &message[end..]),
        None => message,
    }
}

/// Any YAML in which no mapping holds a key twice.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unique)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    /// A text without any value.
    fn visit_none<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while map.next_key_seed(NewKey(&mut seen))?.is_some() {
            map.next_value::<Self>()?;
        }
        Ok(self)
    }

    /// A value with a tag, which no key takes: the first pass says so.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Self, A::Error> {
        let (_, value) = tagged.variant::<IgnoredAny>()?;
        value.newtype_variant::<Self>()
    }
}

/// A key that is not among those seen; refused from within, so that the error is placed at the key.
struct NewKey<'a>(&'a mut HashSet<String>);

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NewKey<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        if self.0.insert(key.to_owned()) {
            Ok(())
        } else {
            Err(E::custom(format_args!("`{key}` {TWICE}")))
        }
    }
}

#[cfg(test)]
mod tests;
