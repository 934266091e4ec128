//! A lease: tokens of one hot key that this gateway took from the store beforehand, to be spent
//! without asking.
//!
//! Arithmetic and time alone: how many may be held, how many to ask for and when, when they go
//! back. Who calls the store, and who waits, is the business of [`entry`](super::entry) and of the
//! limiter.
//!
//! How many are held follows demand, and is capped by the size of the limit. A flat batch of 50
//! would strand most of a small bucket in gateways that do not need it (simulated with 20 gateways:
//! nine tenths of a legal first burst on capacity 100 are rejected) and let them hoard it (190 % of
//! the capacity in a later burst). Capped at ε/N of the limit, all leases together hold at most ε of
//! it, so that in any time T at most C + r·T + ε·(C + r·1 s) is let through; and no more than
//! C + r·t from a cold start, for each token was taken from the bucket before it was spent. The same
//! proportion makes small limits ask the store each time, which is what keeps them right.

use std::time::Duration;

use super::clock::Timestamp;
use super::hot::THRESHOLD;
use super::rate::Rate;
use super::rule::Rule;

#[cfg(test)]
mod tests;

/// ε: the part of a limit that all gateways together may hold.
const HELD_PART: f64 = 0.05;
/// A call asks for what is spent in this time.
const ASK_FOR: Duration = Duration::from_millis(50);
/// The background refill begins when no more is left than is spent in this time: some round trips.
const LOW_WATER: Duration = Duration::from_millis(3);
/// Tokens that nobody came for in this time go back.
const IDLE: Duration = Duration::from_millis(250);
/// Tokens that were granted longer ago go back.
const OLDEST: Duration = Duration::from_secs(1);
/// A saturated key that nobody asks for in this time is saturated no longer.
const SATURATED_IDLE: Duration = Duration::from_millis(100);
/// The time between two polls of a saturated key, at least.
const POLL: Duration = Duration::from_millis(20);
/// And for each saturated key of this gateway: a thousand polls a second are enough for all.
const POLL_PER_KEY: Duration = Duration::from_millis(1);
/// A poll brings at least so many requests' tokens, if the bucket has them.
const POLL_FOR: f64 = 4.0;

/// What sizes the leases of one rule.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'r> {
    /// The limit.
    pub rule: &'r Rule,
    /// N: gateways that share it.
    pub instances: u32,
    /// The most that one call asks for, in tokens; 0: there are no leases.
    pub batch: u32,
    /// Tokens that one request takes, at least 1.
    pub cost: u32,
}

impl Terms<'_> {
    /// H: the most that this gateway may hold, in whole tokens.
    pub fn most_held(&self) -> u32 {
        let rule = self.rule;
        let n = f64::from(self.instances.max(1));
        let of_limit = HELD_PART * (rule.capacity + rule.refill_per_second) / n;
        let of_capacity = rule.capacity / (2.0 * n);
        let most = f64::from(self.batch.saturating_mul(2));
        // A small number, and never negative.
        most.min(of_limit).min(of_capacity).floor() as u32
    }

    /// Whether the rule leaves room for leases at all.
    pub fn allows_leases(&self) -> bool {
        self.most_held() >= self.cost.saturating_mul(2)
    }

    /// Whether a lease has room for what this gateway's part of the refill brings from one poll to
    /// the next. A rule that refills faster than that (a capacity of 100 with 20,000 a second) would
    /// starve on polls.
    fn allow_polls(&self) -> bool {
        let part = self.rule.refill_per_second / f64::from(self.instances.max(1));
        let brought = (part * POLL.as_secs_f64()).min(f64::from(self.batch));
        self.allows_leases() && f64::from(self.most_held()) >= brought
    }

    /// `tokens`, rounded down to whole requests.
    fn whole(&self, tokens: u32) -> u32 {
        tokens - tokens % self.cost.max(1)
    }
}

/// One key's lease.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    rate: Rate,
    /// The rule that the tokens were granted under; they die with it.
    rule: Rule,
    /// What the last request took: amounts are multiples of it.
    cost: u32,
    /// Tokens to be spent.
    held: u32,
    /// When the call was sent that brought the last of them.
    granted_at: Timestamp,
    /// Tokens beyond the need of requests that calls under way ask for.
    asked: u32,
    /// Whether a refill or a poll is under way.
    refilling: bool,
    /// Whether the bucket was empty when it was asked last: requests are decided on the lease
    /// alone, and polls look whether there is more.
    saturated: bool,
}

impl Lease {
    /// A lease without tokens, for a key at this rate.
    pub fn new(terms: &Terms<'_>, rate: f64, now: Timestamp) -> Self {
        Self {
            rate: Rate::new(rate, now),
            rule: *terms.rule,
            cost: terms.cost,
            held: 0,
            granted_at: now,
            asked: 0,
            refilling: false,
            saturated: false,
        }
    }

    /// Notes a request. Gives back how many tokens have died, where the rule is another one now.
    pub fn arrive(&mut self, terms: &Terms<'_>, now: Timestamp) -> u32 {
        self.rate.observe(terms.cost, now);
        self.cost = terms.cost;
        if self.rule.version == terms.rule.version {
            return 0;
        }
        self.rule = *terms.rule;
        self.saturated = false;
        std::mem::take(&mut self.held)
    }

    /// Spends the cost of one request, if it is there.
    pub fn spend(&mut self, cost: u32) -> bool {
        let left = self.held.checked_sub(cost);
        self.held = left.unwrap_or(self.held);
        left.is_some()
    }

    /// The rule that the last request was held to, and what that took.
    pub fn last(&self) -> (Rule, u32) {
        (self.rule, self.cost)
    }

    /// Tokens held.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Tokens beyond the need of requests that are on their way.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// Whether the key is asked for often enough.
    pub fn is_hot(&self, now: Timestamp) -> bool {
        self.rate.now(now) >= THRESHOLD
    }

    /// Whether the bucket was empty when it was asked last.
    pub fn is_saturated(&self) -> bool {
        self.saturated
    }

    /// What a direct call asks for beyond the need of its requests; counted as asked.
    pub fn ask_along(&mut self, terms: &Terms<'_>, now: Timestamp) -> u32 {
        if !self.is_hot(now) || !terms.allows_leases() {
            return 0;
        }
        let extra = self.wanted(terms, ASK_FOR, now);
        self.asked += extra;
        extra
    }

    /// What a background refill asks for, where it is time for one; counted as under way.
    pub fn refill(&mut self, terms: &Terms<'_>, now: Timestamp) -> Option<u32> {
        if self.refilling || self.saturated {
            return None;
        }
        let rate = self.rate.now(now);
        // Cheap first: this is asked after every token that is spent.
        if f64::from(self.held) > rate * LOW_WATER.as_secs_f64() || rate < THRESHOLD {
            return None;
        }
        if !self.has_room_for_more(terms) {
            return None;
        }
        let extra = self.wanted(terms, ASK_FOR, now);
        (extra > 0).then(|| self.begin_refill(extra))
    }

    /// Whether so many are spent that a call beside one that is under way is worth as much: it brings
    /// half of what may be held.
    pub fn is_outrun(&self, terms: &Terms<'_>, now: Timestamp) -> bool {
        self.has_room_for_more(terms)
            && self.wanted(terms, ASK_FOR, now) >= terms.whole(terms.most_held() / 2)
    }

    /// Whether, beside what is held and on its way, there is room for half of what may be: a call for
    /// less would cost as much.
    fn has_room_for_more(&self, terms: &Terms<'_>) -> bool {
        let most = terms.most_held();
        let taken = self.held.saturating_add(self.asked);
        !self.saturated && most >= terms.cost.saturating_mul(2) && taken <= most / 2
    }

    /// What a poll asks for, unless one is under way; counted as under way.
    pub fn poll(&mut self, terms: &Terms<'_>, pause: Duration, now: Timestamp) -> Option<u32> {
        if self.refilling {
            return None;
        }
        let extra = self.wanted(terms, pause, now);
        (extra > 0).then(|| self.begin_refill(extra))
    }

    /// The time until the next poll, where `saturated` keys of this gateway poll.
    pub fn poll_pause(&self, terms: &Terms<'_>, saturated: usize, now: Timestamp) -> Duration {
        let enough = POLL_FOR * f64::from(terms.cost) / self.rate.now(now).max(1.0);
        let keys = u32::try_from(saturated).unwrap_or(u32::MAX);
        POLL.max(Duration::from_secs_f64(enough))
            .max(POLL_PER_KEY.saturating_mul(keys))
    }

    /// Notes the end of a call that asked for `asked` tokens, `refill` if it was a background one.
    pub fn call_ended(&mut self, asked: u32, refill: bool) {
        self.asked = self.asked.saturating_sub(asked);
        self.refilling &= !refill;
    }

    /// Notes whether the bucket had what it was asked for. Returns true where polls must begin.
    pub fn heard(&mut self, empty: bool, got_all: bool, terms: &Terms<'_>, now: Timestamp) -> bool {
        if self.saturated {
            self.saturated = !got_all;
            return false;
        }
        self.saturated = empty && self.is_hot(now) && terms.allow_polls();
        self.saturated
    }

    /// Takes tokens that a call sent at `sent_at` brought, as many as may be held. Gives back the
    /// others.
    pub fn hold(&mut self, tokens: u32, terms: &Terms<'_>, sent_at: Timestamp) -> u32 {
        if self.rule.version != terms.rule.version {
            return tokens;
        }
        let room = terms.most_held().saturating_sub(self.held);
        let kept = tokens.min(room);
        self.held += kept;
        if kept > 0 {
            self.granted_at = self.granted_at.max(sent_at);
        }
        tokens - kept
    }

    /// Ends being saturated where nobody is there any more. Says whether it still is.
    pub fn still_saturated(&mut self, now: Timestamp) -> bool {
        self.saturated &= self.is_hot(now) && now.since(self.rate.last_arrival()) < SATURATED_IDLE;
        self.saturated
    }

    /// Ends being saturated.
    pub fn desaturate(&mut self) {
        self.saturated = false;
    }

    /// Takes the tokens out that must go back now: all, where nobody came for a while or they are
    /// old, and those that are too many since there are more gateways.
    pub fn due_back(&mut self, terms: &Terms<'_>, now: Timestamp) -> u32 {
        let may_stay = if now < self.back_at() {
            terms.most_held()
        } else {
            0
        };
        let due = self.held.saturating_sub(may_stay);
        self.held -= due;
        due
    }

    /// Takes all tokens out.
    pub fn clear(&mut self) -> u32 {
        std::mem::take(&mut self.held)
    }

    /// When tokens that are held now have to go back.
    pub fn back_at(&self) -> Timestamp {
        (self.rate.last_arrival() + IDLE).min(self.granted_at + OLDEST)
    }

    /// Whether nothing is lost without this lease: nothing is held or under way, and the key is
    /// not hot any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.held == 0
            && self.asked == 0
            && !self.refilling
            && !self.saturated
            && !self.is_hot(now)
            && now.since(self.rate.last_arrival()) >= IDLE
    }

    /// What is missing for `time`, in whole requests, as far as it may be asked for.
    fn wanted(&self, terms: &Terms<'_>, time: Duration, now: Timestamp) -> u32 {
        let cost = f64::from(terms.cost.max(1));
        let spent = self.rate.now(now) * time.as_secs_f64();
        // Saturates.
        let wanted = ((spent / cost).ceil() * cost) as u32;
        let room = terms.most_held().saturating_sub(self.held + self.asked);
        terms.whole(wanted.min(terms.batch).min(room))
    }

    fn begin_refill(&mut self, extra: u32) -> u32 {
        self.asked += extra;
        self.refilling = true;
        extra
    }
}
