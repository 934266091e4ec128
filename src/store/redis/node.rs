//! One Redis server, as requests see it: a connection that is there or is not.
//!
//! Nothing here waits for a connection or makes one: the [`connector`](super::connector) does, in
//! the background. Without a connection, or with as many calls under way as may be, a take is
//! turned down at once; there is no queue from which it could be sent late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Pipeline, RedisResult, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::places::{Place, Places};
use super::script;
use super::take::Script;
use super::url::Address;
use crate::limit::StoreError;

/// How long a call may stay unanswered before it is given up, at least. Far longer than requests
/// wait: an answer that comes late is still worth reading.
const MIN_CALL_LIFETIME: Duration = Duration::from_secs(2);

/// A server and the way to it.
pub struct Node {
    client: Client,
    /// Where the server is.
    address: Address,
    /// The connection in use, while there is one.
    link: ArcSwapOption<Link>,
    /// For calls that were sent and have neither been answered nor given up.
    places: Arc<Places>,
    /// How long a call may stay unanswered before it is given up.
    call_lifetime: Duration,
    /// Wakes the connector when a call found the connection broken.
    broken: Notify,
    /// Whether the first attempt to connect has ended, either way.
    tried: watch::Sender<bool>,
    /// Whether the keys are another server's by now.
    retired: AtomicBool,
    /// The connector.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// A connection that is fit for takes: the script is loaded.
pub struct Link {
    pub(super) connection: MultiplexedConnection,
    /// The script's name on this server.
    pub(super) sha: String,
    /// The name of the script that puts tokens back.
    pub(super) give_back_sha: String,
    /// The name of the heartbeat's script.
    pub(super) heartbeat_sha: String,
}

impl Node {
    /// A node without a connection.
    pub(super) fn new(
        client: Client,
        address: Address,
        budget: Duration,
        max_in_flight: usize,
    ) -> Self {
        Self {
            client,
            address,
            link: ArcSwapOption::empty(),
            places: Arc::new(Places::new(max_in_flight)),
            call_lifetime: MIN_CALL_LIFETIME.max(2 * budget),
            broken: Notify::new(),
            tried: watch::Sender::new(false),
            retired: AtomicBool::new(false),
            keeper: Mutex::new(None),
        }
    }

    /// The connection in use, if there is one.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.load_full()
    }

    /// A place among the calls under way.
    ///
    /// # Errors
    ///
    /// Where as many as may be are.
    pub(super) fn enter(&self) -> Result<Place, StoreError> {
        let place = self.places.enter();
        place.ok_or_else(|| StoreError::Busy(self.places.most()))
    }

    /// Sends a command once; where the server has forgotten the script, once more with its text.
    /// `asking` says that the key may be on its way here.
    pub(super) async fn send(
        &self,
        link: &Arc<Link>,
        script: &impl Script,
        asking: bool,
    ) -> RedisResult<Value> {
        let mut reply = query(link, script.by_name(link), asking).await;
        if reply.as_ref().is_err_and(script::is_unknown) {
            reply = query(link, script.by_text(), asking).await;
        }
        if let Err(error) = &reply
            && let StoreError::Disconnected(_) = script::read_error(error)
        {
            self.lose(link);
        }
        reply
    }

    pub(super) fn unsent(&self) -> StoreError {
        StoreError::Unsent(self.address.to_string())
    }

    /// Lets the server go: its keys are another one's.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.abort();
        }
        self.link.store(None);
    }

    /// Whether the server was let go: what it still answers is of no bucket that counts.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Has `keeper` end when the server is let go.
    pub(super) fn keep(&self, keeper: JoinHandle<()>) {
        *self.keeper.lock() = Some(keeper);
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.places.taken()
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns once there is a connection, or the first attempt to make one has failed.
    pub async fn tried(&self) {
        // The sender lives as long as this node, so the channel is never closed.
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn call_lifetime(&self) -> Duration {
        self.call_lifetime
    }

    pub(super) fn max_in_flight(&self) -> usize {
        self.places.most()
    }

    /// Puts a connection into use.
    pub(super) fn use_link(&self, link: Arc<Link>) {
        self.link.store(Some(link));
    }

    /// Says that an attempt to connect has ended.
    pub(super) fn attempt_ended(&self) {
        self.tried.send_replace(true);
    }

    /// Stops using `link`, unless another one is in use by now.
    pub(super) fn lose(&self, link: &Arc<Link>) {
        let previous = self.link.compare_and_swap(link, None);
        if previous
            .as_ref()
            .is_some_and(|used| Arc::ptr_eq(used, link))
        {
            self.broken.notify_one();
        }
    }

    /// Waits until a call has found the connection broken.
    pub(super) async fn lost(&self) {
        self.broken.notified().await;
    }
}

impl Link {
    /// Whether the server still answers. Any answer will do, also that PING is not allowed.
    pub(super) async fn is_alive(&self, within: Duration) -> bool {
        let mut connection = self.connection.clone();
        let ping = redis::cmd("PING");
        let ping = ping.query_async::<Value>(&mut connection);
        match tokio::time::timeout(within, ping).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => !error.is_io_error(),
            Err(_) => false,
        }
    }
}

async fn query(link: &Link, command: Cmd, asking: bool) -> RedisResult<Value> {
    let mut connection = link.connection.clone();
    if !asking {
        return command.query_async(&mut connection).await;
    }
    // In one piece, for ASKING holds for the next command on the connection alone.
    let mut both = Pipeline::new();
    both.cmd("ASKING").add_command(command);
    let mut replies = connection.send_packed_commands(&both, 1, 1).await?;
    replies.pop().unwrap_or_default().extract_error()
}
