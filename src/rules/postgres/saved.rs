//! The last good rules in a file, for a start without the database.
//!
//! The file takes the place of the one before it as a whole, or not at all, and it says itself
//! whether it is whole: a checksum stands beside the rules.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use thiserror::Error;

use crate::limit::{OnStoreFailure, Rule};
use crate::rules::Layer;
use crate::rules::layer::Builder;

#[cfg(test)]
mod tests;

/// The version of the format.
const VERSION: u32 = 2;

/// What the file holds.
#[derive(Deserialize, Serialize)]
struct Contents<'c> {
    /// Of the format.
    version: u32,
    /// When it was written, in seconds since 1970.
    written: u64,
    /// CRC-32 of the text of `rules`.
    crc32: u32,
    /// Tenant, route, capacity, tokens per second, shadow, on_store_failure, shards.
    #[serde(borrow)]
    rules: &'c RawValue,
}

/// Rules that were kept.
pub struct Saved {
    /// The rules.
    pub layer: Layer,
    /// How long ago they were written.
    pub age: Duration,
}

/// Why there are no rules in a file.
#[derive(Debug, Error)]
pub enum SavedError {
    /// It cannot be read.
    #[error("reading {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is not what was written.
    #[error("reading {path}: it is broken, and ignored: {what}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// In what way.
        what: String,
    },
}

/// Reads the rules in a file, if it is there.
///
/// # Errors
///
/// Where it is there, and cannot be read or is not whole.
pub fn read(path: &Path) -> Result<Option<Saved>, SavedError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let path = path.to_owned();
            return Err(SavedError::Read { path, error });
        }
    };
    parse(&text).map(Some).map_err(|what| SavedError::Broken {
        path: path.to_owned(),
        what,
    })
}

fn parse(text: &str) -> Result<Saved, String> {
    // The version first: what else a later one holds is not known.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version != VERSION {
        return Err(format!("it has the version {version}, not {VERSION}"));
    }
    let contents: Contents<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if crc32fast::hash(contents.rules.get().as_bytes()) != contents.crc32 {
        return Err("its checksum is another one".to_owned());
    }
    let rules: Vec<(String, String, u32, f64, bool, String, u32)> =
        serde_json::from_str(contents.rules.get()).map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    for (tenant, route, capacity, refill, shadow, failure, shards) in rules {
        let rule = Rule::new(capacity, refill).map_err(|error| error.to_string())?;
        let failure = OnStoreFailure::from_name(&failure)
            .ok_or_else(|| format!("it knows no on_store_failure {failure:?}"))?;
        let rule = rule.with_shards(shards);
        let rule = rule.with_shadow(shadow).with_on_store_failure(failure);
        builder.insert(&tenant, &route, rule);
    }
    let written = UNIX_EPOCH + Duration::from_secs(contents.written);
    Ok(Saved {
        layer: builder.build(),
        // Written in the future only where a clock was wrong.
        age: written.elapsed().unwrap_or_default(),
    })
}

/// Writes the rules into a file, in the place of what was there. Takes a while.
///
/// # Errors
///
/// Where the file, or another one beside it, cannot be written.
pub fn write(path: &Path, layer: &Layer) -> io::Result<()> {
    let text = serialize(layer)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Only one write is under way in a process, and another process has another number.
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = replace(path, &new, &text);
    if written.is_err() {
        // It may not be there at all; the error that counts is the first one.
        let _ = fs::remove_file(&new);
    }
    written
}

fn serialize(layer: &Layer) -> io::Result<String> {
    let rules: Vec<(&str, &str, u32, f64, bool, &str, u32)> = layer
        .iter()
        .map(|(tenant, route, rule)| {
            // A whole number within u32: it comes from `Rule::new`.
            let capacity = rule.capacity as u32;
            let failure = rule.on_store_failure.as_str();
            (
                tenant,
                route,
                capacity,
                rule.refill_per_second,
                rule.shadow,
                failure,
                rule.shards,
            )
        })
        .collect();
    let rules = to_raw_value(&rules)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let contents = Contents {
        version: VERSION,
        written: now.unwrap_or_default().as_secs(),
        crc32: crc32fast::hash(rules.get().as_bytes()),
        rules: &rules,
    };
    Ok(serde_json::to_string(&contents)?)
}

fn replace(path: &Path, new: &Path, text: &str) -> io::Result<()> {
    // What a tenant may do is nobody else's business.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(new, path)?;
    // The new name is on disk only when its folder is.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
