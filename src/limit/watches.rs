//! The watches over all nodes of a store, which may come and go while requests run.
//!
//! A node has a number for as long as it is there, and a number has one watch for ever: a node that
//! takes the place of another (a replica that was promoted) takes its number and with it what is
//! known of that place. A watch is made when its number is first heard of.

use std::ops::Index;
use std::sync::OnceLock;
use std::time::Duration;

use super::watch::Watch;

#[cfg(test)]
mod tests;

/// The bound on nodes at once; Redis Cluster's own is lower in practice. Node numbers are below it.
pub const MAX_NODES: usize = 1_024;

/// A watch for each number that was ever a node's.
#[derive(Debug)]
pub struct Watches {
    /// Made on first use, so that looking one up is a load and takes no lock.
    places: Box<[OnceLock<Box<Watch>>]>,
    budget: Duration,
    failures: u32,
    in_flight: usize,
}

impl Watches {
    /// No watches yet; each will be made as [`Watch::new`] makes it.
    pub fn new(budget: Duration, failures: u32, in_flight: usize) -> Self {
        Self {
            places: (0..MAX_NODES).map(|_| OnceLock::new()).collect(),
            budget,
            failures,
            in_flight,
        }
    }

    /// The watches that there are, in the order of their numbers, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Watch)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(node, place)| Some((node, &**place.get()?)))
    }
}

impl Index<usize> for Watches {
    type Output = Watch;

    /// The watch over node number `node`. Numbers from [`MAX_NODES`] on share the last one's.
    fn index(&self, node: usize) -> &Watch {
        let node = node.min(MAX_NODES - 1);
        self.places[node]
            .get_or_init(|| Box::new(Watch::new(node, self.budget, self.failures, self.in_flight)))
    }
}
