//! This gateway among the regions: a service of Pingora's, with a connection of its own to the
//! database.
//!
//! Eight times a period it says that it is there, puts a new version of the shares into force and
//! says that too; once a period it writes what it was asked for. One gateway in all is the writer
//! besides; when no round was run for a while, whoever notices it first runs the next. While the
//! database is away nothing is done but trying again: what is in force ends by itself, see
//! [`Lease`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::holder::{Holder, Word};
use super::round::round;
use super::watch::Watch;
use crate::limit::demand::Demand;
use crate::limit::{Clock, MonotonicClock, Timestamp};
use crate::rules::ledger::{Beat, Grants};
use crate::rules::postgres::PostgresError;
use crate::rules::postgres::region::{Exchange, Told};
use crate::rules::share::{Lease, Regional, Shares, lease_of};

/// Signs of life in a period.
const TICKS: u32 = 8;
/// Ticks without a round after which another gateway takes over.
const TAKE_OVER: u32 = 3;
/// How long the start of a gateway waits for its region's share.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Puts this region's shares into force.
pub type Publish = Box<dyn Fn(Arc<Regional>) + Send + Sync>;

/// How a gateway takes part.
pub struct Settings {
    /// The database's URL, which may hold a password.
    pub url: String,
    /// The same for people.
    pub address: String,
    /// The name of this region.
    pub region: String,
    /// Its base share.
    pub base: f64,
    /// The time between two computations of the shares.
    pub rebalance: Duration,
}

/// This gateway's part in sharing every limit between regions.
pub struct RegionService {
    settings: Settings,
    /// Another one for each process.
    gateway: String,
    /// How many gateways this region has.
    instances: Box<dyn Fn() -> u32 + Send + Sync>,
    publish: Publish,
    clock: Arc<MonotonicClock>,
    lease: Arc<Lease>,
    demand: Arc<Demand>,
    ready: watch::Sender<bool>,
}

impl RegionService {
    /// Takes part in sharing, and puts into force what the region surely has.
    pub fn new(
        settings: Settings,
        instances: impl Fn() -> u32 + Send + Sync + 'static,
        publish: Publish,
    ) -> Self {
        let clock = Arc::new(MonotonicClock::new());
        let service = Self {
            gateway: name(),
            instances: Box::new(instances),
            publish,
            lease: Arc::default(),
            demand: Arc::new(Demand::new(clock.now())),
            clock,
            ready: watch::Sender::new(false),
            settings,
        };
        service.put_into_force(Shares::unheard(service.settings.base));
        service
    }

    /// Becomes true when the region's share is in force, or nobody waits for it any more.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    fn put_into_force(&self, shares: Shares) {
        let (lease, demand) = (Arc::clone(&self.lease), Arc::clone(&self.demand));
        let regional = Regional::new(shares, lease, demand, Arc::clone(&self.clock));
        (self.publish)(Arc::new(regional));
    }
}

/// A region whose share is its base share for good: there is no database to move it.
pub fn fixed(base: f64) -> Regional {
    let clock = Arc::new(MonotonicClock::new());
    let demand = Arc::new(Demand::new(clock.now()));
    Regional::new(Shares::fixed(base), Arc::default(), demand, clock)
}

#[async_trait]
impl Service for RegionService {
    async fn start_service(
        &mut self,
        _fds: Option<ListenFds>,
        mut shutdown: ShutdownWatch,
        _listeners_per_fd: usize,
    ) {
        let ready = self.ready.clone();
        tokio::spawn(async move {
            sleep(PATIENCE).await;
            if !ready.send_replace(true) {
                warn!(
                    "no word of this region's share within {} s: until there is, it holds the \
                     smallest share that a region can have",
                    PATIENCE.as_secs()
                );
            }
        });
        // A region's share stays what it is while the last requests are served.
        tokio::select! {
            () = Member::new(self).take_part() => {}
            _ = shutdown.changed() => {}
        }
    }

    fn name(&self) -> &str {
        "region"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

/// The service at work.
struct Member<'s> {
    service: &'s RegionService,
    tick: Duration,
    holder: Holder,
    watch: Watch,
    /// The last round that was heard of, and since when there was none after it.
    round: Option<(i64, Timestamp)>,
    /// When demand is to be written.
    demand_due: Instant,
    /// Signs of life so far.
    words: i64,
    /// What was said of the share last, in the log.
    said: Option<f64>,
}

impl<'s> Member<'s> {
    fn new(service: &'s RegionService) -> Self {
        let Settings {
            region,
            base,
            rebalance,
            ..
        } = &service.settings;
        let lease = lease_of(*rebalance);
        Self {
            service,
            tick: *rebalance / TICKS,
            holder: Holder::new(region, *base, lease, Arc::clone(&service.lease)),
            watch: Watch::default(),
            round: None,
            demand_due: Instant::now() + *rebalance,
            words: 0,
            said: None,
        }
    }

    async fn take_part(mut self) {
        let address = &self.service.settings.address;
        let mut failures = 0u32;
        loop {
            let error = self.one_connection(&mut failures).await;
            let text = format!("sharing limits between regions, PostgreSQL at {address}: {error}");
            if failures == 0 {
                warn!("{text}; what this region holds beyond its base share lapses meanwhile");
            } else {
                debug!("{text}");
            }
            let pause = self.tick.min(LONGEST_PAUSE);
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Connects, and takes part; the error is what ended that.
    async fn one_connection(&mut self, failures: &mut u32) -> PostgresError {
        let url = &self.service.settings.url;
        let mut exchange = match Exchange::connect(url).await {
            Ok(exchange) => exchange,
            Err(error) => return error,
        };
        loop {
            let next = Instant::now() + self.tick;
            if let Err(error) = self.tick(&mut exchange).await {
                return error;
            }
            if std::mem::take(failures) > 0 {
                info!("limits are shared between regions again");
            }
            sleep_until(next).await;
        }
    }

    async fn tick(&mut self, exchange: &mut Exchange) -> Result<(), PostgresError> {
        let told = self.say(exchange).await?;
        if Instant::now() >= self.demand_due {
            self.write_demand(exchange).await?;
        }
        // A region that nobody counts yet does not wait for the writer's next round.
        let uncounted = self.holder.applied() == 0;
        if uncounted || self.is_writer(&told) {
            self.run_round(exchange).await?;
            self.say(exchange).await?;
        }
        Ok(())
    }

    /// Says what is in force and hears of what is new, until nothing is.
    async fn say(&mut self, exchange: &mut Exchange) -> Result<Told, PostgresError> {
        loop {
            let asked = self.service.clock.now();
            let told = exchange.beat(&self.sign_of_life()).await?;
            let version = told.version;
            let word = Word { asked, version };
            if !self.holder.is_new(word) {
                self.holder.confirm(word);
                return Ok(told);
            }
            let grants = exchange.grants(version).await?;
            let Some(shares) = self.holder.shares(&grants) else {
                // This region is new, or was forgotten: the next round counts it.
                return Ok(told);
            };
            self.tell(&shares, version, &grants);
            self.service.put_into_force(shares);
            self.holder.in_force(word);
            self.service.ready.send_replace(true);
        }
    }

    fn sign_of_life(&mut self) -> Beat {
        self.words += 1;
        let settings = &self.service.settings;
        Beat {
            region: settings.region.clone(),
            gateway: self.service.gateway.clone(),
            base: settings.base,
            lease: lease_of(settings.rebalance),
            instances: (self.service.instances)(),
            applied: self.holder.applied(),
            pending: 0,
            beat: self.words,
        }
    }

    async fn write_demand(&mut self, exchange: &mut Exchange) -> Result<(), PostgresError> {
        let settings = &self.service.settings;
        self.demand_due = Instant::now() + settings.rebalance;
        let demand = self.service.demand.read(self.service.clock.now());
        exchange
            .demand(&settings.region, &self.service.gateway, &demand)
            .await
    }

    /// Whether this gateway runs the rounds, or has to see to it that somebody does.
    fn is_writer(&mut self, told: &Told) -> bool {
        let now = self.service.clock.now();
        let since = match self.round {
            Some((round, since)) if round == told.round => since,
            _ => now,
        };
        self.round = Some((told.round, since));
        told.writer == self.service.gateway || now.since(since) >= TAKE_OVER * self.tick
    }

    async fn run_round(&mut self, exchange: &mut Exchange) -> Result<(), PostgresError> {
        let service = self.service;
        let (watch, clock) = (&mut self.watch, &service.clock);
        let ran = exchange
            .round(
                &service.gateway,
                service.settings.rebalance,
                |ledger, asked| {
                    // The time at which the ledger was read, or later: a lease that is waited for
                    // from here ends later still.
                    round(ledger, watch, asked, clock.now())
                },
            )
            .await?;
        if !ran {
            debug!("another gateway computes the shares just now");
        }
        Ok(())
    }

    /// One line where the share has moved by a point or more.
    fn tell(&mut self, shares: &Shares, version: i64, grants: &Grants) {
        if self
            .said
            .is_some_and(|said| (said - shares.share).abs() < 0.01)
        {
            return;
        }
        self.said = Some(shares.share);
        let bases: f64 = grants.values().map(|granted| granted.base).sum();
        if bases > 1.0 + 1e-6 {
            warn!("the base shares of all regions sum to {bases:.3}, and may sum to 1 at most");
        }
        info!(
            version,
            regions = grants.len(),
            own_shares = shares.tenants.len(),
            "this region holds {:.1} % of each limit",
            shares.share * 100.0
        );
    }
}

/// A name that nobody else has, nor ever had.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(40).collect();
    format!("{host}/{:016x}", fastrand::u64(..))
}
