//! What an answer of the store means for a key: who is served by it, what is kept, what is
//! remembered, and which call comes next.

use std::time::Duration;

use super::{DIVISOR, Entry, LONGEST_DENIAL, SHORTEST_DENIAL};
use crate::limit::bucket::{Grant, wait_for};
use crate::limit::clock::Timestamp;
use crate::limit::lease::{Lease, Terms};
use crate::limit::waiting::{Errand, Purpose, Waiter, first_of_one_cost};

/// What follows from an answer.
#[derive(Debug, Default)]
pub struct After {
    /// Tokens that go back to the store.
    pub give_back: u32,
    /// Tokens of debt that were paid.
    pub paid: u32,
    /// Tokens that went into the lease.
    pub leased: u32,
    /// The next call, for requests that waited meanwhile.
    pub next: Option<Errand>,
    /// Whether polls must begin now.
    pub poll: bool,
}

impl Entry {
    /// Hands the answer to a call sent at `sent_at` to those who wait for it. `back` is false while
    /// the share goes on beside the store.
    pub fn answered(
        &mut self,
        mut errand: Errand,
        grant: &Grant,
        terms: &Terms<'_>,
        (sent_at, back): (Timestamp, bool),
        now: Timestamp,
    ) -> After {
        self.end_call(&mut errand);
        let Errand {
            ask,
            purpose,
            waiters,
            ..
        } = errand;
        let n = terms.instances;
        self.account.heard(terms.rule, n, grant, back, now);
        let needed = ask.count.saturating_mul(ask.cost);
        let short = grant.granted < needed.max(1);
        // A call for none in particular may be granted nothing where little is left; and of a bucket
        // in parts, two may be empty while others are not.
        let little = grant.level < f64::from(ask.cost.saturating_mul(DIVISOR));
        let empty = !grant.wait.is_zero() || (short && little);
        self.note_denial(grant, short, terms, sent_at, now);

        let mut after = After::default();
        let mut tokens = grant.granted;
        let held = self.lease().map_or(0, Lease::held);
        let level = |tokens: u32| {
            let whole = grant.level + f64::from(held) + f64::from(tokens);
            whole.min(terms.rule.capacity)
        };
        for waiter in waiters {
            serve(waiter, &mut tokens, level, grant, grant.wait);
        }
        if let Some(busy) = &mut self.busy {
            let none_left = |cost: u32| empty && grant.level < f64::from(cost);
            let served = |first: &Waiter, tokens| first.cost <= tokens || none_left(first.cost);
            while busy
                .waiting
                .front()
                .is_some_and(|first| served(first, tokens))
            {
                if let Some(waiter) = busy.waiting.pop_front() {
                    let wait = wait_for(f64::from(waiter.cost), grant.level, terms.rule);
                    serve(waiter, &mut tokens, level, grant, wait);
                }
            }
        }
        after.paid = self.account.pay(terms.rule, n, tokens, now);
        tokens -= after.paid;
        after.give_back = tokens;
        if let Some(busy) = &mut self.busy {
            if let Some(lease) = &mut busy.lease {
                after.give_back = lease.hold(tokens, terms, sent_at);
                let got_all = purpose == Purpose::Poll && grant.granted >= ask.extra;
                let saturated = lease.heard(empty, got_all, terms, now);
                after.poll = saturated && !busy.polled;
                busy.polled |= after.poll;
            }
            after.leased = tokens - after.give_back;
        }
        after.next = self.next_errand(terms, now);
        self.calm_down();
        after
    }

    /// Notes that a call brought nothing; `untouched` if it certainly took nothing either. Gives
    /// back those who wait for it; and those who wait for the next, unless other calls are under
    /// way, whose answers may serve them.
    pub fn failed(&mut self, mut errand: Errand, untouched: bool, now: Timestamp) -> Vec<Waiter> {
        self.end_call(&mut errand);
        if untouched {
            self.account.refused(errand.ask.debt, now);
        } else {
            self.account.ended();
        }
        let mut waiters = errand.waiters;
        if let Some(busy) = &mut self.busy {
            let asked = busy.lease.as_ref().map_or(0, Lease::asked);
            if self.direct == 0 && asked == 0 {
                waiters.extend(busy.waiting.drain(..));
            }
        }
        self.calm_down();
        waiters
    }

    /// Notes that a call has had no answer for longer than anybody waits. From now on others may be
    /// made in its place: its own may come in seconds, or never.
    pub fn overdue(&mut self, errand: &mut Errand) {
        self.end_call(errand);
    }

    /// Takes tokens in that were granted for a request which was decided before they came.
    pub fn too_late(&mut self, tokens: u32, terms: &Terms<'_>, now: Timestamp) -> After {
        let paid = self.account.pay(terms.rule, terms.instances, tokens, now);
        let left = tokens - paid;
        let lease = self.busy.as_mut().and_then(|busy| busy.lease.as_mut());
        let give_back = lease.map_or(left, |lease| lease.hold(left, terms, now));
        After {
            give_back,
            paid,
            leased: left - give_back,
            ..After::default()
        }
    }

    /// Remembers an answer that leaves less than one request's cost.
    fn note_denial(
        &mut self,
        grant: &Grant,
        short: bool,
        terms: &Terms<'_>,
        sent_at: Timestamp,
        now: Timestamp,
    ) {
        self.empty = !grant.wait.is_zero();
        if !self.empty {
            self.denied_until = Timestamp::default();
            return;
        }
        // The script ran after the call was sent, so by then one more cost is nearly there; it is
        // there when the next call arrives.
        self.denied_until = sent_at + grant.wait.min(LONGEST_DENIAL);
        if short {
            let half = terms.rule.capacity / terms.rule.refill_per_second / 2.0;
            let at_least = SHORTEST_DENIAL.as_secs_f64().min(half);
            self.denied_until = self
                .denied_until
                .max(now + Duration::from_secs_f64(at_least));
        }
        self.denied_under = terms.rule.version as u32;
    }

    /// A call for the first of those who wait, if one may be made.
    fn next_errand(&mut self, terms: &Terms<'_>, now: Timestamp) -> Option<Errand> {
        if self.direct >= self.calls_allowed() || self.is_on_its_way(terms, 0, now) {
            return None;
        }
        let waiters = first_of_one_cost(&mut self.busy.as_mut()?.waiting);
        let cost = waiters.first()?.cost;
        let terms = Terms { cost, ..*terms };
        let extra = self.ask_along(&terms, now);
        Some(self.errand(Purpose::Requests, waiters, extra, &terms, now))
    }
}

/// Gives a request its tokens, if there are enough, or tells it how long to wait for them. Who is
/// gone leaves them.
fn serve(
    waiter: Waiter,
    tokens: &mut u32,
    level: impl Fn(u32) -> f64,
    grant: &Grant,
    wait: Duration,
) {
    let cost = waiter.cost;
    let Some(left) = tokens.checked_sub(cost) else {
        waiter.tell(Ok(Grant {
            granted: 0,
            level: grant.level,
            wait,
        }));
        return;
    };
    let served = Grant {
        granted: cost,
        level: level(left),
        wait: Duration::ZERO,
    };
    if waiter.tell(Ok(served)) {
        *tokens = left;
    }
}
