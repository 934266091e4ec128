//! Requests that wait for the store's answer, and the calls that bring it.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::bucket::{Ask, Grant};

/// Why the store did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// It is away, or too slow: the rule says what happens then.
    Store,
    /// It is well, and this one request is decided here all the same.
    Asking,
}

/// What a request is told.
pub type Answer = Result<Grant, Without>;

/// A request that waits.
#[derive(Debug)]
pub struct Waiter {
    /// Tokens that it takes.
    pub cost: u32,
    answer: oneshot::Sender<Answer>,
}

/// Where a request finds its answer.
pub type Answered = oneshot::Receiver<Answer>;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests that wait for it.
    Requests,
    /// A request that was decided already, while nobody waits for the store.
    Decided,
    /// To fill a lease up before it is empty.
    Refill,
    /// To see whether an empty bucket has more.
    Poll,
}

/// A call to the store, and for whom.
#[derive(Debug)]
pub struct Errand {
    /// What it asks.
    pub ask: Ask,
    /// What it is for.
    pub purpose: Purpose,
    /// Who waits for it.
    pub waiters: Vec<Waiter>,
    /// Tokens that one sub-bucket has granted already, where another one is asked for the rest.
    pub carried: u32,
    /// Whether it is the second sub-bucket that is asked.
    pub second: bool,
    /// Whether it is among the calls under way that bound how many more may be made.
    pub counted: bool,
}

impl Waiter {
    /// A request that takes `cost` tokens, and where it finds its answer.
    pub fn new(cost: u32) -> (Self, Answered) {
        let (answer, answered) = oneshot::channel();
        (Self { cost, answer }, answered)
    }

    /// Tells the request. False where it waits no more.
    pub fn tell(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }

    /// Whether it waits no more.
    pub fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }
}

impl Errand {
    /// A call for one request alone, of a key of which nothing is remembered; and where the request
    /// finds its answer.
    pub fn of_one(ask: Ask) -> (Self, Answered) {
        let (waiter, answered) = Waiter::new(ask.cost);
        let errand = Self {
            ask,
            purpose: Purpose::Requests,
            waiters: vec![waiter],
            carried: 0,
            second: false,
            counted: false,
        };
        (errand, answered)
    }
}

impl Purpose {
    /// Whether requests wait for such calls, or did.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::Requests | Self::Decided)
    }
}

/// Takes the first of those who wait out of the queue: as many as take the same number of tokens.
pub fn first_of_one_cost(queue: &mut VecDeque<Waiter>) -> Vec<Waiter> {
    while queue.front().is_some_and(Waiter::is_gone) {
        queue.pop_front();
    }
    let Some(cost) = queue.front().map(|first| first.cost) else {
        return Vec::new();
    };
    let run = queue
        .iter()
        .take_while(|waiter| waiter.cost == cost)
        .count();
    queue
        .drain(..run)
        .filter(|waiter| !waiter.is_gone())
        .collect()
}
