//! Puts the parts together and runs Pingora's server. Nothing else knows every part.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pingora::listeners::ListenerConfig;
use pingora::protocols::l4::stream::L4BufferSettings;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use pingora::services::listening::Service as ListeningService;
use pingora_proxy::http_proxy;
use thiserror::Error;
use tracing::warn;

use crate::admin;
use crate::admin::serve::RouterApp;
use crate::config::{self, Config, Instances, Source};
use crate::gateway::Gateway;
use crate::gateway::door::{Doors, FrontDoor};
use crate::gateway::leases::Leases;
use crate::gateway::policy::Policy;
use crate::gateway::publisher::Publisher;
use crate::gateway::service::{GatewayService, WhenReady};
use crate::lifecycle::Lifecycle;
use crate::limit::{self, Limiter, MonotonicClock};
use crate::logging::{Logging, LoggingError};
use crate::metrics::METRICS;
use crate::region::service::{self as region, RegionService, Settings as RegionSettings};
use crate::reload::{self, LoadError, Reloader};
use crate::rules::postgres::service::{RulesService, Settings as RulesSettings};
use crate::signals::{Caught, Handler};
use crate::sockets::{BindError, OnSockets, Socket, Sockets};
use crate::stop::{Stopper, Timing};
use crate::store::redis::{self, SetupError};
use crate::store::{MemoryStore, RedisStore, Store};
use crate::upgrade::{self, Meeting, Program, Succession, TakeOver, UpgradeError};

/// What is read of a client at once, in bytes. Each connection keeps as much, also while it idles:
/// Pingora's 64 KiB would be most of what 10,000 of them take. A TLS record has 16 KiB at most.
const READ_BUFFER: usize = 16 * 1024;
/// Idle connections to upstreams that each thread keeps.
const UPSTREAM_POOL: usize = 512;

/// Why a gateway did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// The address of the store is wrong.
    #[error(transparent)]
    Store(#[from] SetupError),
    /// A port is taken, or may not be listened on.
    #[error("cannot listen on {address} ({key}): {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Where it stands in the configuration.
        key: String,
        /// What the system says.
        error: io::Error,
    },
    /// The listeners cannot be taken over, or nobody could take over from this process.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// The system does not tell what this process was started from.
    #[error("cannot tell which program this is: {0}")]
    Program(io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// The system gives no threads.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// There can be no log.
    #[error(transparent)]
    Logging(#[from] LoggingError),
}

impl StartError {
    /// The exit code that says what kind of failure it is: 1 the configuration is wrong, 3
    /// anything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Store(_) => 1,
            Self::Bind { .. }
            | Self::Upgrade(_)
            | Self::Program(_)
            | Self::Signals(_)
            | Self::Threads(_)
            | Self::Logging(_) => 3,
        }
    }
}

/// A gateway that is about to start.
pub struct Start {
    source: Source,
    log_format: Option<config::Format>,
    upgrade: bool,
    /// Called once the listeners are open.
    when_ready: Option<WhenReady>,
}

impl Start {
    /// A gateway that is configured by `source`.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            log_format: None,
            upgrade: false,
            when_ready: None,
        }
    }

    /// Writes the log in this format, whatever the configuration says.
    #[must_use]
    pub fn log_format(mut self, format: Option<config::Format>) -> Self {
        self.log_format = format;
        self
    }

    /// Takes the listeners over from the process that runs.
    #[must_use]
    pub fn upgrade(mut self, upgrade: bool) -> Self {
        self.upgrade = upgrade;
        self
    }

    /// Calls `then` once the listeners are open.
    #[must_use]
    pub fn when_ready(mut self, then: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.when_ready = Some(Box::new(then));
        self
    }

    /// Runs the gateway with `policy` until the process is told to end.
    ///
    /// # Errors
    ///
    /// Where it cannot start. Once it serves, it does not return.
    pub fn run<P: Policy>(self, policy: P) -> Result<(), StartError> {
        let signals = Caught::install().map_err(StartError::Signals)?;
        let metrics = &*METRICS;
        let loaded = reload::load(&self.source, metrics)?;
        let config = loaded.config;
        let format = self.log_format.unwrap_or(config.log.format);
        let logging = Arc::new(Logging::init(&config.log, format)?);
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        let program = Program::current().map_err(StartError::Program)?;
        let upgrade_sock = config.server.upgrade_sock.clone();
        let (take_over, inherited) = match (&upgrade_sock, self.upgrade) {
            (None, true) => return Err(UpgradeError::NoSocket.into()),
            (Some(path), true) => {
                let (take_over, sockets) = TakeOver::begin(path)?;
                (Some(take_over), sockets)
            }
            (_, false) => (None, Vec::new()),
        };
        let sockets = Arc::new(sockets(&config, inherited)?);
        let meeting = upgrade_sock.as_deref().map(Meeting::prepare).transpose()?;
        if let (Some(meeting), None) = (&meeting, &take_over) {
            meeting.is_free()?;
        }

        let lifecycle = Arc::<Lifecycle>::default();
        let limiter = Arc::new(limiter(&config)?);
        metrics.watch_limiter(Arc::clone(&limiter) as _);
        let leases = Arc::new(Leases::new(Arc::clone(&limiter)));
        let publisher = Publisher::new(loaded.snapshot, metrics).map_err(StartError::Threads)?;
        let publisher = Arc::new(publisher);
        let rules = rules_service(&config, &publisher);
        let region = region_service(&config, &publisher, &limiter);
        let gateway = Gateway::new(
            policy,
            Arc::clone(&limiter),
            publisher.current(),
            Arc::clone(&lifecycle),
            metrics,
        );

        let mut server = Server::new_with_opt_and_conf(None, server_conf(&config));
        server.bootstrap();
        let doors = Arc::new(Doors::new(&config.listeners, &loaded.tls));
        let front = FrontDoor {
            proxy: Arc::new(http_proxy(&server.configuration, gateway)),
            doors: Arc::clone(&doors),
            snapshot: publisher.current(),
            lifecycle: Arc::clone(&lifecycle),
            metrics,
        };
        let mut proxy = ListeningService::new("gateway".to_owned(), front);
        let addresses: Vec<SocketAddr> = config
            .listeners
            .iter()
            .map(|listener| listener.address)
            .collect();
        for address in &addresses {
            let listener = ListenerConfig::tcp(address.to_string());
            proxy.add_listener(listener.l4_buffer(L4BufferSettings::default().read(READ_BUFFER)));
        }
        let timing = Timing {
            drain_delay: config.server.drain_delay,
            grace_period: config.server.grace_period,
        };
        let stopper = Arc::new(Stopper::new(
            Arc::clone(&lifecycle),
            Arc::clone(&leases),
            Arc::clone(&sockets),
            timing,
            Arc::clone(&logging),
        ));
        let succession = Succession {
            take_over,
            meeting,
            sockets: Arc::clone(&sockets),
            stopper: Arc::clone(&stopper),
            then: self.when_ready,
        };
        server.add_service(GatewayService {
            proxy: OnSockets {
                service: proxy,
                sockets: Arc::clone(&sockets),
                after: None,
            },
            limiter: Arc::clone(&limiter),
            leases,
            lifecycle: Arc::clone(&lifecycle),
            addresses,
            sockets: Arc::clone(&sockets),
            rules_ready: rules.as_ref().map(RulesService::ready),
            region_ready: region.as_ref().map(RegionService::ready),
            when_ready: Some(Box::new(move || succession.begin())),
        });
        if let Some(rules) = rules {
            server.add_service(rules);
        }
        if let Some(region) = region {
            server.add_service(region);
        }
        let app = RouterApp {
            router: admin::router(metrics, Arc::clone(&lifecycle)),
            lifecycle: Arc::clone(&lifecycle),
        };
        let mut admin = ListeningService::new("admin".to_owned(), app);
        admin.threads = Some(1);
        admin.add_tcp(&config.admin.address.to_string());
        server.add_service(OnSockets {
            service: admin,
            sockets,
            after: self.upgrade.then_some(lifecycle),
        });

        let close = stopper.watch();
        let reloader = Reloader::new(
            self.source,
            config,
            publisher,
            limiter,
            doors,
            logging,
            metrics,
        );
        signals
            .handle_with(Arc::new(Running {
                reloader,
                stopper,
                program,
                upgrade_sock,
            }))
            .map_err(StartError::Signals)?;
        server.run(RunArgs {
            shutdown_signal: Box::new(close),
        });
        Ok(())
    }
}

/// What signals do to a gateway that runs.
struct Running {
    reloader: Reloader,
    stopper: Arc<Stopper>,
    program: Program,
    upgrade_sock: Option<PathBuf>,
}

impl Handler for Running {
    fn upgrade(&self) {
        upgrade::start_next(&self.program, self.upgrade_sock.as_deref());
    }

    fn reload(&self) {
        self.reloader.reload();
    }

    fn stop(&self) {
        Arc::clone(&self.stopper).stop();
    }
}

/// The limiter over the store that the configuration chose.
fn limiter(config: &Config) -> Result<Limiter<Store>, SetupError> {
    let max_local_buckets = config.limits.max_local_buckets;
    let Some(config::Store { redis }) = &config.store else {
        let store = MemoryStore::new(MonotonicClock::new(), max_local_buckets);
        // Buckets in this process are for this process alone.
        let alone = limit::Settings::default();
        let store = Store::Memory(store);
        return Ok(Limiter::new(store, MonotonicClock::new(), alone));
    };
    let store = RedisStore::new(&redis::Settings {
        url: redis.url.expose(),
        tls: &redis.tls,
        budget: redis.timeout,
        max_in_flight: redis.in_flight,
    })?;
    let (instances, count_instances) = match config.cluster.as_ref().map(|c| c.instances) {
        Some(Instances::Fixed(instances)) => (instances, false),
        Some(Instances::Auto { at_least }) => (at_least, true),
        None => (1, false),
    };
    let settings = limit::Settings {
        budget: redis.timeout,
        instances,
        count_instances,
        batch: config.limits.prefetch_batch,
        max_local_buckets,
        in_flight: redis.in_flight,
        failures: redis.breaker.failures,
        probe: redis.breaker.probe,
    };
    let store = Store::Redis(store);
    Ok(Limiter::new(store, MonotonicClock::new(), settings))
}

/// What follows the database, where the configuration names one.
fn rules_service(config: &Config, publisher: &Arc<Publisher>) -> Option<RulesService> {
    let postgres = &config.rules.as_ref()?.postgres;
    let settings = RulesSettings {
        url: postgres.url.expose().to_owned(),
        address: postgres.address.clone(),
        refresh: postgres.refresh,
        snapshot: postgres.snapshot.clone(),
    };
    let publisher = Arc::clone(publisher);
    Some(RulesService::new(settings, publisher, &METRICS))
}

/// What moves this region's share, where there are several regions and a database between them.
/// Without a database the share is what the configuration says.
fn region_service(
    config: &Config,
    publisher: &Arc<Publisher>,
    limiter: &Arc<Limiter<Store>>,
) -> Option<RegionService> {
    let region = config.region.as_ref()?;
    let Some(rules) = &config.rules else {
        publisher.publish_region(Arc::new(region::fixed(region.share)));
        return None;
    };
    let settings = RegionSettings {
        url: rules.postgres.url.expose().to_owned(),
        address: rules.postgres.address.clone(),
        region: region.name.clone(),
        base: region.share,
        rebalance: region.rebalance,
    };
    let (publisher, limiter) = (Arc::clone(publisher), Arc::clone(limiter));
    Some(RegionService::new(
        settings,
        move || limiter.instances(),
        Box::new(move |region| publisher.publish_region(region)),
    ))
}

/// Pingora's settings.
fn server_conf(config: &Config) -> ServerConf {
    let grace = config.server.grace_period.as_secs() + 1;
    ServerConf {
        threads: config.server.threads,
        // The stopper ends the process; these only have to be longer.
        grace_period_seconds: Some(grace),
        graceful_shutdown_timeout_seconds: Some(1),
        upstream_keepalive_pool_size: UPSTREAM_POOL,
        ..ServerConf::default()
    }
}

/// The sockets of all listeners, the admin's too: those of the process that is taken over from, and
/// new ones.
fn sockets(config: &Config, inherited: Vec<Socket>) -> Result<Sockets, StartError> {
    let listeners = config.listeners.iter().map(|listener| listener.address);
    let addresses = listeners.chain([config.admin.address]);
    Sockets::bind(addresses, inherited).map_err(|BindError { address, error }| {
        let place = |listener: &config::Listener| listener.address == address;
        let key = match config.listeners.iter().position(place) {
            Some(place) => format!("listeners[{place}].address"),
            None => "admin.address".to_owned(),
        };
        StartError::Bind {
            address,
            key,
            error,
        }
    })
}
