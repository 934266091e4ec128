//! Putting tokens back into a bucket, as Redis sees it.

use ::redis::Cmd;

use super::node::Link;
use super::script;
use crate::limit::store::TakeResult;
use crate::limit::{Ask, Rule};

/// `lua/give_back.lua`; its head documents keys, arguments and reply.
pub const GIVE_BACK: &str = include_str!("../../../lua/give_back.lua");

/// Puts tokens back into the bucket of `key`.
///
/// # Errors
///
/// Where the server is not reached, or refuses.
pub(super) async fn give_back(link: &Link, key: &str, rule: &Rule, tokens: u32) -> TakeResult {
    let mut connection = link.connection.clone();
    let mut reply = command("EVALSHA", &link.give_back_sha, key, rule, tokens)
        .query_async(&mut connection)
        .await;
    if reply.as_ref().is_err_and(script::is_unknown) {
        reply = command("EVAL", GIVE_BACK, key, rule, tokens)
            .query_async(&mut connection)
            .await;
    }
    script::read(reply, rule, &Ask::one(1))
}

/// Has Redis keep the script; the reply is the name to call it by.
pub(super) fn load() -> Cmd {
    let mut cmd = ::redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(GIVE_BACK);
    cmd
}

fn command(name: &str, script: &str, key: &str, rule: &Rule, tokens: u32) -> Cmd {
    let mut cmd = ::redis::cmd(name);
    cmd.arg(script).arg(1).arg(key);
    cmd.arg(rule.capacity).arg(rule.refill_per_second);
    cmd.arg(tokens);
    cmd
}
