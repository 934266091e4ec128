//! What stands at a Redis URL: for `aforo check --connect`, before anything depends on it.

use std::time::Duration;

use ::redis::{Client, Cmd, Connection, RedisError, from_redis_value};
use thiserror::Error;

use super::script;

/// Why there is no store to be used at an address.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The URL is wrong, or nobody answers.
    #[error("cannot connect: {0}")]
    Connect(RedisError),
    /// The server does not take the script.
    #[error("connected, but the script cannot be loaded (Redis 7.0 or later, or Valkey?): {0}")]
    Script(RedisError),
}

/// Connects to the server, has it load the script, and says what it is.
///
/// # Errors
///
/// Where the server cannot be used as a store.
pub fn describe(url: &str, within: Duration) -> Result<String, ProbeError> {
    let client = Client::open(url).map_err(ProbeError::Connect)?;
    let address = client.get_connection_info().addr().to_string();
    let mut connection = client
        .get_connection_with_timeout(within)
        .map_err(ProbeError::Connect)?;
    for set in [Connection::set_read_timeout, Connection::set_write_timeout] {
        set(&connection, Some(within)).map_err(ProbeError::Connect)?;
    }
    script::load()
        .query::<String>(&mut connection)
        .map_err(ProbeError::Script)?;
    let version = version(&mut connection).unwrap_or_else(|| "of unknown version".to_owned());
    Ok(format!("Redis {version} at {address}, script loaded"))
}

/// The version, where the user may ask for it.
fn version(connection: &mut Connection) -> Option<String> {
    let mut info = Cmd::new();
    info.arg("INFO").arg("server");
    let text: String = from_redis_value(info.query(connection).ok()?).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("redis_version:"))
        .map(str::to_owned)
}
