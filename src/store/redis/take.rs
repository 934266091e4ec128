//! One call from the node that should hold its key to the node that does.
//!
//! A node that does not hold the key says who does (MOVED, ASK), and did nothing: that is
//! followed, once each. Whatever else becomes of a call, it is never sent again.

use std::io;
use std::sync::Arc;

use ::redis::{RedisError, RedisResult, ServerErrorKind, Value};

use super::node::{Link, Node};
use super::places::Place;
use super::topology::Topology;
use super::url::Address;

/// A command in its two spellings: by the name of its script on a connection, and by its text.
pub(super) trait Script: Send + Sync {
    fn by_name(&self, link: &Link) -> ::redis::Cmd;
    fn by_text(&self) -> ::redis::Cmd;
}

/// The way to the node that holds a key: its connection, and a place among the calls under way.
pub(super) struct Way {
    pub(super) topology: Arc<Topology>,
    pub(super) node: Arc<Node>,
    pub(super) link: Arc<Link>,
    pub(super) _place: Place,
}

impl Way {
    /// Goes it.
    pub(super) async fn send(&self, script: &impl Script) -> RedisResult<Value> {
        send(&self.topology, &self.node, &self.link, script).await
    }
}

/// Where a key is instead.
struct Redirection {
    /// For this one command only: the slot is on its way there.
    ask: bool,
    slot: u16,
    to: Address,
}

/// Sends a command over `link` to `node`, and where that says so, to the one that holds the key. A
/// slot may have moved, and be on its way again: each is followed once.
async fn send(
    topology: &Topology,
    node: &Arc<Node>,
    link: &Arc<Link>,
    script: &impl Script,
) -> RedisResult<Value> {
    let mut reply = node.send(link, script, false).await;
    let mut node = Arc::clone(node);
    let (mut moved, mut asked) = (false, false);
    loop {
        let Err(error) = &reply else {
            if node.is_retired() {
                // It took from what is another server's by now, and may not have told that one.
                let gone = format!("{} was replaced", node.address());
                return Err(io::Error::new(io::ErrorKind::TimedOut, gone).into());
            }
            return reply;
        };
        let Some(Redirection { ask, slot, to }) = Redirection::read(error, node.address()) else {
            if is_doubtful(error) {
                topology.doubt();
            }
            return reply;
        };
        let followed = if ask { &mut asked } else { &mut moved };
        let target = if ask {
            topology.node_with(&to)
        } else {
            topology.moved(slot, &to)
        };
        let way = target.and_then(|node| Some((node.link()?, node.enter().ok()?, node)));
        let (Some((link, _place, target)), false) = (way, *followed) else {
            // It will be known and connected soon; nobody waits for that.
            topology.doubt();
            return reply;
        };
        *followed = true;
        reply = target.send(&link, script, ask).await;
        node = target;
    }
}

/// Whether an error says that another server may hold the keys by now.
fn is_doubtful(error: &RedisError) -> bool {
    let kinds = [
        ServerErrorKind::Moved,
        ServerErrorKind::ClusterDown,
        ServerErrorKind::MasterDown,
        ServerErrorKind::ReadOnly,
    ];
    let text = error.to_string();
    kinds.map(Into::into).contains(&error.kind())
        || error.is_io_error()
        // From within a script the code is part of the message.
        || ["READONLY", "CLUSTERDOWN", "MASTERDOWN"]
            .iter()
            .any(|code| text.contains(code))
}

impl Redirection {
    fn read(error: &RedisError, from: &Address) -> Option<Self> {
        let (to, slot) = error.redirect_node()?;
        // Without a host it is the same host's.
        let to = match to.strip_prefix(':') {
            Some(port) => Address {
                host: from.host.clone(),
                port: port.parse().ok()?,
            },
            None => Address::parse(to, None)?,
        };
        Some(Self {
            ask: error.kind() == ServerErrorKind::Ask.into(),
            slot,
            to,
        })
    }
}
