//! The store that all gateways share: buckets in Redis, one script call for each take.
//!
//! [`url`] says where Redis is and [`access`] how to sign in; [`key`] how a bucket is named, [`script`]
//! what is sent and read, [`topology`] which node holds a key (in a cluster by [`slots`]), [`node`] how a
//! call is made and [`take`] how it finds the right node. In the background [`connector`] keeps nodes
//! connected, and [`cluster`] or [`sentinel`] follows who they are. By the [`heartbeat`] gateways count
//! each other. Redis's own clock counts; no time of this process is sent.

pub mod access;
mod cluster;
pub mod connector;
mod eviction;
pub mod give_back;
pub mod heartbeat;
pub mod key;
pub mod node;
pub mod places;
pub mod probe;
pub mod refusal;
pub mod script;
mod sentinel;
mod slot_map;
pub mod slots;
mod take;
pub mod topology;
pub mod url;

use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisError;
use thiserror::Error;

use self::access::{Access, AccessError, TlsFiles};
use self::give_back::GiveBack;
use self::heartbeat::Beat;
use self::script::Take;
use self::take::Way;
use self::topology::Topology;
use self::url::{Address, Kind, Place, UrlProblem};
use crate::limit::{Ask, BucketKey, BucketStore, Call, Heartbeat, Rule, StoreError};

/// Why there can be no store at this address.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The URL is wrong.
    #[error("the Redis URL {0}")]
    Url(#[from] UrlProblem),
    /// The certificates are.
    #[error("store.redis.tls: {0}")]
    Access(#[from] AccessError),
    /// There can be no client for it.
    #[error("the Redis URL cannot be used: {0}")]
    Client(#[from] RedisError),
}

/// How the store is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'s> {
    /// Where Redis is; see [`url`].
    pub url: &'s str,
    /// Certificates, for a URL with TLS.
    pub tls: &'s TlsFiles,
    /// What a request may wait for; calls outlive it.
    pub budget: Duration,
    /// Calls that may be under way for each node.
    pub max_in_flight: usize,
}

/// Buckets in Redis.
pub struct RedisStore {
    topology: Arc<Topology>,
    kind: Kind,
    hosts: Vec<Address>,
}

impl RedisStore {
    /// A store that is not connected yet; see [`RedisStore::connect`].
    ///
    /// # Errors
    ///
    /// Where the URL or a certificate is wrong.
    pub fn new(settings: &Settings<'_>) -> Result<Self, SetupError> {
        let place = Place::parse(settings.url)?;
        let access = Access::new(&place, settings.tls)?;
        let (budget, bound) = (settings.budget, settings.max_in_flight);
        let topology = match place.kind {
            Kind::Standalone => Topology::standalone(&place.hosts[0], access, budget, bound)?,
            Kind::Cluster => Topology::unknown(access, budget, bound, true),
            Kind::Sentinel { .. } => Topology::unknown(access, budget, bound, false),
        };
        Ok(Self {
            topology: Arc::new(topology),
            kind: place.kind,
            hosts: place.hosts,
        })
    }

    /// Connects in the background, in the runtime that this is called from: that is the one that
    /// calls are made in, for a connection that lives elsewhere costs each call a thread's hop.
    ///
    /// Returns when each node was tried once, successful or not, and after `patience` at the
    /// latest.
    pub async fn connect(&self, patience: Duration) {
        let topology = Arc::clone(&self.topology);
        match &self.kind {
            Kind::Standalone => {
                for node in topology.nodes() {
                    node.keep(tokio::spawn(connector::keep_connected(Arc::clone(&node))));
                }
                topology.have_asked();
            }
            Kind::Cluster => {
                tokio::spawn(cluster::follow(topology, self.hosts.clone()));
            }
            Kind::Sentinel { master } => {
                let hosts = self.hosts.clone();
                tokio::spawn(sentinel::follow(topology, hosts, master.clone()));
            }
        }
        let all_tried = async {
            self.topology.asked().await;
            for node in self.topology.nodes() {
                node.tried().await;
            }
        };
        // Late or not, the connectors go on.
        let _ = tokio::time::timeout(patience, all_tried).await;
    }

    /// The way to the node that holds `key`, if there is one now.
    fn way(&self, key: &str) -> Result<Way, StoreError> {
        let node = self.topology.node_of(key).ok_or_else(|| self.nobody())?;
        let link = node.link().ok_or_else(|| node.unsent())?;
        let place = node.enter()?;
        Ok(Way {
            topology: Arc::clone(&self.topology),
            node,
            link,
            _place: place,
        })
    }

    fn take_from(&self, key: String, rule: &Rule, ask: &Ask) -> Call {
        let way = match self.way(&key) {
            Ok(way) => way,
            Err(none) => return Call::Done(Err(none)),
        };
        let (rule, ask) = (*rule, *ask);
        Call::Waiting(Box::pin(async move {
            let take = Take {
                key: &key,
                rule: &rule,
                ask: &ask,
            };
            script::read(way.send(&take).await, &rule, &ask)
        }))
    }

    fn give_back_to(&self, key: String, rule: &Rule, tokens: u32) -> Call {
        let way = match self.way(&key) {
            Ok(way) => way,
            Err(none) => return Call::Done(Err(none)),
        };
        let rule = *rule;
        Call::Waiting(Box::pin(async move {
            let back = GiveBack {
                key: &key,
                rule: &rule,
                tokens,
            };
            script::read(way.send(&back).await, &rule, &Ask::one(1))
        }))
    }

    /// What a take says for which no node is known.
    fn nobody(&self) -> StoreError {
        if self.topology.is_known() {
            self.topology.doubt();
            // No node is to blame.
            StoreError::Moved("no node is known to hold its slot".to_owned())
        } else {
            StoreError::Unsent("no node is known yet".to_owned())
        }
    }
}

impl BucketStore for RedisStore {
    fn take(&self, key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        self.take_from(key::bucket_key(key), rule, ask)
    }

    fn give_back(&self, key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        self.give_back_to(key::bucket_key(key), rule, tokens)
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn take_part(&self, key: &BucketKey<'_>, part: u32, rule: &Rule, ask: &Ask) -> Call {
        self.take_from(key::shard_key(key, part), rule, ask)
    }

    fn give_back_part(&self, key: &BucketKey<'_>, part: u32, rule: &Rule, tokens: u32) -> Call {
        self.give_back_to(key::shard_key(key, part), rule, tokens)
    }

    fn node_of_part(&self, key: &BucketKey<'_>, part: u32) -> usize {
        match self.kind {
            Kind::Cluster => self.topology.number_of(&key::shard_key(key, part)),
            Kind::Standalone | Kind::Sentinel { .. } => 0,
        }
    }

    fn nodes(&self) -> usize {
        self.topology.numbers()
    }

    fn has_node(&self, node: usize) -> bool {
        self.topology.is_seated(node)
    }

    fn node_of(&self, key: &BucketKey<'_>) -> usize {
        match self.kind {
            Kind::Cluster => self.topology.number_of(&key::bucket_key(key)),
            Kind::Standalone | Kind::Sentinel { .. } => 0,
        }
    }

    /// A take from a bucket that is nobody's. It needs no place among those under way: the places
    /// may be taken by calls that the node will never answer.
    fn probe(&self, node: usize) -> Call {
        let topology = Arc::clone(&self.topology);
        // A node that is probed is in doubt: another one may have its keys by now.
        topology.doubt();
        let Some(seat) = topology.seat(node) else {
            return Call::Done(Err(StoreError::Unsent(format!("there is no node {node}"))));
        };
        let Some(link) = seat.node.link() else {
            return Call::Done(Err(seat.node.unsent()));
        };
        Call::Waiting(Box::pin(async move {
            let (rule, ask) = (&script::PROBE_RULE, &Ask::one(1));
            let key = &key::probe_key(seat.probe);
            let take = Take { key, rule, ask };
            // Not where a redirection leads: this node is to be judged.
            script::read(seat.node.send(&link, &take, false).await, rule, ask)
        }))
    }

    fn heartbeat(&self, id: &str) -> Heartbeat {
        let id = id.to_owned();
        let way = self.way(heartbeat::KEY);
        Box::pin(async move { heartbeat::read(way?.send(&Beat { id: &id }).await) })
    }

    fn is_local(&self) -> bool {
        false
    }

    fn in_flight(&self, node: usize) -> usize {
        self.topology
            .node_at(node)
            .map_or(0, |node| node.in_flight())
    }
}
