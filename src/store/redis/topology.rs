//! Which node of Redis holds a key, and who the nodes are.
//!
//! Each node sits at a number. A stand-alone server sits at 0 for ever, and so does the primary that
//! Sentinel names, whoever that is. In a cluster the table of slots says which number holds a key.
//! The [`cluster`](super::cluster) and [`sentinel`](super::sentinel) keepers follow what the servers
//! say and hand it to [`Topology::adopt`]; requests only read. Nothing is waited for here.

use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisResult;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use super::access::Access;
use super::connector;
use super::node::Node;
use super::slot_map::{Primary, numbers};
use super::slots::{SlotTable, number_in, slot_of};
use super::url::Address;

/// The map from keys to nodes.
pub struct Topology {
    /// Which number holds a slot; none where one node holds everything.
    slots: Option<SlotTable>,
    /// Who sits at each number. It never gets shorter.
    seats: ArcSwap<Vec<Option<Seat>>>,
    /// One change at a time.
    changing: Mutex<()>,
    access: Access,
    budget: Duration,
    max_in_flight: usize,
    /// Wakes the keeper: what is known of the servers may be wrong.
    doubt: Notify,
    /// Whether the servers were asked who they are, with whatever success.
    asked: watch::Sender<bool>,
}

/// A node at its number.
#[derive(Clone)]
pub struct Seat {
    pub(super) node: Arc<Node>,
    /// The number whose hash tag is in a slot of this node's.
    pub(super) probe: usize,
}

impl Topology {
    /// One server at `address` holds every key.
    ///
    /// # Errors
    ///
    /// Where there can be no client for it.
    pub(super) fn standalone(
        address: &Address,
        access: Access,
        budget: Duration,
        max_in_flight: usize,
    ) -> RedisResult<Self> {
        let topology = Self::unknown(access, budget, max_in_flight, false);
        let node = topology.new_node(address)?;
        topology
            .seats
            .store(Arc::new(vec![Some(Seat { node, probe: 0 })]));
        Ok(topology)
    }

    /// Nobody is known yet. `slots`: the keys are spread over slots.
    pub(super) fn unknown(
        access: Access,
        budget: Duration,
        max_in_flight: usize,
        slots: bool,
    ) -> Self {
        Self {
            slots: slots.then(SlotTable::new),
            seats: ArcSwap::default(),
            changing: Mutex::new(()),
            access,
            budget,
            max_in_flight,
            doubt: Notify::new(),
            asked: watch::Sender::new(false),
        }
    }

    /// The number of the node that holds `key`. Where nobody is known to, it is 0: there is always a
    /// number.
    pub(super) fn number_of(&self, key: &str) -> usize {
        let slots = self.slots.as_ref();
        slots
            .and_then(|slots| slots.get(slot_of(key)))
            .unwrap_or_default()
    }

    /// The node that holds `key`, where that is known.
    pub(super) fn node_of(&self, key: &str) -> Option<Arc<Node>> {
        let number = match &self.slots {
            None => 0,
            Some(slots) => slots.get(slot_of(key))?,
        };
        self.node_at(number)
    }

    /// Who sits at a number.
    pub(super) fn seat(&self, number: usize) -> Option<Seat> {
        self.seats.load().get(number)?.clone()
    }

    pub(super) fn node_at(&self, number: usize) -> Option<Arc<Node>> {
        let seats = self.seats.load();
        let seat = seats.get(number)?.as_ref()?;
        Some(Arc::clone(&seat.node))
    }

    /// Everybody who sits.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let seats = self.seats.load();
        let seats = seats.iter().flatten();
        seats.map(|seat| Arc::clone(&seat.node)).collect()
    }

    /// How many numbers there are; at least one, of whom nobody is known.
    pub(super) fn numbers(&self) -> usize {
        self.seats.load().len().max(1)
    }

    /// Whether somebody sits at a number, or nobody is known yet.
    pub(super) fn is_seated(&self, number: usize) -> bool {
        let seats = self.seats.load();
        seats.is_empty() || seats.get(number).is_some_and(Option::is_some)
    }

    /// Whether any server is known.
    pub(super) fn is_known(&self) -> bool {
        !self.seats.load().is_empty()
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Notes that what is known may be wrong: the keeper asks soon.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Waits for a doubt.
    pub(super) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Notes that the servers were asked, with whatever success.
    pub(super) fn have_asked(&self) {
        self.asked.send_replace(true);
    }

    /// Waits until the servers were asked.
    pub(super) async fn asked(&self) {
        // The sender lives as long as this, so the channel is never closed.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }

    /// A slot has another holder, as a node said that lost it. False where that one is not known.
    pub(super) fn moved(&self, slot: u16, to: &Address) -> Option<Arc<Node>> {
        let seats = self.seats.load();
        let is = |seat: &Option<Seat>| seat.as_ref().is_some_and(|s| s.node.address() == to);
        let number = seats.iter().position(is)?;
        if let Some(slots) = &self.slots {
            slots.set(slot, Some(number));
        }
        Some(Arc::clone(&seats[number].as_ref()?.node))
    }

    /// The node at an address, where one is known.
    pub(super) fn node_with(&self, address: &Address) -> Option<Arc<Node>> {
        let seats = self.seats.load();
        let mut seats = seats.iter().flatten();
        let seat = seats.find(|seat| seat.node.address() == address)?;
        Some(Arc::clone(&seat.node))
    }

    /// Makes these the primaries from now on. Nodes that stay keep their connections, new ones are
    /// connected in the background, in the runtime that this is called in, and those that are gone
    /// are let go.
    pub(super) fn adopt(&self, primaries: &[Primary]) {
        let _one_at_a_time = self.changing.lock();
        let old = self.seats.load_full();
        let seated: Vec<Option<Address>> = old
            .iter()
            .map(|seat| Some(seat.as_ref()?.node.address().clone()))
            .collect();
        let held = |slot| match &self.slots {
            Some(slots) => slots.get(slot),
            None => Some(0),
        };
        let numbers = numbers(primaries, &seated, held);
        let highest = numbers
            .iter()
            .flatten()
            .max()
            .map_or(0, |number| number + 1);
        let mut seats: Vec<Option<Seat>> = vec![None; old.len().max(highest)];
        for (primary, number) in primaries.iter().zip(&numbers) {
            let Some(number) = *number else {
                warn!(redis = %primary.address, "this is one node too many, its keys are decided on this gateway's share");
                continue;
            };
            let stayed = old.get(number).cloned().flatten();
            let node = match stayed.filter(|seat| *seat.node.address() == primary.address) {
                Some(seat) => seat.node,
                None => match self.new_node(&primary.address) {
                    Ok(node) => {
                        info!(redis = %primary.address, node = number, "a primary of Redis");
                        node.keep(tokio::spawn(connector::keep_connected(Arc::clone(&node))));
                        node
                    }
                    Err(error) => {
                        warn!(redis = %primary.address, "there can be no connection: {error}");
                        continue;
                    }
                },
            };
            let probe = match &self.slots {
                Some(_) => number_in(|slot| primary.holds(slot)).unwrap_or_default(),
                None => 0,
            };
            seats[number] = Some(Seat { node, probe });
        }
        let stays = |node: &Arc<Node>| seats.iter().flatten().any(|s| Arc::ptr_eq(&s.node, node));
        let gone: Vec<Seat> = old
            .iter()
            .flatten()
            .filter(|seat| !stays(&seat.node))
            .cloned()
            .collect();
        self.seats.store(Arc::new(seats));
        if let Some(slots) = &self.slots {
            let mut holders = vec![None; super::slots::SLOTS];
            for (primary, number) in primaries.iter().zip(&numbers) {
                for slot in primary.slots() {
                    holders[usize::from(slot)] = *number;
                }
            }
            for (slot, holder) in (0..).zip(holders) {
                slots.set(slot, holder);
            }
        }
        for seat in gone {
            info!(redis = %seat.node.address(), "no primary of Redis any more");
            seat.node.retire();
        }
    }

    fn new_node(&self, address: &Address) -> RedisResult<Arc<Node>> {
        let client = self.access.client(address)?;
        let node = Node::new(client, address.clone(), self.budget, self.max_in_flight);
        Ok(Arc::new(node))
    }
}
