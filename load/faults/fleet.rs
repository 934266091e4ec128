//! Gateways' limiters under steady load, and a record of every decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aforo::limit::breaker::State;
use aforo::limit::limiter::Settings;
use aforo::limit::{BucketKey, Limiter, MonotonicClock, Rule, Source};
use aforo::store::RedisStore;
use aforo::store::redis::{self, access::TlsFiles};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

/// What a request may wait for.
pub const BUDGET: Duration = Duration::from_millis(5);

pub type Gateway = Arc<Limiter<RedisStore>>;

/// Requests of one tenant, evenly spread over time and over gateways.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub tenant: &'static str,
    pub capacity: u32,
    pub refill: f64,
    /// Requests a second, of all gateways together.
    pub rate: f64,
    /// Whether all of them go to the first gateway, as those of a client with one connection do.
    pub one_gateway: bool,
}

/// One decision.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was asked for.
    pub asked: Instant,
    /// How long the limiter took.
    pub waited: Duration,
    pub allowed: bool,
    pub source: Source,
    /// Whether the gateway's breaker was not closed when it was asked for.
    pub open: bool,
}

/// A change of a gateway's breaker.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    pub at: Instant,
    pub gateway: usize,
    pub state: State,
}

/// All that happened to one flow.
pub type Record = (Flow, Vec<Sample>);

pub struct Fleet {
    pub gateways: Vec<Gateway>,
    flows: Vec<(Flow, Arc<Mutex<Vec<Sample>>>)>,
    transitions: Arc<Mutex<Vec<Transition>>>,
    stop: Arc<AtomicBool>,
}

impl Fleet {
    /// `n` gateways that find Redis at `url`, connected if it is there.
    pub async fn start(n: usize, url: &str, max_local_buckets: usize) -> Self {
        let mut gateways = Vec::new();
        for _ in 0..n {
            let store = RedisStore::new(&redis::Settings {
                url,
                tls: &TlsFiles::default(),
                budget: BUDGET,
                max_in_flight: 256,
            })
            .unwrap();
            store.connect(Duration::from_secs(1)).await;
            let settings = Settings {
                budget: BUDGET,
                instances: n as u32,
                max_local_buckets,
                ..Settings::default()
            };
            let limiter = Limiter::new(store, MonotonicClock::new(), settings);
            gateways.push(Arc::new(limiter));
        }
        let fleet = Self {
            gateways,
            flows: Vec::new(),
            transitions: Arc::default(),
            stop: Arc::default(),
        };
        fleet.watch_breakers();
        fleet
    }

    /// Begins a flow of requests, which goes on until [`Fleet::stop`].
    pub fn load(&mut self, flow: Flow) {
        let samples: Arc<Mutex<Vec<Sample>>> = Arc::default();
        self.flows.push((flow, Arc::clone(&samples)));
        let gateways = match flow.one_gateway {
            true => vec![Arc::clone(&self.gateways[0])],
            false => self.gateways.clone(),
        };
        let stop = Arc::clone(&self.stop);
        tokio::spawn(async move {
            let pause = Duration::from_secs_f64(1.0 / flow.rate);
            let began = Instant::now();
            for turn in 0.. {
                sleep_until(began + pause * turn).await;
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let gateway = Arc::clone(&gateways[turn as usize % gateways.len()]);
                let samples = Arc::clone(&samples);
                tokio::spawn(async move {
                    let sample = ask(&gateway, flow.tenant, flow.capacity, flow.refill).await;
                    samples.lock().push(sample);
                });
            }
        });
    }

    /// Ends the load, and gives what happened.
    pub async fn stop(self) -> (Vec<Record>, Vec<Transition>) {
        self.stop.store(true, Ordering::Relaxed);
        sleep(Duration::from_millis(50)).await;
        let records = self.flows.iter().map(|(flow, samples)| {
            let mut samples = std::mem::take(&mut *samples.lock());
            samples.sort_by_key(|sample| sample.asked + sample.waited);
            (*flow, samples)
        });
        let records = records.collect();
        let transitions = std::mem::take(&mut *self.transitions.lock());
        (records, transitions)
    }

    fn watch_breakers(&self) {
        for (number, gateway) in self.gateways.iter().enumerate() {
            let gateway = Arc::clone(gateway);
            let transitions = Arc::clone(&self.transitions);
            let stop = Arc::clone(&self.stop);
            tokio::spawn(async move {
                let mut seen = State::Closed;
                while !stop.load(Ordering::Relaxed) {
                    let state = gateway.watches()[0].state();
                    if state != seen {
                        seen = state;
                        transitions.lock().push(Transition {
                            at: Instant::now(),
                            gateway: number,
                            state,
                        });
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            });
        }
    }
}

/// One request.
pub async fn ask(gateway: &Gateway, tenant: &str, capacity: u32, refill: f64) -> Sample {
    let rule = Rule::new(capacity, refill).unwrap();
    let key = BucketKey { tenant, route: "r" };
    let open = gateway.watches()[0].state() != State::Closed;
    let asked = Instant::now();
    let decision = gateway.decide(&key, &rule, 1).await;
    Sample {
        asked,
        waited: asked.elapsed(),
        allowed: decision.allowed,
        source: decision.source,
        open,
    }
}
