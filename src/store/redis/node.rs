//! One Redis server, as requests see it: a connection that is there or is not.
//!
//! Nothing here waits for a connection or makes one: the [`connector`](super::connector) does, in
//! the background. Without a connection, or with as many calls under way as may be, a take is
//! turned down at once; there is no queue from which it could be sent late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{Client, IntoConnectionInfo, RedisResult, Value};
use tokio::sync::{Notify, watch};

use super::{give_back, heartbeat, script};
use crate::limit::store::TakeResult;
use crate::limit::{Ask, Call, Heartbeat, Rule, StoreError};

/// How long a call may stay unanswered before it is given up, at least. Far longer than requests
/// wait: an answer that comes late is still worth reading.
const MIN_CALL_LIFETIME: Duration = Duration::from_secs(2);

/// A server and the way to it.
pub struct Node {
    client: Client,
    /// Where the server is, for logs: without user and password.
    address: String,
    /// The connection in use, while there is one.
    link: ArcSwapOption<Link>,
    /// Calls that were sent and have neither been answered nor given up.
    in_flight: AtomicUsize,
    max_in_flight: usize,
    /// How long a call may stay unanswered before it is given up.
    call_lifetime: Duration,
    /// Wakes the connector when a call found the connection broken.
    broken: Notify,
    /// Whether the first attempt to connect has ended, either way.
    tried: watch::Sender<bool>,
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

/// A call's place among those under way; dropping it frees the place.
struct Slot(Arc<Node>);

impl Node {
    /// A node without a connection.
    ///
    /// # Errors
    ///
    /// Where `url` is not a Redis URL.
    pub fn new(url: &str, budget: Duration, max_in_flight: usize) -> RedisResult<Self> {
        let client = Client::open(url.into_connection_info()?)?;
        let address = client.get_connection_info().addr().to_string();
        Ok(Self {
            client,
            address,
            link: ArcSwapOption::empty(),
            in_flight: AtomicUsize::new(0),
            max_in_flight,
            call_lifetime: MIN_CALL_LIFETIME.max(2 * budget),
            broken: Notify::new(),
            tried: watch::Sender::new(false),
        })
    }

    /// Sends a take, if that can be done now.
    pub fn take(self: &Arc<Self>, key: String, rule: &Rule, ask: &Ask) -> Call {
        let Some(link) = self.link.load_full() else {
            return Call::Done(Err(self.unsent()));
        };
        let Some(slot) = Slot::enter(self) else {
            return Call::Done(Err(StoreError::Busy(self.max_in_flight)));
        };
        let (rule, ask) = (*rule, *ask);
        Call::Waiting(Box::pin(async move {
            slot.0.call(&link, &key, &rule, &ask).await
        }))
    }

    /// Puts tokens back, if that can be done now.
    pub fn give_back(self: &Arc<Self>, key: String, rule: &Rule, tokens: u32) -> Call {
        let Some(link) = self.link.load_full() else {
            return Call::Done(Err(self.unsent()));
        };
        let Some(slot) = Slot::enter(self) else {
            return Call::Done(Err(StoreError::Busy(self.max_in_flight)));
        };
        let rule = *rule;
        Call::Waiting(Box::pin(async move {
            let result = give_back::give_back(&link, &key, &rule, tokens).await;
            if let Err(StoreError::Disconnected(_)) = result {
                slot.0.lose(&link);
            }
            result
        }))
    }

    /// A take from a bucket that is nobody's. It needs no place among those under way: the places
    /// may be taken by calls that this node will never answer.
    pub fn probe(self: &Arc<Self>, key: String) -> Call {
        let Some(link) = self.link.load_full() else {
            return Call::Done(Err(self.unsent()));
        };
        let node = Arc::clone(self);
        Call::Waiting(Box::pin(async move {
            node.call(&link, &key, &script::PROBE_RULE, &Ask::one(1))
                .await
        }))
    }

    /// A heartbeat of gateway `id`.
    pub fn heartbeat(self: &Arc<Self>, id: &str) -> Heartbeat {
        let node = Arc::clone(self);
        let id = id.to_owned();
        Box::pin(async move {
            let Some(link) = node.link.load_full() else {
                return Err(node.unsent());
            };
            heartbeat::beat(&link, &id).await
        })
    }

    async fn call(&self, link: &Arc<Link>, key: &str, rule: &Rule, ask: &Ask) -> TakeResult {
        let mut connection = link.connection.clone();
        let by_name = script::by_name(&link.sha, key, rule, ask);
        let mut reply = by_name.query_async(&mut connection).await;
        if reply.as_ref().is_err_and(script::is_unknown) {
            let by_text = script::by_text(key, rule, ask);
            reply = by_text.query_async(&mut connection).await;
        }
        let result = script::read(reply, rule, ask);
        if let Err(StoreError::Disconnected(_)) = result {
            self.lose(link);
        }
        result
    }

    fn unsent(&self) -> StoreError {
        StoreError::Unsent(self.address.clone())
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Where the server is, without credentials.
    pub fn address(&self) -> &str {
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
        self.max_in_flight
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

impl Slot {
    fn enter(node: &Arc<Node>) -> Option<Self> {
        let bound = node.max_in_flight;
        node.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| {
                (calls < bound).then_some(calls + 1)
            })
            .ok()
            .map(|_| Self(Arc::clone(node)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
