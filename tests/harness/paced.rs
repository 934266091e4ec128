//! A client that sends so many requests a second, whatever comes back.

use super::{Client, Gateway};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that the client is behind before it lets the missed requests be.
const BEHIND: Duration = Duration::from_millis(200);

/// Requests of one tenant at a steady pace, to several gateways in turn.
pub struct Paced {
    shared: Arc<Shared>,
    client: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    per_second: AtomicU64,
    stop: AtomicBool,
    sent: AtomicU64,
    allowed: AtomicU64,
    failed: AtomicU64,
}

impl Paced {
    pub fn start(gateways: &[&Gateway], tenant: &str, path: &str, per_second: u64) -> Self {
        let addresses: Vec<String> = gateways.iter().map(|g| g.address().to_owned()).collect();
        let (tenant, path) = (tenant.to_owned(), path.to_owned());
        let shared = Arc::<Shared>::default();
        shared.per_second.store(per_second, Ordering::Relaxed);
        let of_client = Arc::clone(&shared);
        let client = std::thread::spawn(move || {
            let mut clients: Vec<Option<Client>> = addresses.iter().map(|_| None).collect();
            let mut due = Instant::now();
            for turn in 0.. {
                if of_client.stop.load(Ordering::Relaxed) {
                    return;
                }
                let place = turn % addresses.len();
                of_client.send(&mut clients[place], &addresses[place], &tenant, &path);
                let per_second = of_client.per_second.load(Ordering::Relaxed).max(1);
                due += Duration::from_secs(1) / u32::try_from(per_second).unwrap();
                let now = Instant::now();
                due = due.max(now.checked_sub(BEHIND).unwrap_or(now));
                std::thread::sleep(due.saturating_duration_since(now));
            }
        });
        Self {
            shared,
            client: Some(client),
        }
    }

    /// Goes on at another pace.
    pub fn pace(&self, per_second: u64) {
        self.shared.per_second.store(per_second, Ordering::Relaxed);
    }

    /// Requests that were sent, and that passed, so far.
    pub fn counts(&self) -> (u64, u64) {
        let allowed = self.shared.allowed.load(Ordering::Relaxed);
        (self.shared.sent.load(Ordering::Relaxed), allowed)
    }

    /// Requests without an answer, or with one that is neither 200 nor 429.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn send(&self, client: &mut Option<Client>, address: &str, tenant: &str, path: &str) {
        if client.is_none() {
            *client = Client::connect(address).ok();
        }
        let answer = client.as_mut().and_then(|open| open.get(tenant, path).ok());
        self.sent.fetch_add(1, Ordering::Relaxed);
        match answer.map(|response| response.status) {
            Some(200) => self.allowed.fetch_add(1, Ordering::Relaxed),
            Some(429) => 0,
            _ => {
                *client = None;
                self.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(client) = self.client.take() {
            let _ = client.join();
        }
    }
}
