//! The heartbeat by which gateways that share a Redis count each other.

use ::redis::{Cmd, RedisError, RedisResult, Value, from_redis_value};

use super::node::Link;
use super::script;
use super::take::Script;
use crate::limit::StoreError;

/// `lua/heartbeat.lua`; its head documents keys, arguments and reply.
pub const HEARTBEAT: &str = include_str!("../../../lua/heartbeat.lua");

/// Where the gateways are.
pub const KEY: &str = "rl:aforo:instances";

/// A gateway that was not heard of for this long is gone: three heartbeats.
const GONE_AFTER_MS: u32 = 6_000;

/// Says that gateway `id` is alive, and asks for the number of those that are.
pub(super) struct Beat<'b> {
    pub(super) id: &'b str,
}

impl Script for Beat<'_> {
    fn by_name(&self, link: &Link) -> Cmd {
        command("EVALSHA", &link.heartbeat_sha, self.id)
    }

    fn by_text(&self) -> Cmd {
        command("EVAL", HEARTBEAT, self.id)
    }
}

/// Reads the reply: the number of gateways.
///
/// # Errors
///
/// Where the server was not reached, or refused.
pub(super) fn read(reply: RedisResult<Value>) -> Result<u32, StoreError> {
    let count = reply.and_then(|value| from_redis_value(value).map_err(RedisError::from));
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
