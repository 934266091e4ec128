//! The gateway as a service of Pingora's: what has to happen in its runtime before it listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use tokio::sync::watch;
use tracing::info;

use super::leases::Leases;
use crate::lifecycle::Lifecycle;
use crate::limit::Limiter;
use crate::sockets::Sockets;
use crate::store::Store;

/// How long the listeners wait for the first connection to Redis. Without it they open all the
/// same, and requests are decided on this gateway's share.
const REDIS_PATIENCE: Duration = Duration::from_secs(1);
/// How long the listeners wait for the first rules of the database, and for this region's share.
/// Their services give up earlier, and then say so; this is for one that does not say anything.
const RULES_PATIENCE: Duration = Duration::from_secs(3);
/// How often it is looked whether the listeners are open.
const LISTENING_POLL: Duration = Duration::from_millis(1);

/// Listeners and proxy, with the store's connections in the same runtime.
pub struct GatewayService<S> {
    /// Pingora's own service.
    pub proxy: S,
    /// Whose store is to be connected.
    pub limiter: Arc<Limiter<Store>>,
    /// Told which runtime this is.
    pub leases: Arc<Leases>,
    /// Told when the listeners are open.
    pub lifecycle: Arc<Lifecycle>,
    /// Addresses of the listeners.
    pub addresses: Vec<SocketAddr>,
    /// What is listened on.
    pub sockets: Arc<Sockets>,
    /// Becomes true when there are rules to start with, where they come from a database.
    pub rules_ready: Option<watch::Receiver<bool>>,
    /// Becomes true when this region's share is in force, where there are several.
    pub region_ready: Option<watch::Receiver<bool>>,
    /// Called once the listeners are open.
    pub when_ready: Option<WhenReady>,
}

/// What is done once, when the listeners are open.
pub type WhenReady = Box<dyn FnOnce() + Send + Sync>;

#[async_trait]
impl<S: Service + 'static> Service for GatewayService<S> {
    async fn start_service(
        &mut self,
        fds: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
    ) {
        for ready in [&mut self.rules_ready, &mut self.region_ready]
            .into_iter()
            .flatten()
        {
            // However that ends, the listeners open: on the rules there are.
            let _ = tokio::time::timeout(RULES_PATIENCE, ready.wait_for(|ready| *ready)).await;
        }
        if let Store::Redis(redis) = self.limiter.store() {
            redis.connect(REDIS_PATIENCE).await;
        }
        self.leases.live_here();
        self.limiter.begin();
        tokio::spawn(announce(
            self.addresses.clone(),
            Arc::clone(&self.sockets),
            Arc::clone(&self.lifecycle),
            self.when_ready.take(),
        ));
        self.proxy
            .start_service(fds, shutdown, listeners_per_fd)
            .await;
    }

    fn name(&self) -> &str {
        "gateway"
    }

    fn threads(&self) -> Option<usize> {
        self.proxy.threads()
    }
}

/// Says that the gateway is ready, once every listener is open.
async fn announce(
    addresses: Vec<SocketAddr>,
    sockets: Arc<Sockets>,
    lifecycle: Arc<Lifecycle>,
    when_ready: Option<WhenReady>,
) {
    while !sockets.listen(&addresses) {
        tokio::time::sleep(LISTENING_POLL).await;
    }
    lifecycle.listening();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    info!("listening on {}", addresses.join(", "));
    if let Some(then) = when_ready {
        then();
    }
}
