//! Follows the primary that Sentinel names: asks for it each second, and soon after a lost connection
//! or an answer that says that it is none any more.
//!
//! One Sentinel after the other is asked until one knows the primary. It takes node number 0, whoever
//! it is.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, RedisResult, cmd};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::connector::jittered;
use super::refusal::Refusal;
use super::slot_map::Primary;
use super::topology::Topology;
use super::url::Address;

/// How often Sentinel is asked while all is well.
const CALM: Duration = Duration::from_secs(1);
/// How often while the primary is away, or an answer said that it is none.
const IN_DOUBT: Duration = Duration::from_millis(150);
/// How long one Sentinel may take, to connect and answer.
const WITHIN: Duration = Duration::from_millis(500);

/// Keeps `topology` in step with what the Sentinels at `sentinels` say of `master`. Never returns.
pub(super) async fn follow(topology: Arc<Topology>, mut sentinels: Vec<Address>, master: String) {
    let mut reported = String::new();
    // The connection to the first of `sentinels`, while it answers.
    let mut kept = None;
    loop {
        let mut complaint = String::new();
        for _ in 0..sentinels.len() {
            let Some(sentinel) = sentinels.first() else {
                break;
            };
            let asked = timeout(WITHIN, ask(&topology, sentinel, &master, &mut kept)).await;
            let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {WITHIN:?}")));
            match asked {
                Ok(address) => {
                    topology.adopt(&[alone(address)]);
                    complaint.clear();
                    break;
                }
                Err(error) => {
                    complaint = format!("{sentinel}: {error}");
                    kept = None;
                    sentinels.rotate_left(1);
                }
            }
        }
        // One line for each change, not one for each attempt.
        if complaint.is_empty() && !reported.is_empty() {
            info!("Sentinel answers again");
        } else if !complaint.is_empty() && complaint != reported {
            warn!("cannot ask Sentinel for the primary `{master}`, trying on: {complaint}");
        }
        reported = complaint;
        topology.have_asked();
        let well = topology.is_known() && topology.nodes().iter().all(|node| node.link().is_some());
        sleep(jittered(IN_DOUBT)).await;
        if well && reported.is_empty() {
            let _ = timeout(jittered(CALM), topology.doubted()).await;
        }
    }
}

/// A primary that holds everything.
fn alone(address: Address) -> Primary {
    Primary {
        address,
        ranges: vec![(0, (super::slots::SLOTS - 1) as u16)],
        replicas: 0,
    }
}

async fn ask(
    topology: &Topology,
    sentinel: &Address,
    master: &str,
    kept: &mut Option<MultiplexedConnection>,
) -> Result<Address, String> {
    if kept.is_none() {
        let connection = connect(topology, sentinel).await;
        *kept = Some(connection.map_err(|error| {
            Refusal::while_connecting(error, topology.access().is_tls()).to_string()
        })?);
    }
    let Some(connection) = kept else {
        return Err("no connection".to_owned());
    };
    let reply = command(master).query_async(connection).await;
    read(reply, master)
}

/// Asks for the primary.
pub(super) fn command(master: &str) -> ::redis::Cmd {
    let mut command = cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    command
}

/// Reads the reply to [`command`].
pub(super) fn read(
    reply: RedisResult<Option<(String, u16)>>,
    master: &str,
) -> Result<Address, String> {
    match reply {
        Ok(Some((host, port))) => Ok(Address { host, port }),
        Ok(None) => Err(format!("this Sentinel knows no primary called `{master}`")),
        Err(error) => Err(Refusal::of(error).to_string()),
    }
}

/// Without a password first: most Sentinels have none, and an error where one is given. One that asks
/// for it gets the same as Redis.
async fn connect(topology: &Topology, sentinel: &Address) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(WITHIN));
    let access = topology.access();
    let client = access.anonymous().client(sentinel)?;
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let ping = cmd("PING").exec_async(&mut connection).await;
    let refused = ping
        .as_ref()
        .is_err_and(|e| e.to_string().contains("NOAUTH"));
    if !(refused && access.has_password()) {
        return Ok(connection);
    }
    let client = access.first_database().client(sentinel)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
