//! The watch over one node of the store: whether a request may wait for it, and what is known of
//! it. Puts the [`Gate`] and the [`Breaker`] together, counts, and logs each change of state.

use std::time::Duration;

use tracing::{info, warn};

use super::breaker::{Breaker, Change, Next, State};
use super::clock::Timestamp;
use super::counters::NodeCounters;
use super::gate::{Gate, Mark};
use super::store::{StoreError, TakeResult};
use super::sync::{AtomicU64, Ordering};

/// How long after closing a breaker calls are held down, for every gateway comes back then.
const WAY_BACK: Duration = Duration::from_millis(500);

/// How often the same complaint is logged, at most.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// What may be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Ask the node, and wait.
    Wait,
    /// Ask it, but wait for nothing.
    Send,
    /// Do not ask it.
    Away,
}

/// How a call ended, as far as the node is judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The node answered.
    Answered,
    /// There is no way to it, or it cannot serve.
    Failed,
    /// It never answered.
    Lost,
    /// That says nothing about the node.
    Nothing,
}

impl End {
    /// What a take's end means for its node.
    pub fn of<T>(result: &Result<T, StoreError>) -> Self {
        match result {
            // A key that is no bucket, or lies elsewhere, was looked up by a node that is well.
            Ok(_) | Err(StoreError::WrongType(_) | StoreError::Moved(_)) => Self::Answered,
            Err(StoreError::Busy(_)) => Self::Nothing,
            Err(StoreError::Lost(_)) => Self::Lost,
            Err(
                StoreError::Disconnected(_)
                | StoreError::Unsent(_)
                | StoreError::Refused(_)
                | StoreError::Answer(_),
            ) => Self::Failed,
        }
    }
}

/// Says something once a minute, however often it happens.
#[derive(Debug, Default)]
pub struct Complaints(AtomicU64);

impl Complaints {
    /// Whether now is the time to say it.
    pub fn may_speak(&self, now: Timestamp) -> bool {
        let spoke_at = self.0.load(Ordering::Relaxed);
        let due = spoke_at == 0 || now.since(Timestamp::from_nanos(spoke_at)) >= SAID_EVERY;
        let now = now.as_nanos().max(1);
        // Of several threads one speaks.
        due && self
            .0
            .compare_exchange(spoke_at, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// One node under watch.
#[derive(Debug)]
pub struct Watch {
    /// The node's number, for logs.
    node: usize,
    gate: Gate,
    breaker: Breaker,
    budget: Duration,
    /// When a probe was fine last, in nanoseconds, which closed the breaker if it is closed; 0: it
    /// never opened.
    fine_at: AtomicU64,
    counters: NodeCounters,
}

impl Watch {
    /// A watch over node number `node`, which is taken to be well.
    pub fn new(node: usize, budget: Duration, failures: u32, in_flight: usize) -> Self {
        Self {
            node,
            gate: Gate::new(budget, in_flight),
            breaker: Breaker::new(failures),
            budget,
            fine_at: AtomicU64::new(0),
            counters: NodeCounters::default(),
        }
    }

    /// What may be done with a request now, and whether the breaker has just opened.
    pub fn way(&self, now: Timestamp) -> (Way, bool) {
        if self.breaker.state() != State::Closed {
            return (Way::Away, false);
        }
        if !self.gate.holds(now) {
            return (Way::Wait, false);
        }
        let opened = self.note(self.breaker.silent(self.gate.held_for(now)));
        (if opened { Way::Away } else { Way::Send }, opened)
    }

    /// Whether the node is back only just, so that calls are few.
    pub fn is_on_the_way_back(&self, now: Timestamp) -> bool {
        let fine_at = self.fine_at.load(Ordering::Relaxed);
        fine_at > 0 && now.since(Timestamp::from_nanos(fine_at)) < WAY_BACK
    }

    /// Notes a call that is sent now.
    pub fn sent(&self, now: Timestamp) -> Mark {
        self.gate.sent(now)
    }

    /// Notes the end of a call that took so long. Says whether the breaker has just opened.
    pub fn ended(&self, mark: Mark, end: End, took: Duration, now: Timestamp) -> bool {
        self.gate.ended(mark, end == End::Answered, now);
        let late = took > self.budget;
        if late && end == End::Answered {
            self.counters.late.increment();
        }
        let change = match end {
            End::Answered => self.breaker.answered(late, now),
            End::Lost => self.breaker.lost(now),
            End::Failed => self.breaker.failed(),
            End::Nothing => None,
        };
        self.note(change)
    }

    /// Notes a call that ended before it was sent. Says whether the breaker has just opened.
    pub fn turned_down(&self, end: End) -> bool {
        let change = match end {
            End::Failed => self.breaker.failed(),
            _ => None,
        };
        self.note(change)
    }

    /// Notes the end of a probe, `None` where it was given up, and says what to do next.
    pub fn probed(&self, result: Option<&TakeResult>, took: Duration, now: Timestamp) -> Next {
        let in_time = took <= self.budget;
        let probes = &self.counters.probes;
        match result {
            Some(Ok(_)) if in_time => probes.ok.increment(),
            Some(Err(StoreError::Lost(_)) | Ok(_)) | None => probes.timeout.increment(),
            Some(Err(_)) => probes.error.increment(),
        }
        let good = in_time && result.is_some_and(Result::is_ok);
        if good {
            // Before the breaker closes: a request that came between would find the silence of
            // before and open it anew, or not know that the node is back only just.
            self.gate.forget(now);
            self.fine_at.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
        let (change, next) = self.breaker.probed(good);
        self.note(change);
        next
    }

    /// Notes that the node is gone for good: nothing is held against the one that takes its number.
    pub fn vacated(&self, now: Timestamp) {
        self.gate.forget(now);
        if self.breaker.vacate() {
            self.counters.closed.increment();
            info!(node = self.node, "the node is gone from the store");
        }
    }

    /// The state of the breaker.
    pub fn state(&self) -> State {
        self.breaker.state()
    }

    /// What was counted of this node.
    pub fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// Counts and logs a change of state. Says whether the breaker was closed and is open now:
    /// then somebody has to begin to probe.
    fn note(&self, change: Option<Change>) -> bool {
        let node = self.node;
        match change {
            None => false,
            Some(Change::Opened(reason)) => {
                self.counters.opened.increment();
                warn!(
                    node,
                    "the store is away: {reason}; deciding on this gateway's share"
                );
                reason != super::breaker::Reason::Probe
            }
            Some(Change::HalfOpened) => {
                self.counters.half_opened.increment();
                info!(node, "the store answers again; trying whether it goes on");
                false
            }
            Some(Change::Closed) => {
                self.counters.closed.increment();
                info!(
                    node,
                    "the store is back: three probes in a row were answered in time"
                );
                false
            }
        }
    }
}
