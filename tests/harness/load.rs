//! Many requests at once.

use super::{Client, Gateway, eventually};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What clients saw.
#[derive(Debug, Default)]
pub struct Report {
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Connections that broke, requests without an answer.
    pub failures: Vec<String>,
    /// The longest that a client waited for an answer.
    pub slowest: Duration,
}

impl Report {
    pub fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    /// Checks that each request was answered, and with one of these.
    #[track_caller]
    pub fn assert_only(&self, statuses: &[u16]) {
        let others = self.statuses.keys().any(|key| !statuses.contains(key));
        assert!(
            self.failures.is_empty() && !others,
            "expected only {statuses:?}: {self:?}"
        );
    }

    fn send(&mut self, client: &mut Client, tenant: &str, path: &str) -> bool {
        let start = Instant::now();
        let answer = client.get(tenant, path);
        self.slowest = self.slowest.max(start.elapsed());
        match answer {
            Ok(response) => {
                *self.statuses.entry(response.status).or_default() += 1;
                true
            }
            Err(error) => {
                self.failures.push(error.to_string());
                false
            }
        }
    }

    fn add(mut self, other: Self) -> Self {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.failures.extend(other.failures);
        self.slowest = self.slowest.max(other.slowest);
        self
    }
}

/// Sends `total` requests at these gateways at one instant, each on a connection of its own (at most 1,000).
/// `tenant` names the tenant of the n-th.
pub fn burst(
    gateways: &[&Gateway],
    total: usize,
    path: &str,
    tenant: impl Fn(usize) -> String + Sync,
) -> Report {
    let connections = total.min(1_000);
    let ready = Barrier::new(connections);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for connection in 0..connections {
            let gateway = gateways[connection % gateways.len()];
            let (ready, tenant) = (&ready, &tenant);
            threads.push(scope.spawn(move || {
                let mut client = gateway.connect();
                let mut report = Report::default();
                ready.wait();
                for n in (connection..total).step_by(connections) {
                    if !report.send(&mut client, &tenant(n), path) {
                        client = gateway.connect();
                    }
                }
                report
            }));
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold(Report::default(), Report::add)
    })
}

/// Clients that send one request after the other until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Report>>,
}

impl Load {
    /// `tenant` names the tenant of a client's n-th request.
    pub fn start(
        gateway: &Gateway,
        clients: usize,
        path: &'static str,
        tenant: impl Fn(u64) -> String + Clone + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let clients = (0..clients)
            .map(|_| {
                let address = gateway.address().to_owned();
                let (stop, sent, tenant) = (stop.clone(), sent.clone(), tenant.clone());
                std::thread::spawn(move || {
                    let mut report = Report::default();
                    let mut client = None;
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        if client.is_none() {
                            client = match Client::connect(&address) {
                                Ok(client) => Some(client),
                                Err(error) => {
                                    report.failures.push(error.to_string());
                                    break;
                                }
                            };
                        }
                        if let Some(open) = &mut client
                            && !report.send(open, &tenant(n), path)
                        {
                            client = None;
                        }
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    report
                })
            })
            .collect();
        Self {
            stop,
            sent,
            clients,
        }
    }

    /// Waits until so many more requests were answered.
    #[track_caller]
    pub fn wait_for(&self, more: u64) {
        let goal = self.sent.load(Ordering::Relaxed) + more;
        eventually("the load goes on", || {
            self.sent.load(Ordering::Relaxed) >= goal
        });
    }

    pub fn stop(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| client.join().unwrap())
            .fold(Report::default(), Report::add)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
