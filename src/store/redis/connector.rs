//! Keeps one node connected, in the background.
//!
//! A connection is put into use only when it is fit: connected, signed in, script loaded. One that
//! broke, or on which nothing comes back, is replaced after a jittered pause, so that a cluster of
//! gateways does not come back all at once.

use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use redis::{AsyncConnectionConfig, ConnectionAddr};
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::node::{Link, Node};
use super::refusal::Refusal;
use super::{eviction, give_back, heartbeat, script};

/// The longest that one attempt may take, from the first packet to the loaded script.
const ATTEMPT: Duration = Duration::from_millis(500);
/// The pause after the first failed attempt; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between attempts. Short: while one gateway is back and another is not yet,
/// both let requests through that are the other's by rights.
const LONGEST_PAUSE: Duration = Duration::from_millis(150);
/// How often an idle connection is tried, so that a dead one is replaced before a request needs it.
const PING_EVERY: Duration = Duration::from_millis(500);
/// How long the answer to that may take. Longer than any stall that a healthy server has.
const PING_WITHIN: Duration = Duration::from_secs(1);

/// Why there is no connection that is fit for takes.
#[derive(Debug, Error)]
enum ConnectError {
    #[error("no answer within {ATTEMPT:?}")]
    Silent,
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Connects `node`, and connects it again whenever that is needed. Never returns: it is aborted.
pub async fn keep_connected(node: Arc<Node>) {
    let mut pause = FIRST_PAUSE;
    let mut reported = String::new();
    let mut warned = None;
    loop {
        let outcome = connect(&node).await;
        match outcome {
            Ok(link) => {
                let link = Arc::new(link);
                node.use_link(Arc::clone(&link));
                node.attempt_ended();
                info!(redis = %node.address(), "connected to Redis");
                (pause, reported) = (FIRST_PAUSE, String::new());
                let warning = eviction::warning(&link.connection).await;
                if let Some(text) = warning.as_ref().filter(|_| warning != warned) {
                    warn!(redis = %node.address(), "{text}");
                }
                warned = warning;
                until_lost(&node, &link).await;
                warn!(
                    redis = %node.address(),
                    "lost the connection to Redis; deciding on this gateway's share"
                );
            }
            Err(error) => {
                node.attempt_ended();
                let error = error.to_string();
                // One line for each change, not one for each attempt.
                if error != reported {
                    warn!(
                        redis = %node.address(),
                        "cannot connect to Redis, trying on: {error}"
                    );
                    reported = error;
                }
            }
        }
        sleep(jittered(pause)).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

async fn connect(node: &Node) -> Result<Link, ConnectError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ATTEMPT))
        .set_response_timeout(Some(node.call_lifetime()))
        // Room for every call that may be under way: a sender never waits for a place.
        .set_pipeline_buffer_size(node.max_in_flight() + 8);
    let tls = matches!(
        node.client().get_connection_info().addr(),
        ConnectionAddr::TcpTls { .. }
    );
    let refused = |error| Refusal::while_connecting(error, tls);
    let attempt = async {
        let mut connection = node
            .client()
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(refused)?;
        let loaded = script::load().query_async(&mut connection).await;
        let sha = loaded.map_err(refused)?;
        // Sent in full where it is not kept.
        let give_back_sha = give_back::load().query_async(&mut connection).await;
        // Without this one only the gateways are not counted.
        let heartbeat_sha = heartbeat::load().query_async(&mut connection).await;
        Ok(Link {
            connection,
            sha,
            give_back_sha: give_back_sha.unwrap_or_default(),
            heartbeat_sha: heartbeat_sha.unwrap_or_default(),
        })
    };
    timeout(ATTEMPT, attempt)
        .await
        .unwrap_or(Err(ConnectError::Silent))
}

/// Returns when the connection is no longer in use.
async fn until_lost(node: &Node, link: &Arc<Link>) {
    loop {
        tokio::select! {
            () = node.lost() => return,
            () = sleep(PING_EVERY) => {
                if !link.is_alive(PING_WITHIN).await {
                    node.lose(link);
                }
            }
        }
    }
}

/// Between 80 % and 120 % of `pause`.
pub(super) fn jittered(pause: Duration) -> Duration {
    // A hasher with fresh seeds is the random number that is at hand.
    let random = RandomState::new().hash_one(()) % 401;
    pause * (800 + random as u32) / 1000
}
