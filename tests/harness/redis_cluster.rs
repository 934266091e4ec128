//! A Redis cluster of a test's own: primaries with a replica each.

use super::{Redis, eventually, free_port};
use std::collections::HashMap;

/// How long a node is silent before the others begin to look for another one.
const NODE_TIMEOUT_MS: &str = "1000";

/// The nodes; with replicas those below `primaries` were made primaries, each followed by its replica so many
/// places later.
pub struct Cluster {
    pub nodes: Vec<Redis>,
    primaries: usize,
    /// Where nodes with TLS speak it, by their plain ports.
    tls_ports: HashMap<u16, u16>,
}

impl Cluster {
    /// Three primaries and three replicas.
    pub fn start() -> Self {
        Self::of(3, &[])
    }

    /// So many primaries with a replica each, and further settings of every node.
    pub fn of(primaries: usize, settings: &[&str]) -> Self {
        Self::make(primaries, primaries, |_| (Self::node(settings), None))
    }

    /// Three primaries alone.
    pub fn without_replicas() -> Self {
        Self::make(3, 0, |_| (Self::node(&[]), None))
    }

    /// Three primaries and three replicas that speak TLS to each other, and plainly to the test. `tls`
    /// gives the certificates as words of the command line.
    pub fn with_tls(tls: &[&str]) -> Self {
        Self::make(3, 3, |_| {
            let port = free_port();
            let shown = port.to_string();
            let mut settings = vec!["--tls-port", &shown, "--tls-cluster", "yes"];
            settings.extend(["--tls-replication", "yes"]);
            settings.extend(tls);
            (Self::node(&settings), Some(port))
        })
    }

    /// So many primaries, the first of them with a replica, of nodes that `node` starts; with the port
    /// at which they speak TLS, if they do.
    fn make(
        primaries: usize,
        replicas: usize,
        node: impl Fn(usize) -> (Redis, Option<u16>),
    ) -> Self {
        let all = primaries + replicas;
        let (mut nodes, mut tls_ports) = (Vec::new(), HashMap::new());
        for number in 0..all {
            let (node, tls) = node(number);
            tls_ports.extend(tls.map(|tls| (node.port(), tls)));
            nodes.push(node);
        }
        let cluster = Self {
            nodes,
            primaries,
            tls_ports,
        };
        let share = 16_384 / primaries;
        for (number, node) in cluster.nodes.iter().enumerate() {
            let epoch = (number + 1).to_string();
            node.query::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            if number < primaries {
                let first = (number * share).to_string();
                let last = if number + 1 == primaries {
                    16_383
                } else {
                    (number + 1) * share - 1
                };
                node.query::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last.to_string()]);
            }
            cluster.meet(node);
        }
        eventually("every node knows every other", || {
            let known = |node: &Redis| node.query::<String>(&["CLUSTER", "NODES"]).lines().count();
            cluster.nodes.iter().all(|node| known(node) == all)
        });
        for number in 0..replicas {
            let id = cluster.id(number);
            cluster.nodes[primaries + number].query::<()>(&["CLUSTER", "REPLICATE", &id]);
        }
        eventually("the cluster is well, and replicas follow", || {
            let well = |node: &Redis| {
                let state: String = node.query(&["CLUSTER", "INFO"]);
                state.contains("cluster_state:ok")
            };
            let follows = |node: &Redis| {
                let state: String = node.query(&["INFO", "replication"]);
                state.contains("master_link_status:up")
            };
            cluster.nodes.iter().all(well) && cluster.nodes[primaries..].iter().all(follows)
        });
        // Every node lists the replicas, too.
        eventually("replicas are known to all", || {
            let known_replicas = |node: &Redis| {
                let nodes: String = node.query(&["CLUSTER", "NODES"]);
                nodes.lines().filter(|line| line.contains("slave")).count()
            };
            cluster
                .nodes
                .iter()
                .all(|node| known_replicas(node) == replicas)
        });
        cluster
    }

    /// A node that is in no cluster yet.
    pub fn node(settings: &[&str]) -> Redis {
        // Its own would be 10,000 above the other one, where outgoing connections have theirs.
        let bus = free_port().to_string();
        let mut all = vec![
            "--cluster-port",
            &bus,
            // A primary that gives its last slot away stays one, or it is too late to tell it so.
            "--cluster-allow-replica-migration",
            "no",
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            NODE_TIMEOUT_MS,
            "--cluster-require-full-coverage",
            "no",
            "--cluster-replica-validity-factor",
            "0",
            "--repl-diskless-sync-delay",
            "0",
        ];
        all.extend(settings);
        Redis::start_with(&all)
    }

    /// Brings a node into the cluster, without slots.
    pub fn meet(&self, node: &Redis) {
        if node.port() != self.nodes[0].port() {
            let port = self.port(&self.nodes[0]).to_string();
            let bus: HashMap<String, String> =
                self.nodes[0].query(&["CONFIG", "GET", "cluster-port"]);
            let bus = &bus["cluster-port"];
            node.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]);
        }
    }

    pub fn id(&self, node: usize) -> String {
        self.nodes[node].query(&["CLUSTER", "MYID"])
    }

    /// The URL, with the first nodes as seeds.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .take(3)
            .map(|node| format!("127.0.0.1:{}", self.port(node)))
            .collect();
        let tls = if self.tls_ports.is_empty() { "" } else { "s" };
        format!("redis{tls}+cluster://{}", hosts.join(","))
    }

    /// The URL for a user.
    pub fn url_of(&self, user: &str) -> String {
        self.url().replace("://", &format!("://{user}@"))
    }

    /// Where the cluster and its clients reach a node.
    fn port(&self, node: &Redis) -> u16 {
        let tls = self.tls_ports.get(&node.port());
        tls.copied().unwrap_or(node.port())
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        self.nodes[0].query(&["CLUSTER", "KEYSLOT", key])
    }

    /// Which of the first primaries held a key's slot at the beginning.
    pub fn first_holder(&self, key: &str) -> usize {
        let share = 16_384 / self.primaries;
        (usize::from(self.slot(key)) / share).min(self.primaries - 1)
    }

    /// A name of which `key` makes a key that this primary held at the beginning.
    pub fn name_on(&self, primary: usize, prefix: &str, key: impl Fn(&str) -> String) -> String {
        (0..)
            .map(|n| format!("{prefix}-{n}"))
            .find(|name| self.first_holder(&key(name)) == primary)
            .unwrap()
    }

    /// Moves a slot from one node to another, key by key, as `redis-cli --cluster reshard` does.
    /// `between` is called when the slot is open on both sides, and after each key.
    pub fn move_slot(&self, slot: u16, from: &Redis, to: &Redis, mut between: impl FnMut()) {
        let slot = slot.to_string();
        let (from_id, to_id): (String, String) = (
            from.query(&["CLUSTER", "MYID"]),
            to.query(&["CLUSTER", "MYID"]),
        );
        to.query::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.query::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        between();
        loop {
            let keys: Vec<String> = from.query(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
            let Some(key) = keys.first() else { break };
            let port = to.port().to_string();
            let moved: String = from.query(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
            assert!(["OK", "NOKEY"].contains(&moved.as_str()), "{moved}");
            between();
        }
        to.query::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
        from.query::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
    }
}
