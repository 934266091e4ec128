//! The script that is a take, as Redis sees it: how it is sent and how its reply is read.

use ::redis::{Cmd, RedisError, ServerErrorKind, Value};

use super::node::Link;
use super::take::Script;
use crate::limit::store::TakeResult;
use crate::limit::{Ask, Grant, OnStoreFailure, Rule, StoreError};
use std::time::Duration;

/// `lua/token_bucket.lua`; its head documents keys, arguments and reply.
pub const TOKEN_BUCKET: &str = include_str!("../../../lua/token_bucket.lua");

/// The limit of the bucket that probes take from: never in a probe's way, and gone after a second.
pub(super) const PROBE_RULE: Rule = Rule {
    version: 0,
    capacity: 10_000.0,
    refill_per_second: 100_000.0,
    shards: 1,
    shadow: false,
    on_store_failure: OnStoreFailure::Local,
};

/// Has Redis keep the script; the reply is the name to call it by.
pub fn load() -> Cmd {
    let mut cmd = ::redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(TOKEN_BUCKET);
    cmd
}

/// A take.
pub(super) struct Take<'t> {
    pub(super) key: &'t str,
    pub(super) rule: &'t Rule,
    pub(super) ask: &'t Ask,
}

impl Script for Take<'_> {
    fn by_name(&self, link: &Link) -> Cmd {
        call("EVALSHA", &link.sha, self.key, self.rule, self.ask)
    }

    fn by_text(&self) -> Cmd {
        call("EVAL", TOKEN_BUCKET, self.key, self.rule, self.ask)
    }
}

/// A take by the script's name, outside of a connection that is kept.
pub(super) fn by_sha(sha: &str, key: &str, rule: &Rule, ask: &Ask) -> Cmd {
    call("EVALSHA", sha, key, rule, ask)
}

fn call(command: &str, script: &str, key: &str, rule: &Rule, ask: &Ask) -> Cmd {
    let mut cmd = ::redis::cmd(command);
    cmd.arg(script)
        .arg(1)
        .arg(key)
        .arg(rule.capacity)
        .arg(rule.refill_per_second)
        .arg(ask.cost)
        .arg(ask.count)
        .arg(ask.extra)
        .arg(ask.divisor)
        .arg(ask.debt)
        .arg(ask.seed.unwrap_or(-1.0));
    cmd
}

/// Whether the script was not run because the server does not have it: the one refusal after
/// which a take may be sent again.
pub fn is_unknown(error: &RedisError) -> bool {
    error.kind() == ServerErrorKind::NoScript.into()
}

/// Reads a reply to a [`Take`].
pub fn read(reply: Result<Value, RedisError>, rule: &Rule, ask: &Ask) -> TakeResult {
    match reply {
        Ok(value) => {
            read_grant(&value, rule, ask).ok_or_else(|| StoreError::Answer(format!("{value:?}")))
        }
        Err(error) => Err(read_error(&error)),
    }
}

fn read_grant(value: &Value, rule: &Rule, ask: &Ask) -> Option<Grant> {
    let Value::Array(numbers) = value else {
        return None;
    };
    let [
        Value::Int(granted),
        Value::Int(thousandths),
        Value::Int(wait_ms),
    ] = numbers[..]
    else {
        return None;
    };
    let wait = Duration::from_millis(u64::try_from(wait_ms).ok()?);
    // Two lower bounds of the level: one in thousandths of a token, one from the milliseconds
    // until the next cost is there. For slow rules the second is far finer.
    let by_wait = f64::from(ask.cost) - wait.as_secs_f64() * rule.refill_per_second;
    let level = thousandths as f64 / 1000.0;
    let level = if wait.is_zero() {
        level
    } else {
        level.max(by_wait)
    };
    Some(Grant {
        granted: u32::try_from(granted).ok()?,
        level: level.clamp(0.0, rule.capacity),
        wait,
    })
}

/// What an error of the client's library means for a take.
pub(super) fn read_error(error: &RedisError) -> StoreError {
    let text = error.to_string();
    if error.is_timeout() {
        StoreError::Lost(text)
    } else if error.is_io_error() || error.is_unrecoverable_error() {
        StoreError::Disconnected(text)
    } else if [ServerErrorKind::Moved, ServerErrorKind::Ask]
        .map(Into::into)
        .contains(&error.kind())
        // CLUSTERDOWN, but of this one slot: the node serves its others.
        || text.contains("Hash slot not served")
    {
        StoreError::Moved(text)
    } else if text.contains("WRONGTYPE") {
        // From within a script the code is part of the message.
        StoreError::WrongType(text)
    } else {
        StoreError::Refused(text)
    }
}
