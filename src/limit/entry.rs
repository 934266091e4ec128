//! All that a gateway keeps of one key whose bucket lives elsewhere, and every decision that can be
//! made from it: spend a lease, remember a rejection, ask the store, or wait for an answer that is
//! on its way to somebody else.
//!
//! State and arithmetic under one lock of the table that holds it; calls are made by the limiter,
//! which hands their answers back in. A key that is asked for now and then costs an [`Account`]
//! alone; what only busy keys need is apart.

use std::collections::VecDeque;
use std::time::Duration;

use super::account::Account;
use super::bucket::{Ask, Grant, wait_for};
use super::clock::Timestamp;
use super::key::Name;
use super::lease::{Lease, Terms};
use super::rule::Rule;
use super::table;
use super::waiting::{Answered, Errand, Purpose, Waiter, first_of_one_cost};

#[cfg(test)]
mod tests;

/// Direct calls for one key at once. With fewer, requests would wait for two round trips where one
/// does; with more, a herd on one key costs as many calls as requests.
const CALLS: u8 = 4;
/// The same while the bucket is empty: what one call does not find, three more do not either.
const CALLS_WHEN_EMPTY: u8 = 1;
/// Of what the requests leave, this part is granted beyond them: the last tokens of a bucket go out
/// in small pieces.
const DIVISOR: u32 = 4;
/// The longest that a rejection is remembered: others may have given tokens back.
const LONGEST_DENIAL: Duration = Duration::from_secs(1);
/// The shortest, so that a client which hammers an empty bucket causes at most 100 calls a second.
const SHORTEST_DENIAL: Duration = Duration::from_millis(10);

/// One key.
#[derive(Debug)]
pub struct Entry {
    account: Account,
    /// Until then a request that needs more than the level that the store named is rejected here.
    denied_until: Timestamp,
    /// The rule under which it is, by the lower half of its version.
    denied_under: u32,
    /// Direct calls under way.
    direct: u8,
    /// Whether the store's last answer left less than one request's cost.
    empty: bool,
    busy: Option<Box<Busy>>,
}

/// What a busy key needs besides.
#[derive(Debug)]
struct Busy {
    /// The key in full, for calls that no request makes.
    name: Name,
    /// Where the key is hot.
    lease: Option<Lease>,
    /// Requests for which no call has been made yet.
    waiting: VecDeque<Waiter>,
    /// Whether somebody polls.
    polled: bool,
}

/// Whether a lease paid for a request.
#[derive(Debug)]
pub struct Spend {
    /// The level after it, if it did.
    pub level: Option<f64>,
    /// A background refill that is due.
    pub refill: Option<Errand>,
    /// Tokens that go back, for they were granted under another rule.
    pub died: u32,
}

/// What is done with a request that no lease pays for.
#[derive(Debug)]
pub enum Join {
    /// It is rejected by what the store said before.
    Denied(Grant),
    /// A call is made for it.
    Call(Errand, Answered),
    /// It is served by the answer to calls that are under way.
    Wait(Answered),
}

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

impl table::Entry for Entry {
    fn may_be_forgotten(&self, now: Timestamp) -> bool {
        self.busy.is_none() && now >= self.denied_until && self.account.may_be_forgotten(now)
    }
}

impl Entry {
    /// A key of which nothing is known.
    pub fn new(now: Timestamp) -> Self {
        Self {
            account: Account::new(now),
            denied_until: Timestamp::default(),
            denied_under: 0,
            direct: 0,
            empty: false,
            busy: None,
        }
    }

    /// What is known of the bucket, and this gateway's share of it.
    pub fn account(&mut self) -> &mut Account {
        &mut self.account
    }

    /// Direct calls under way.
    pub fn direct_calls(&self) -> u8 {
        self.direct
    }

    /// Whether it is hot, or was a moment ago.
    pub fn has_lease(&self) -> bool {
        self.lease().is_some()
    }

    /// Lets a lease pay for a request, if there is one.
    pub fn spend(&mut self, terms: &Terms<'_>, now: Timestamp) -> Option<Spend> {
        let lease = self.busy.as_mut()?.lease.as_mut()?;
        let died = lease.arrive(terms, now);
        let paid = lease.spend(terms.cost);
        let held = lease.held();
        let refill = lease.refill(terms, now);
        Some(Spend {
            level: paid.then(|| self.whole_level(terms, held, now)),
            refill: refill.map(|extra| self.errand(Purpose::Refill, Vec::new(), extra, terms, now)),
            died,
        })
    }

    /// Makes a lease for a key that has turned out to be asked for at this rate, in tokens a second.
    pub fn begin_lease(&mut self, name: Name, terms: &Terms<'_>, rate: f64, now: Timestamp) {
        self.busy(name).lease = Some(Lease::new(terms, rate, now));
    }

    /// Decides a request that no lease paid for, or finds the call that will. `name` names the key.
    pub fn join(&mut self, terms: &Terms<'_>, name: impl FnOnce() -> Name, now: Timestamp) -> Join {
        if self.is_denied(terms, now) {
            return Join::Denied(self.denial(terms, now));
        }
        let (waiter, answered) = Waiter::new(terms.cost);
        if self.direct < self.calls_allowed() {
            let extra = self.ask_along(terms, now);
            let errand = self.errand(Purpose::Requests, vec![waiter], extra, terms, now);
            return Join::Call(errand, answered);
        }
        self.busy(name()).waiting.push_back(waiter);
        Join::Wait(answered)
    }

    /// A call for a request that is decided already; none where enough are under way.
    pub fn send_unasked(&mut self, terms: &Terms<'_>, now: Timestamp) -> Option<Errand> {
        (self.direct < CALLS).then(|| self.errand(Purpose::Decided, Vec::new(), 0, terms, now))
    }

    /// A call of a key that comes back to the store: alone, and for its request alone.
    pub fn come_back(&mut self, terms: &Terms<'_>, now: Timestamp) -> (Errand, Answered) {
        let (waiter, answered) = Waiter::new(terms.cost);
        let errand = self.errand(Purpose::Requests, vec![waiter], 0, terms, now);
        (errand, answered)
    }

    /// Hands the answer to a call sent at `sent_at` to those who wait for it. `back` is false while
    /// the share goes on beside the store.
    pub fn answered(
        &mut self,
        errand: Errand,
        grant: &Grant,
        terms: &Terms<'_>,
        (sent_at, back): (Timestamp, bool),
        now: Timestamp,
    ) -> After {
        let Errand {
            ask,
            purpose,
            waiters,
        } = errand;
        let n = terms.instances;
        self.account.heard(terms.rule, n, grant, back, now);
        self.direct -= u8::from(purpose.is_direct() && self.direct > 0);
        let needed = ask.count.saturating_mul(ask.cost);
        let short = grant.granted < needed.max(1);
        let empty = short || !grant.wait.is_zero();
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
                lease.call_ended(ask.extra, !purpose.is_direct());
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
    /// back those who wait for it, and those who wait for the next.
    pub fn failed(&mut self, errand: Errand, untouched: bool, now: Timestamp) -> Vec<Waiter> {
        let Errand {
            ask,
            purpose,
            mut waiters,
        } = errand;
        if untouched {
            self.account.refused(ask.debt, now);
        } else {
            self.account.ended();
        }
        self.direct -= u8::from(purpose.is_direct() && self.direct > 0);
        if let Some(busy) = &mut self.busy {
            if let Some(lease) = &mut busy.lease {
                lease.call_ended(ask.extra, !purpose.is_direct());
            }
            waiters.extend(busy.waiting.drain(..));
        }
        self.calm_down();
        waiters
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

    fn lease(&self) -> Option<&Lease> {
        self.busy.as_ref()?.lease.as_ref()
    }

    fn busy(&mut self, name: Name) -> &mut Busy {
        self.busy.get_or_insert_with(|| {
            Box::new(Busy {
                name,
                lease: None,
                waiting: VecDeque::new(),
                polled: false,
            })
        })
    }

    /// Frees what only busy keys need, once the key is not.
    fn calm_down(&mut self) {
        let over = |busy: &Busy| busy.lease.is_none() && busy.waiting.is_empty();
        if self.busy.as_deref().is_some_and(over) {
            self.busy = None;
        }
    }

    fn calls_allowed(&self) -> u8 {
        if self.empty { CALLS_WHEN_EMPTY } else { CALLS }
    }

    /// Whether the store need not be asked, for it said before that there is nothing.
    fn is_denied(&self, terms: &Terms<'_>, now: Timestamp) -> bool {
        if self.lease().is_some_and(Lease::is_saturated) {
            return true;
        }
        now < self.denied_until
            && self.denied_under == terms.rule.version as u32
            && self.account.level() < f64::from(terms.cost)
    }

    /// The rejection of a request by what the store said before.
    fn denial(&self, terms: &Terms<'_>, now: Timestamp) -> Grant {
        let level = self.account.refilled(terms.rule, now);
        Grant {
            granted: 0,
            level,
            wait: wait_for(f64::from(terms.cost), level, terms.rule),
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
        if self.direct >= self.calls_allowed() {
            return None;
        }
        let waiters = first_of_one_cost(&mut self.busy.as_mut()?.waiting);
        let cost = waiters.first()?.cost;
        let terms = Terms { cost, ..*terms };
        let extra = self.ask_along(&terms, now);
        Some(self.errand(Purpose::Requests, waiters, extra, &terms, now))
    }

    fn ask_along(&mut self, terms: &Terms<'_>, now: Timestamp) -> u32 {
        let lease = self.busy.as_mut().and_then(|busy| busy.lease.as_mut());
        lease.map_or(0, |lease| lease.ask_along(terms, now))
    }

    /// A call with `extra` tokens beyond what those who wait need; counted as under way.
    fn errand(
        &mut self,
        purpose: Purpose,
        waiters: Vec<Waiter>,
        extra: u32,
        terms: &Terms<'_>,
        now: Timestamp,
    ) -> Errand {
        // While a node is silent nobody knows what becomes of a call: it carries no debt.
        let post = purpose != Purpose::Decided;
        let ask = self
            .account
            .ask(terms.rule, terms.instances, terms.cost, post, now);
        self.direct += u8::from(purpose.is_direct());
        let count = match purpose {
            Purpose::Requests => u32::try_from(waiters.len()).unwrap_or(u32::MAX),
            Purpose::Decided => 1,
            Purpose::Refill | Purpose::Poll => 0,
        };
        let ask = Ask {
            count,
            extra,
            divisor: if extra > 0 { DIVISOR } else { 1 },
            ..ask
        };
        Errand {
            ask,
            purpose,
            waiters,
        }
    }

    /// The level of the whole bucket as far as this gateway knows: with what it holds of it.
    fn whole_level(&self, terms: &Terms<'_>, held: u32, now: Timestamp) -> f64 {
        let level = self.account.refilled(terms.rule, now) + f64::from(held);
        level.min(terms.rule.capacity)
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
