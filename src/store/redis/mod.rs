//! The store that all gateways share: buckets in Redis, one script call for each take.
//!
//! [`key`] says how a bucket is named, [`script`] what is sent and read, [`topology`] which node
//! holds a key, [`node`] how a call is made, and [`connector`] keeps nodes connected. By the
//! [`heartbeat`] gateways count each other. Redis's own clock counts; no time of this process is
//! sent.

pub mod connector;
mod eviction;
pub mod give_back;
pub mod heartbeat;
pub mod key;
pub mod node;
pub mod probe;
pub mod script;
pub mod topology;

use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisError;
use thiserror::Error;

use self::node::Node;
use self::topology::Topology;
use crate::limit::{Ask, BucketKey, BucketStore, Call, Heartbeat, Rule, StoreError};

/// Why there can be no store at this address.
#[derive(Debug, Error)]
#[error("the Redis URL cannot be used: {0}")]
pub struct UrlError(#[from] RedisError);

/// How the store is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'s> {
    /// Where Redis is: `redis://[user:pass@]host:port[/db]`.
    pub url: &'s str,
    /// What a request may wait for; calls outlive it.
    pub budget: Duration,
    /// Calls that may be under way for each node.
    pub max_in_flight: usize,
}

/// Buckets in Redis.
pub struct RedisStore {
    topology: Topology,
}

impl RedisStore {
    /// A store that is not connected yet; see [`RedisStore::connect`].
    ///
    /// # Errors
    ///
    /// Where the URL is wrong.
    pub fn new(settings: &Settings<'_>) -> Result<Self, UrlError> {
        let node = Node::new(settings.url, settings.budget, settings.max_in_flight)?;
        Ok(Self {
            topology: Topology::standalone(node),
        })
    }

    /// Connects in the background, in the runtime that this is called from: that is the one that
    /// calls are made in, for a connection that lives elsewhere costs each call a thread's hop.
    ///
    /// Returns when each node was tried once, successful or not, and after `patience` at the
    /// latest.
    pub async fn connect(&self, patience: Duration) {
        for node in self.topology.nodes() {
            tokio::spawn(connector::keep_connected(Arc::clone(node)));
        }
        let all_tried = async {
            for node in self.topology.nodes() {
                node.tried().await;
            }
        };
        // Late or not, the connectors go on.
        let _ = tokio::time::timeout(patience, all_tried).await;
    }
}

impl BucketStore for RedisStore {
    fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        let key = key::bucket_key(key);
        self.topology.node_of(&key).take(key, rule, ask)
    }

    fn give_back(&self, key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        let key = key::bucket_key(key);
        self.topology.node_of(&key).give_back(key, rule, tokens)
    }

    fn nodes(&self) -> usize {
        self.topology.nodes().len()
    }

    fn probe(&self, node: usize) -> Call {
        match self.topology.nodes().get(node) {
            Some(of_number) => of_number.probe(key::probe_key(node)),
            None => Call::Done(Err(StoreError::Unsent(format!("there is no node {node}")))),
        }
    }

    fn heartbeat(&self, id: &str) -> Heartbeat {
        self.topology.node_of(heartbeat::KEY).heartbeat(id)
    }

    fn is_local(&self) -> bool {
        false
    }

    fn in_flight(&self, node: usize) -> usize {
        self.topology
            .nodes()
            .get(node)
            .map_or(0, |node| node.in_flight())
    }
}
