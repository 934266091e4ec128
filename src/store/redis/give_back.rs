//! Putting tokens back into a bucket, as Redis sees it.

use ::redis::Cmd;

use super::node::Link;
use super::take::Script;
use crate::limit::Rule;

/// `lua/give_back.lua`; its head documents keys, arguments and reply.
pub const GIVE_BACK: &str = include_str!("../../../lua/give_back.lua");

/// Tokens that go back into the bucket of `key`.
pub(super) struct GiveBack<'g> {
    pub(super) key: &'g str,
    pub(super) rule: &'g Rule,
    pub(super) tokens: u32,
}

impl Script for GiveBack<'_> {
    fn by_name(&self, link: &Link) -> Cmd {
        command("EVALSHA", &link.give_back_sha, self)
    }

    fn by_text(&self) -> Cmd {
        command("EVAL", GIVE_BACK, self)
    }
}

/// Has Redis keep the script; the reply is the name to call it by.
pub(super) fn load() -> Cmd {
    let mut cmd = ::redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(GIVE_BACK);
    cmd
}

fn command(name: &str, script: &str, what: &GiveBack<'_>) -> Cmd {
    let GiveBack { key, rule, tokens } = what;
    let mut cmd = ::redis::cmd(name);
    cmd.arg(script).arg(1).arg(*key);
    cmd.arg(rule.capacity).arg(rule.refill_per_second);
    cmd.arg(*tokens);
    cmd
}
