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
use super::waiting::{Answered, Errand, Purpose, Waiter};

mod answer;
mod upkeep;

#[cfg(test)]
mod tests;

pub use answer::After;
pub use upkeep::{Kept, Polled};

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

/// What a busy key needs besides, and one whose bucket is split.
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
    /// Where the bucket is split: what the store said last of each part.
    levels: Box<[f64]>,
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

/// What is done with a request of a key that comes back to the store.
#[derive(Debug)]
pub enum ComeBack {
    /// Another call of the key is under way: it goes by this gateway's share alone.
    UnderWay,
    /// The share rejects it.
    Rejected(Grant),
    /// The share lets it pass, and the store is asked too.
    Call(Errand, Answered),
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

impl table::Entry for Entry {
    fn may_be_forgotten(&self, now: Timestamp) -> bool {
        self.busy.as_deref().is_none_or(Busy::is_calm)
            && now >= self.denied_until
            && self.account.may_be_forgotten(now)
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

    /// Notes the level of one of so many parts. Gives the level of the whole bucket as far as it is
    /// known.
    pub fn heard_part(
        &mut self,
        name: &Name,
        (part, count): (u32, u32),
        level: f64,
        rule: &Rule,
        now: Timestamp,
    ) -> f64 {
        let whole = self.account.refilled(rule, now).max(level);
        let levels = &mut self.busy(|| name.clone()).levels;
        if levels.len() != count as usize {
            let each = (whole / f64::from(count)).min(level);
            *levels = vec![each; count as usize].into();
        }
        if let Some(place) = levels.get_mut(part as usize) {
            *place = level;
        }
        levels.iter().sum()
    }

    /// What is known of the bucket, and this gateway's share of it.
    pub fn account(&mut self) -> &mut Account {
        &mut self.account
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
        self.busy(|| name).lease = Some(Lease::new(terms, rate, now));
    }

    /// Decides a request that no lease paid for, or finds the call that will. `name` names the key.
    pub fn join(&mut self, terms: &Terms<'_>, name: impl FnOnce() -> Name, now: Timestamp) -> Join {
        if self.is_denied(terms, now) {
            return Join::Denied(self.denial(terms, now));
        }
        let (waiter, answered) = Waiter::new(terms.cost);
        if self.direct < self.calls_allowed() && !self.is_on_its_way(terms, 1, now) {
            let extra = self.ask_along(terms, now);
            let errand = self.errand(Purpose::Requests, vec![waiter], extra, terms, now);
            return Join::Call(errand, answered);
        }
        self.busy(name).waiting.push_back(waiter);
        Join::Wait(answered)
    }

    /// A call for a request that is decided already; none where enough are under way.
    pub fn send_unasked(&mut self, terms: &Terms<'_>, now: Timestamp) -> Option<Errand> {
        (self.direct < CALLS).then(|| self.errand(Purpose::Decided, Vec::new(), 0, terms, now))
    }

    /// A request of a key that comes back to the store: its call goes alone, and for it alone.
    pub fn come_back(&mut self, terms: &Terms<'_>, now: Timestamp) -> ComeBack {
        if self.direct > 0 {
            return ComeBack::UnderWay;
        }
        let Terms { rule, cost, .. } = *terms;
        let share = self.account.take_beside(rule, terms.instances, cost, now);
        match share {
            Some(grant) if grant.granted < cost => return ComeBack::Rejected(grant),
            _ => {}
        }
        let (waiter, answered) = Waiter::new(cost);
        let errand = self.errand(Purpose::Requests, vec![waiter], 0, terms, now);
        ComeBack::Call(errand, answered)
    }

    fn lease(&self) -> Option<&Lease> {
        self.busy.as_ref()?.lease.as_ref()
    }

    fn busy(&mut self, name: impl FnOnce() -> Name) -> &mut Busy {
        self.busy.get_or_insert_with(|| {
            Box::new(Busy {
                name: name(),
                lease: None,
                waiting: VecDeque::new(),
                polled: false,
                levels: Box::default(),
            })
        })
    }

    /// Frees what only busy keys need, once the key is not.
    fn calm_down(&mut self) {
        let over = |busy: &Busy| busy.is_calm() && busy.levels.is_empty();
        if self.busy.as_deref().is_some_and(over) {
            self.busy = None;
        }
    }

    /// Whether calls under way ask for enough for all who wait and so many more: then a call of their
    /// own would come later, and bring nothing that is needed. Not where it is worth as much as they are: a
    /// key that is spent faster than one refill after the other comes is not to wait for each.
    fn is_on_its_way(&self, terms: &Terms<'_>, more: u32, now: Timestamp) -> bool {
        let Some((busy, lease)) = self.busy.as_ref().zip(self.lease()) else {
            return false;
        };
        let waiting = u32::try_from(busy.waiting.len()).unwrap_or(u32::MAX);
        let needed = waiting.saturating_add(more).saturating_mul(terms.cost);
        let asked = lease.asked();
        asked > 0 && asked >= needed && !lease.is_outrun(terms, now)
    }

    /// Takes a call out of those under way.
    fn end_call(&mut self, errand: &mut Errand) {
        if !std::mem::take(&mut errand.counted) {
            return;
        }
        if errand.purpose.is_direct() {
            self.direct = self.direct.saturating_sub(1);
        }
        if let Some(lease) = self.busy.as_mut().and_then(|busy| busy.lease.as_mut()) {
            lease.call_ended(errand.ask.extra, !errand.purpose.is_direct());
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
            carried: 0,
            second: false,
            counted: true,
        }
    }

    /// The level of the whole bucket as far as this gateway knows: with what it holds of it.
    fn whole_level(&self, terms: &Terms<'_>, held: u32, now: Timestamp) -> f64 {
        let level = self.account.refilled(terms.rule, now) + f64::from(held);
        level.min(terms.rule.capacity)
    }
}

impl Busy {
    /// Whether nothing of it is in use. Not while somebody polls: a second one would begin beside it.
    fn is_calm(&self) -> bool {
        self.lease.is_none() && self.waiting.is_empty() && !self.polled
    }
}
