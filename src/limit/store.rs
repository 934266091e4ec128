//! The trait of a bucket store: the one thing that the limiter needs to know of Redis.

use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

use super::bucket::{Ask, Grant};
use super::key::BucketKey;
use super::rule::Rule;

/// A store's answer to a take.
pub type TakeResult = Result<Grant, StoreError>;

/// A take that was handed to a store.
pub enum Call {
    /// Answered at once, without leaving this process.
    Done(TakeResult),
    /// On its way. The future owns all that it needs: it may be finished by another task, after
    /// the request that asked is gone.
    Waiting(Pin<Box<dyn Future<Output = TakeResult> + Send>>),
}

impl Call {
    /// The answer, however long it takes.
    ///
    /// # Errors
    ///
    /// What the store reports.
    pub async fn finish(self) -> TakeResult {
        match self {
            Self::Done(result) => result,
            Self::Waiting(reply) => reply.await,
        }
    }
}

/// The number of gateways that are alive, on its way.
pub type Heartbeat = Pin<Box<dyn Future<Output = Result<u32, StoreError>> + Send>>;

/// Where buckets live.
///
/// A take is one atomic step on one bucket: refill, then grant. A store never repeats a take of
/// which it cannot know that it was not done.
pub trait BucketStore: Send + Sync + 'static {
    /// Asks the bucket of `key` under `rule`.
    ///
    /// Returns at once. A store that has no way to ask right now (no connection, too many calls
    /// under way) says so in [`Call::Done`]: it keeps no queue.
    fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call;

    /// Puts `tokens` back into the bucket of `key` that were granted and not spent, never above its
    /// capacity. `granted` of the answer says how many found room; a bucket that is not there has
    /// none.
    fn give_back(&self, key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call;

    /// Whether a bucket can be split into sub-buckets that lie apart. If not, none of the next three
    /// is called.
    fn has_parts(&self) -> bool {
        false
    }

    /// [`BucketStore::take`] for sub-bucket number `part`, under the rule of the part.
    fn take_part(&self, _key: &BucketKey<'_>, part: u32, _rule: &Rule, _ask: &Ask) -> Call {
        Call::Done(Err(StoreError::Unsent(format!("there is no part {part}"))))
    }

    /// [`BucketStore::give_back`] for sub-bucket number `part`.
    fn give_back_part(&self, _key: &BucketKey<'_>, part: u32, _rule: &Rule, _tokens: u32) -> Call {
        Call::Done(Err(StoreError::Unsent(format!("there is no part {part}"))))
    }

    /// [`BucketStore::node_of`] for sub-bucket number `part`.
    fn node_of_part(&self, key: &BucketKey<'_>, _part: u32) -> usize {
        self.node_of(key)
    }

    /// How many numbers of nodes there are. Buckets are spread over nodes, each of which is watched
    /// by itself. Nodes may come and go: this grows up to
    /// [`MAX_NODES`](super::watches::MAX_NODES), and never shrinks, for a number stays when its
    /// node is gone, until another node takes it.
    fn nodes(&self) -> usize {
        1
    }

    /// Whether there is a node of this number. If there is none, nobody has to wait for its return.
    fn has_node(&self, _node: usize) -> bool {
        true
    }

    /// The number of the node that holds the bucket of `key`, below [`BucketStore::nodes`].
    fn node_of(&self, _key: &BucketKey<'_>) -> usize {
        0
    }

    /// Asks a node for what shows that it can serve takes: one take from a bucket that is nobody's.
    fn probe(&self, _node: usize) -> Call {
        Call::Done(Err(StoreError::Unsent(
            "this store has no probe".to_owned(),
        )))
    }

    /// Says that gateway `id` is alive, and asks how many are.
    fn heartbeat(&self, _id: &str) -> Heartbeat {
        Box::pin(std::future::ready(Ok(1)))
    }

    /// Whether buckets are this process's own. If they are, they hold the whole limit, however
    /// many gateways there are.
    fn is_local(&self) -> bool;

    /// How many buckets this process holds for the store.
    fn local_buckets(&self) -> usize {
        0
    }

    /// How many calls to a node are on their way.
    fn in_flight(&self, _node: usize) -> usize {
        0
    }
}

/// Why a store gave no grant. Who asks learns what to do from the kind; the text is for logs.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// There is no connection: nothing was sent.
    #[error("no connection to the store: {0}")]
    Unsent(String),
    /// The connection broke before the answer.
    #[error("lost the connection to the store: {0}")]
    Disconnected(String),
    /// As many calls are under way as may be. No failure of the store.
    #[error("{0} calls to the store are under way already")]
    Busy(usize),
    /// The store answered that it cannot serve: loading, read-only, out of memory, ….
    #[error("the store refused the take: {0}")]
    Refused(String),
    /// This one key holds something that is no bucket. Other keys are not touched by it.
    #[error("the key holds no bucket: {0}")]
    WrongType(String),
    /// The key lives on another node, or on none. This one did nothing, and is not to blame.
    #[error("the key is not on this node: {0}")]
    Moved(String),
    /// The answer is not of the script's form.
    #[error("the store's answer makes no sense: {0}")]
    Answer(String),
    /// No answer within the time that a call is given at all, which is far more than what a
    /// request waits for.
    #[error("the store did not answer: {0}")]
    Lost(String),
}

impl StoreError {
    /// Whether the take was certainly not done, so that nothing of it has to be made up for.
    pub fn is_untouched(&self) -> bool {
        match self {
            Self::Unsent(_)
            | Self::Busy(_)
            | Self::Refused(_)
            | Self::WrongType(_)
            | Self::Moved(_) => true,
            Self::Disconnected(_) | Self::Answer(_) | Self::Lost(_) => false,
        }
    }
}
