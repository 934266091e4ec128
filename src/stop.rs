//! The end of a process, in order: out of the load balancer, no new connections, the requests in
//! hand, the leases, and then nothing that would keep it.
//!
//! Pingora sleeps its whole grace period, drained or not; this ends the process as soon as the
//! last request is done and the leases are back.

use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::sync::watch;
use tracing::info;

use crate::gateway::leases::Leases;
use crate::lifecycle::{ARRIVE_WITHIN, HANDED_OVER_SETTLE, Lifecycle};
use crate::logging::Logging;
use crate::sockets::Sockets;
use crate::systemd;

/// How often it is looked whether the last request is done.
const POLL: Duration = Duration::from_millis(5);
/// For how long nothing has to be in hand: a request that had arrived when the listeners closed is
/// still read, and this is the time that it may take to be seen.
const SETTLE: Duration = Duration::from_millis(50);

/// How long the store may take to take the leases back.
const LEASES_WITHIN: Duration = Duration::from_secs(1);

/// How a process is to end.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long the listeners stay open while `/readyz` says 503.
    pub drain_delay: Duration,
    /// The longest that requests in hand may go on after that.
    pub grace_period: Duration,
}

/// Ends the process when it is told to.
pub struct Stopper {
    lifecycle: Arc<Lifecycle>,
    /// Given back when no request can need them any more.
    leases: Arc<Leases>,
    sockets: Arc<Sockets>,
    timing: Timing,
    /// Tells Pingora to close its listeners.
    close: watch::Sender<bool>,
    /// Finished last.
    logging: Arc<Logging>,
}

impl Stopper {
    /// A stopper for the process whose requests `lifecycle` counts.
    pub fn new(
        lifecycle: Arc<Lifecycle>,
        leases: Arc<Leases>,
        sockets: Arc<Sockets>,
        timing: Timing,
        logging: Arc<Logging>,
    ) -> Self {
        Self {
            lifecycle,
            leases,
            sockets,
            timing,
            close: watch::Sender::new(false),
            logging,
        }
    }

    /// What Pingora waits on.
    pub fn watch(&self) -> CloseSignal {
        CloseSignal(self.close.subscribe())
    }

    /// Begins to end the process, in a thread of its own.
    pub fn stop(self: Arc<Self>) {
        self.lifecycle.drain();
        systemd::stopping();
        info!(
            requests = self.lifecycle.requests(),
            "stopping: not ready any more"
        );
        thread::spawn(move || {
            thread::sleep(self.timing.drain_delay);
            self.run_down(SETTLE)
        });
    }

    /// Begins to end the process, which has a successor that listens already.
    pub fn hand_over(self: Arc<Self>) {
        self.lifecycle.hand_over();
        // Longer than the connections that are no more than accepted are waited for.
        thread::spawn(move || self.run_down(2 * HANDED_OVER_SETTLE));
    }

    /// Whether the process is going to end.
    pub fn is_stopping(&self) -> bool {
        self.lifecycle.is_draining()
    }

    fn run_down(&self, settle: Duration) -> ! {
        self.sockets.close();
        self.close.send_replace(true);
        let closed = Instant::now();
        let deadline = closed + self.timing.grace_period;
        let mut quiet_since = closed;
        while quiet_since.elapsed() < settle && Instant::now() < deadline {
            thread::sleep(POLL);
            let arriving = self.lifecycle.arrivals() > 0 && closed.elapsed() < ARRIVE_WITHIN;
            if arriving || self.lifecycle.requests() > 0 {
                quiet_since = Instant::now();
            }
        }
        self.leases.give_back(LEASES_WITHIN);
        info!(requests = self.lifecycle.requests(), "stopped");
        self.logging.finish();
        process::exit(0)
    }
}

/// Tells Pingora when to close its listeners.
pub struct CloseSignal(watch::Receiver<bool>);

#[async_trait]
impl ShutdownSignalWatch for CloseSignal {
    async fn recv(&self) -> ShutdownSignal {
        let mut close = self.0.clone();
        // The sender lives in the stopper, which lives as long as the process.
        let _ = close.wait_for(|close| *close).await;
        ShutdownSignal::GracefulTerminate
    }
}
