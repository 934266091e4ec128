//! Which node of Redis holds a key.
//!
//! A stand-alone server is a map with one node. The slot map of a cluster has its place here.

use std::sync::Arc;

use super::node::Node;

/// The map from keys to nodes.
pub struct Topology {
    nodes: Vec<Arc<Node>>,
}

impl Topology {
    /// One server holds every key.
    pub fn standalone(node: Node) -> Self {
        Self {
            nodes: vec![Arc::new(node)],
        }
    }

    /// The node that holds `key`.
    pub fn node_of(&self, _key: &str) -> &Arc<Node> {
        &self.nodes[0]
    }

    /// All nodes, in the order of the configuration.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }
}
