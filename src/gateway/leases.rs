//! Gives leases back to the store when the process ends.
//!
//! They go by connections that live in the gateway's runtime, while the process is ended by a
//! thread outside of it.

use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::{info, warn};

use crate::limit::Limiter;
use crate::store::Store;

/// How much longer than the limiter itself this waits for it, before it takes the runtime for dead.
const MARGIN: Duration = Duration::from_millis(100);

/// The leases of this process.
pub struct Leases {
    limiter: Arc<Limiter<Store>>,
    /// Known once the gateway runs.
    runtime: OnceLock<Handle>,
}

impl Leases {
    /// The leases of `limiter`.
    pub fn new(limiter: Arc<Limiter<Store>>) -> Self {
        Self {
            limiter,
            runtime: OnceLock::new(),
        }
    }

    /// Says that the gateway runs in the runtime that this is called from.
    pub fn live_here(&self) {
        // Called once; a second call would name the same runtime.
        let _ = self.runtime.set(Handle::current());
    }

    /// Gives all of them back, and waits for that: no longer than `within`.
    pub fn give_back(&self, within: Duration) {
        let held = self.limiter.leased_tokens();
        let has_leases = self.limiter.has_leases();
        let Some(runtime) = self.runtime.get().filter(|_| has_leases) else {
            return;
        };
        let (done, returned) = channel();
        let limiter = Arc::clone(&self.limiter);
        runtime.spawn(async move {
            // Nobody listens any more where it took too long.
            let _ = done.send(limiter.close(within).await);
        });
        match returned.recv_timeout(within + MARGIN) {
            // Calls were under way, and brought nothing.
            Ok(0) if held == 0 => {}
            Ok(returned) if returned >= held => info!(tokens = returned, "leases given back"),
            Ok(returned) => warn!(
                tokens = returned,
                held, "not all leases could be given back"
            ),
            Err(_) => warn!(held, "the leases could not be given back"),
        }
    }
}
