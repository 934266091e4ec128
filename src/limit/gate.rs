//! The stall gate of one node: whether the node owes an answer for longer than anybody waits.
//!
//! While it does, waiting is pointless: the next request would only spend its own budget on the
//! same stall. The gate knows when calls were sent and which of them have ended, and nothing of
//! what was asked. What follows from a stall that lasts is the [`breaker`](super::breaker)'s affair.
//!
//! No lock: calls are marked in a ring of times, and whoever looks moves the ring's tail on.

use std::time::Duration;

use super::clock::Timestamp;
use super::sync::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// In a mark's place: no call, or one that has ended.
const FREE: u64 = 0;

/// When the calls to one node were sent that have no answer yet.
#[derive(Debug)]
pub struct Gate {
    budget: Duration,
    /// When each call under way was sent, in the order of sending. One that is lapped counts as
    /// ended.
    marks: Box<[AtomicU64]>,
    /// How many calls were ever sent.
    sent: AtomicU64,
    /// Before it, no mark is left.
    tail: AtomicU64,
    /// The last time that the node gave any answer.
    answered_at: AtomicU64,
    /// Calls from before then are no longer looked at.
    forgotten_before: AtomicU64,
}

/// A call under way, to be handed back when it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    place: usize,
    nanos: u64,
}

impl Gate {
    /// An open gate for calls that are waited for no longer than `budget`, `in_flight` of them at
    /// once.
    pub fn new(budget: Duration, in_flight: usize) -> Self {
        let marks = in_flight.clamp(1, 1 << 20).next_power_of_two();
        Self {
            budget,
            marks: (0..marks).map(|_| AtomicU64::new(FREE)).collect(),
            sent: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            forgotten_before: AtomicU64::new(0),
        }
    }

    /// Notes a call that is sent now.
    pub fn sent(&self, now: Timestamp) -> Mark {
        // Never FREE, also where the clock has just begun.
        let nanos = now.as_nanos().max(1);
        let turn = self.sent.fetch_add(1, Ordering::AcqRel);
        let place = self.place(turn);
        self.marks[place].store(nanos, Ordering::Release);
        Mark { place, nanos }
    }

    /// Notes that a call has ended; `answered` if the node itself said something.
    pub fn ended(&self, mark: Mark, answered: bool, now: Timestamp) {
        // Not where a later call has the place by now.
        let _ = self.marks[mark.place].compare_exchange(
            mark.nanos,
            FREE,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if answered {
            self.answered_at
                .fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Whether nobody should wait now: the oldest call without an answer is older than the budget.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.oldest()
            .is_some_and(|sent| now.since(sent) > self.budget)
    }

    /// How long the node has been silent beyond the budget; zero while the gate does not hold.
    ///
    /// Any answer begins this anew, also one to a call that was sent later: a node that answers
    /// slowly is not one that is stuck.
    pub fn held_for(&self, now: Timestamp) -> Duration {
        let Some(sent) = self.oldest() else {
            return Duration::ZERO;
        };
        if now.since(sent) <= self.budget {
            return Duration::ZERO;
        }
        let answered = Timestamp::from_nanos(self.answered_at.load(Ordering::Relaxed));
        now.since(answered.max(sent + self.budget))
    }

    /// Stops looking at the calls that were sent before now: whoever trusts the node anew does not
    /// wait for what it owes from before.
    pub fn forget(&self, now: Timestamp) {
        self.forgotten_before
            .fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// When the oldest call was sent that has not ended.
    fn oldest(&self) -> Option<Timestamp> {
        let forgotten = self.forgotten_before.load(Ordering::Acquire);
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            let sent = self.sent.load(Ordering::Acquire);
            if tail >= sent {
                return None;
            }
            let lapped = sent - tail > self.marks.len() as u64;
            let nanos = self.marks[self.place(tail)].load(Ordering::Acquire);
            if !lapped && nanos != FREE && nanos >= forgotten {
                return Some(Timestamp::from_nanos(nanos));
            }
            // A call whose mark is about to be made may be passed over here. It is too young to
            // matter, and the calls after it tell of the same stall.
            let _ = self
                .tail
                .compare_exchange(tail, tail + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn place(&self, turn: u64) -> usize {
        // A power of two, so that the remainder is a mask.
        (turn % self.marks.len() as u64) as usize
    }
}
