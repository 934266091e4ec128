//! What is done for a hot key beside its requests: tokens go back, and a saturated key is polled.

use std::time::Duration;

use super::Entry;
use crate::limit::clock::Timestamp;
use crate::limit::key::Name;
use crate::limit::lease::Terms;
use crate::limit::rule::Rule;
use crate::limit::waiting::{Errand, Purpose};

/// What the keeper of a lease does.
#[derive(Debug)]
pub struct Kept {
    /// Tokens that go back.
    pub give_back: u32,
    /// The rule that they go back under.
    pub rule: Option<Rule>,
    /// Tokens of debt that were paid.
    pub paid: u32,
    /// When to look again; `None`: there is no lease any more.
    pub again_at: Option<Timestamp>,
}

/// What the poller of a saturated key does.
#[derive(Debug)]
pub enum Polled {
    /// Calls, and pauses for this long.
    Call(Errand, Rule, Duration),
    /// Pauses.
    Pause(Duration),
    /// Ends: the bucket has more, or nobody asks.
    Over,
}

impl Entry {
    /// Looks after the lease: what must go back, and whether it is over.
    pub fn keep(&mut self, instances: u32, batch: u32, now: Timestamp) -> Kept {
        let mut kept = Kept {
            give_back: 0,
            rule: None,
            paid: 0,
            again_at: None,
        };
        let Some(lease) = self.busy.as_mut().and_then(|busy| busy.lease.as_mut()) else {
            return kept;
        };
        let (rule, cost) = lease.last();
        let terms = Terms {
            rule: &rule,
            instances,
            batch,
            cost,
        };
        let due = lease.due_back(&terms, now);
        let over = lease.is_over(now);
        let again_at = lease.back_at();
        kept.paid = self.account.pay(&rule, instances, due, now);
        kept.give_back = due - kept.paid;
        kept.rule = Some(rule);
        if over {
            if let Some(busy) = &mut self.busy {
                busy.lease = None;
            }
            self.calm_down();
        } else {
            kept.again_at = Some(again_at);
        }
        kept
    }

    /// Polls for a saturated key; `saturated` of this gateway are.
    pub fn poll(&mut self, saturated: usize, instances: u32, batch: u32, now: Timestamp) -> Polled {
        let Some(busy) = &mut self.busy else {
            return Polled::Over;
        };
        let lease = busy.lease.as_mut().filter(|lease| lease.is_saturated());
        let Some(lease) = lease else {
            busy.polled = false;
            self.calm_down();
            return Polled::Over;
        };
        let (rule, cost) = lease.last();
        let terms = Terms {
            rule: &rule,
            instances,
            batch,
            cost,
        };
        if !lease.still_saturated(now) || !terms.allows_leases() {
            lease.desaturate();
            busy.polled = false;
            return Polled::Over;
        }
        let pause = lease.poll_pause(&terms, saturated, now);
        match lease.poll(&terms, pause, now) {
            Some(extra) => {
                let errand = self.errand(Purpose::Poll, Vec::new(), extra, &terms, now);
                Polled::Call(errand, rule, pause)
            }
            None => Polled::Pause(pause),
        }
    }

    /// Takes all tokens out, for the gateway ends; with the rule that they go back under.
    pub fn clear(&mut self) -> Option<(Name, Rule, u32)> {
        let busy = self.busy.as_mut()?;
        let lease = busy.lease.as_mut()?;
        let (rule, _) = lease.last();
        Some((busy.name.clone(), rule, lease.clear())).filter(|(_, _, tokens)| *tokens > 0)
    }
}
