//! The circuit breaker of one node: whether the node is asked at all.
//!
//! A state machine on times that are handed in: it hears how calls and probes ended and says when
//! the state changes, and why. It neither calls nor waits nor logs; [`watch`](super::watch) does.
//! The state is read on every request, so it is a plain atomic, and so is all that a good answer
//! touches.

use std::fmt;
use std::time::Duration;

use super::clock::Timestamp;
use super::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// How long a node may be silent, beyond the budget, before it is no longer asked.
const LONGEST_STALL: Duration = Duration::from_millis(100);
/// Late calls less far apart than this are one stall, whatever their number.
const LATE_FOR: Duration = Duration::from_millis(500);
/// Fewer calls than this say nothing about a node that is slow.
const ENOUGH_CALLS: u32 = 20;
/// How long late calls are remembered where there are enough others.
const WINDOW: Duration = Duration::from_secs(1);
/// How long they are remembered where there are not: a quiet gateway needs longer to see as much.
const LONGEST_WINDOW: Duration = Duration::from_secs(10);
/// Probes in a row, answered within the budget, that close the breaker.
const PROBES_TO_CLOSE: u32 = 3;

/// Whether a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It is.
    Closed = 0,
    /// Only by probes, of which the last one was fine.
    HalfOpen = 1,
    /// Only by probes.
    Open = 2,
}

/// Why a breaker has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// So many calls in a row failed.
    Failures(u32),
    /// No call was answered for this long, beyond the budget.
    Silence(Duration),
    /// So many of so many calls came after the budget.
    Slow {
        /// Late ones.
        late: u32,
        /// All.
        calls: u32,
    },
    /// A probe was not answered well after the one before it was.
    Probe,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// From closed, or back from half-open.
    Opened(Reason),
    /// From open: one probe was fine.
    HalfOpened,
    /// From half-open: enough of them were.
    Closed,
}

/// What whoever probes does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another probe at once.
    Again,
    /// Another one after the usual pause.
    Pause,
    /// Nothing: the breaker is closed.
    Done,
}

/// The breaker of one node.
#[derive(Debug)]
pub struct Breaker {
    /// A [`State`].
    state: AtomicU8,
    /// Hard errors in a row that open it.
    limit: u32,
    /// Hard errors in a row, while closed.
    failures: AtomicU32,
    /// When the window began, with a late call; 0: there is none.
    window: AtomicU64,
    /// Calls in the window.
    calls: AtomicU32,
    /// The late ones among them.
    late: AtomicU32,
    /// Good probes in a row.
    probes: AtomicU32,
}

impl Breaker {
    /// A closed breaker that opens on `failures` hard errors in a row.
    pub fn new(failures: u32) -> Self {
        Self {
            state: AtomicU8::new(State::Closed as u8),
            limit: failures.max(1),
            failures: AtomicU32::new(0),
            window: AtomicU64::new(0),
            calls: AtomicU32::new(0),
            late: AtomicU32::new(0),
            probes: AtomicU32::new(0),
        }
    }

    /// The state now.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Closed,
            1 => State::HalfOpen,
            _ => State::Open,
        }
    }

    /// Notes a call that the node answered, within the budget or `late`.
    pub fn answered(&self, late: bool, now: Timestamp) -> Option<Change> {
        // Reading is cheap, while writing takes the line from the other threads.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        self.timed(late, now)
    }

    /// Notes a call that was given up without an answer.
    pub fn lost(&self, now: Timestamp) -> Option<Change> {
        self.timed(true, now)
    }

    /// Notes a call that the node refused, or that found no way to it.
    pub fn failed(&self) -> Option<Change> {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures < self.limit {
            return None;
        }
        self.open(Reason::Failures(failures))
    }

    /// Notes how long the node has been silent beyond the budget.
    pub fn silent(&self, held_for: Duration) -> Option<Change> {
        if held_for < LONGEST_STALL {
            return None;
        }
        self.open(Reason::Silence(held_for))
    }

    /// Notes a probe's end: `good` if it was answered within the budget. One probe at a time.
    pub fn probed(&self, good: bool) -> (Option<Change>, Next) {
        if self.state() == State::Closed {
            return (None, Next::Done);
        }
        if !good {
            self.probes.store(0, Ordering::Relaxed);
            let was_half_open = self.change(State::HalfOpen, State::Open);
            let change = was_half_open.then_some(Change::Opened(Reason::Probe));
            return (change, Next::Pause);
        }
        let probes = self.probes.fetch_add(1, Ordering::Relaxed) + 1;
        if probes < PROBES_TO_CLOSE {
            let was_open = self.change(State::Open, State::HalfOpen);
            return (was_open.then_some(Change::HalfOpened), Next::Again);
        }
        self.start_anew();
        let closed = self.change(State::HalfOpen, State::Closed);
        (closed.then_some(Change::Closed), Next::Done)
    }

    /// Closes it without a probe, for the node is gone. Says whether it was not closed.
    pub fn vacate(&self) -> bool {
        self.start_anew();
        let before = self.state.swap(State::Closed as u8, Ordering::AcqRel);
        before != State::Closed as u8
    }

    /// Counts a call towards the question whether the node is slow.
    fn timed(&self, late: bool, now: Timestamp) -> Option<Change> {
        let began = self.window.load(Ordering::Relaxed);
        if began == 0 {
            if late {
                self.begin_window(began, now);
            }
            return None;
        }
        let age = now.since(Timestamp::from_nanos(began));
        let calls = self.calls.load(Ordering::Relaxed);
        if age > LONGEST_WINDOW || (age > WINDOW && calls >= ENOUGH_CALLS) {
            if late {
                self.begin_window(began, now);
            } else {
                self.end_window(began);
            }
            return None;
        }
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if !late {
            return None;
        }
        let late = self.late.fetch_add(1, Ordering::Relaxed) + 1;
        if age < LATE_FOR || calls < ENOUGH_CALLS || late.saturating_mul(2) < calls {
            return None;
        }
        self.open(Reason::Slow { late, calls })
    }

    /// A window begins with its first late call. Threads that race for it lose a count at most.
    fn begin_window(&self, old: u64, now: Timestamp) {
        let now = now.as_nanos().max(1);
        let begun = self
            .window
            .compare_exchange(old, now, Ordering::Relaxed, Ordering::Relaxed);
        if begun.is_ok() {
            self.calls.store(1, Ordering::Relaxed);
            self.late.store(1, Ordering::Relaxed);
        }
    }

    /// Ends a window that has passed, unless it has made room for the next one by now.
    fn end_window(&self, old: u64) {
        let _ = self
            .window
            .compare_exchange(old, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn open(&self, reason: Reason) -> Option<Change> {
        let opened = self.change(State::Closed, State::Open);
        if opened {
            self.start_anew();
        }
        opened.then_some(Change::Opened(reason))
    }

    /// Forgets what led to the state before.
    fn start_anew(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.window.store(0, Ordering::Relaxed);
        self.probes.store(0, Ordering::Relaxed);
    }

    /// Whether the state was `from`, and now is `to`. Of several threads one makes the change.
    fn change(&self, from: State, to: State) -> bool {
        self.state
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failures(failures) => write!(f, "{failures} calls in a row failed"),
            Self::Silence(time) => write!(f, "no answer for {} ms", time.as_millis()),
            Self::Slow { late, calls } => write!(f, "{late} of {calls} calls were late"),
            Self::Probe => f.write_str("a probe failed"),
        }
    }
}
