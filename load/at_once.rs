//! A store elsewhere that answers at once: what is measured with it is the limiter alone. It keeps
//! nothing, so that the memory that grows is the limiter's too.
// Each uses its own part of this.
#![allow(dead_code)]

use std::time::Duration;

use aforo::limit::{Ask, BucketKey, BucketStore, Call, Grant, Rule};

/// What it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// Whatever it is asked for is there.
    Full,
    /// Nothing is there, and there will be nothing for a second.
    Empty,
}

impl BucketStore for AtOnce {
    fn take(&self, _: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        Call::Done(Ok(match self {
            Self::Full => {
                let granted = ask.count.saturating_mul(ask.cost).saturating_add(ask.extra);
                Grant {
                    granted,
                    level: (rule.capacity - f64::from(granted)).max(0.0),
                    wait: Duration::ZERO,
                }
            }
            Self::Empty => Grant {
                granted: 0,
                level: 0.0,
                wait: Duration::from_secs(1),
            },
        }))
    }

    fn give_back(&self, _: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        Call::Done(Ok(Grant {
            granted: tokens,
            level: rule.capacity,
            wait: Duration::ZERO,
        }))
    }

    fn is_local(&self) -> bool {
        false
    }
}
