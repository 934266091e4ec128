//! Follows a cluster: asks its nodes who holds which slots, each second and whenever that is in doubt.
//!
//! Any node may be asked, and one after the other is until one answers: first those that are
//! connected, then those of the URL. Requests never wait for this.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Value, cmd};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::connector::jittered;
use super::refusal::Refusal;
use super::slot_map::{self, Primary};
use super::topology::Topology;
use super::url::Address;

/// How often the nodes are asked while all is well.
const CALM: Duration = Duration::from_secs(1);
/// How often while a node is away, or something said that the map is wrong.
const IN_DOUBT: Duration = Duration::from_millis(150);
/// How long one node may take to answer. A frozen one is passed over.
const WITHIN: Duration = Duration::from_millis(250);
/// How long one of the URL may take, to connect and answer.
const SEED_WITHIN: Duration = Duration::from_millis(500);

/// Keeps `topology` in step with the cluster. Never returns.
pub(super) async fn follow(topology: Arc<Topology>, seeds: Vec<Address>) {
    let mut reported = String::new();
    loop {
        match ask(&topology, &seeds).await {
            Ok(primaries) => {
                topology.adopt(&primaries);
                if !reported.is_empty() {
                    info!("the Redis cluster answers again");
                    reported.clear();
                }
            }
            Err(complaint) => {
                // One line for each change, not one for each attempt.
                if complaint != reported {
                    warn!("cannot ask the Redis cluster for its slots, trying on: {complaint}");
                    reported = complaint;
                }
            }
        }
        topology.have_asked();
        let well = topology.is_known() && topology.nodes().iter().all(|node| node.link().is_some());
        // Doubts do not come faster than this, however many requests have them.
        sleep(jittered(IN_DOUBT)).await;
        if well && reported.is_empty() {
            let _ = timeout(jittered(CALM), topology.doubted()).await;
        }
    }
}

/// The map, from whoever gives it first; or the last complaint.
async fn ask(topology: &Topology, seeds: &[Address]) -> Result<Vec<Primary>, String> {
    let mut complaint = "nobody is connected".to_owned();
    let mut nodes = topology.nodes();
    fastrand::shuffle(&mut nodes);
    for node in nodes {
        let Some(link) = node.link() else { continue };
        match slots(link.connection.clone(), node.address()).await {
            Ok(primaries) => return Ok(primaries),
            Err(error) => complaint = error,
        }
    }
    let mut seeds = seeds.to_vec();
    fastrand::shuffle(&mut seeds);
    for seed in seeds {
        let of_seed = timeout(SEED_WITHIN, ask_seed(topology, &seed)).await;
        match of_seed {
            Ok(Ok(primaries)) => return Ok(primaries),
            Ok(Err(error)) => complaint = format!("{seed}: {error}"),
            Err(_) => complaint = format!("{seed}: no answer within {SEED_WITHIN:?}"),
        }
    }
    Err(complaint)
}

async fn ask_seed(topology: &Topology, seed: &Address) -> Result<Vec<Primary>, String> {
    let tls = topology.access().is_tls();
    let say = |error| Refusal::while_connecting(error, tls).to_string();
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(SEED_WITHIN));
    let client = topology.access().client(seed).map_err(say)?;
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .map_err(say)?;
    slots(connection, seed).await
}

async fn slots(
    mut connection: MultiplexedConnection,
    asked: &Address,
) -> Result<Vec<Primary>, String> {
    let mut command = cmd("CLUSTER");
    command.arg("SLOTS");
    let reply = command.query_async::<Value>(&mut connection);
    match timeout(WITHIN, reply).await {
        Ok(Ok(value)) => slot_map::read(&value, asked)
            .ok_or_else(|| format!("{asked}: no slot has a node, the cluster is not made yet")),
        Ok(Err(error)) => Err(format!("{asked}: {}", Refusal::of(error))),
        Err(_) => Err(format!("{asked}: no answer within {WITHIN:?}")),
    }
}
