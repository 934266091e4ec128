//! The heartbeat by which gateways that share a Redis count each other.

use ::redis::{Cmd, RedisError, RedisResult, from_redis_value};

use super::node::Link;
use super::script;
use crate::limit::StoreError;

/// `lua/heartbeat.lua`; its head documents keys, arguments and reply.
pub const HEARTBEAT: &str = include_str!("../../../lua/heartbeat.lua");

/// Where the gateways are.
pub const KEY: &str = "rl:aforo:instances";

/// A gateway that was not heard of for this long is gone: three heartbeats.
const GONE_AFTER_MS: u32 = 6_000;

/// Says that gateway `id` is alive, and gives the number of those that are.
///
/// # Errors
///
/// Where the server is not reached, or refuses.
pub(super) async fn beat(link: &Link, id: &str) -> Result<u32, StoreError> {
    let mut connection = link.connection.clone();
    let mut reply = command("EVALSHA", &link.heartbeat_sha, id)
        .query_async(&mut connection)
        .await;
    if reply.as_ref().is_err_and(script::is_unknown) {
        reply = command("EVAL", HEARTBEAT, id)
            .query_async(&mut connection)
            .await;
    }
    let count = reply.and_then(|value| -> RedisResult<u32> {
        from_redis_value(value).map_err(RedisError::from)
    });
    count.map_err(|error| script::read_error(&error))
}

/// Has Redis keep the script; the reply is the name to call it by.
pub(super) fn load() -> Cmd {
    let mut cmd = ::redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(HEARTBEAT);
    cmd
}

fn command(name: &str, script: &str, id: &str) -> Cmd {
    let mut cmd = ::redis::cmd(name);
    cmd.arg(script).arg(1).arg(KEY).arg(id).arg(GONE_AFTER_MS);
    cmd
}
