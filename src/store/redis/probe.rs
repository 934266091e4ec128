//! What stands at a Redis URL: for `aforo check --connect`, before anything depends on it.

use std::fmt::Write;
use std::time::Duration;

use ::redis::{Cmd, Connection, RedisError, Value, cmd, from_redis_value};
use thiserror::Error;

use super::access::{Access, AccessError, TlsFiles};
use super::refusal::Refusal;
use super::slot_map::{self, Primary};
use super::slots::{SLOTS, number_in};
use super::url::{Address, Kind, Place, UrlProblem};
use super::{eviction, heartbeat, key, script, sentinel};
use crate::limit::Ask;

/// Why there is no store to be used at an address.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The URL is wrong.
    #[error("{0}")]
    Url(#[from] UrlProblem),
    /// The certificates are.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// The connection cannot be made, or used.
    #[error("cannot use {address}: {refusal}")]
    Server {
        /// Which server.
        address: Address,
        /// What it says.
        refusal: Refusal,
    },
    /// No Sentinel knows the primary.
    #[error("{0}")]
    Sentinel(String),
    /// The cluster is not made yet.
    #[error("{0}: no slot has a node, the cluster is not made yet")]
    NoSlots(Address),
}

/// What a server says of itself, as far as the user may ask.
#[derive(Default)]
struct Server {
    /// As `Redis 7.0.15`.
    name: String,
    is_cluster: bool,
    is_replica: bool,
    policy: Option<String>,
    /// What is missing, or would be better.
    missing: Vec<String>,
}

/// Signs in to every server behind the URL, takes once from a bucket that is nobody's, and says what
/// they are: a line each, then what is missing.
///
/// # Errors
///
/// Where they cannot be used as a store.
pub fn describe(url: &str, tls: &TlsFiles, within: Duration) -> Result<String, ProbeError> {
    let place = Place::parse(url)?;
    let access = Access::new(&place, tls)?;
    let asker = Asker { access, within };
    let secret = if place.tls { ", TLS" } else { "" };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match &place.kind {
        Kind::Standalone => {
            let address = &place.hosts[0];
            let server = asker.server(address, &key::probe_key(0))?;
            let shown = server.shown(address);
            let alone = server.missing_of_one(address);
            write!(text, "{shown}{secret}, script loaded{alone}")
        }
        Kind::Sentinel { master } => {
            let (sentinel, address) = asker.primary(&place.hosts, master)?;
            let server = asker.server(&address, &key::probe_key(0))?;
            let shown = server.shown(&address);
            let alone = server.missing_of_one(&address);
            write!(
                text,
                "Sentinel at {sentinel} names the primary of {master}: {shown}{secret}, script loaded{alone}"
            )
        }
        Kind::Cluster => {
            text = asker.cluster(&place.hosts, secret)?;
            Ok(())
        }
    };
    Ok(text)
}

struct Asker {
    access: Access,
    within: Duration,
}

impl Asker {
    fn connect(&self, access: &Access, address: &Address) -> Result<Connection, RedisError> {
        let connection = access
            .client(address)?
            .get_connection_with_timeout(self.within)?;
        for set in [Connection::set_read_timeout, Connection::set_write_timeout] {
            set(&connection, Some(self.within))?;
        }
        Ok(connection)
    }

    /// Signs in, loads the scripts, takes once.
    fn server(&self, address: &Address, probe: &str) -> Result<Server, ProbeError> {
        let refused = |error| ProbeError::Server {
            address: address.clone(),
            refusal: Refusal::while_connecting(error, self.access.is_tls()),
        };
        let mut connection = self.connect(&self.access, address).map_err(refused)?;
        let mut server = Server::asked(&mut connection);
        let sha: String = script::load().query(&mut connection).map_err(refused)?;
        if !server.is_replica {
            let take = script::by_sha(&sha, probe, &script::PROBE_RULE, &Ask::one(1));
            take.query::<Value>(&mut connection).map_err(refused)?;
        }
        if heartbeat::load().query::<String>(&mut connection).is_err() {
            server
                .missing
                .push("the script that counts gateways cannot be loaded".to_owned());
        }
        Ok(server)
    }

    /// Who is the primary, and which Sentinel says so.
    fn primary(
        &self,
        sentinels: &[Address],
        master: &str,
    ) -> Result<(Address, Address), ProbeError> {
        let mut complaint = String::new();
        for address in sentinels {
            let asked = self
                .ask_sentinel(address, master)
                .map_err(|error| Refusal::while_connecting(error, self.access.is_tls()).to_string())
                .and_then(|reply| sentinel::read(Ok(reply), master));
            match asked {
                Ok(primary) => return Ok((address.clone(), primary)),
                Err(error) => complaint = format!("Sentinel at {address}: {error}"),
            }
        }
        Err(ProbeError::Sentinel(complaint))
    }

    fn ask_sentinel(
        &self,
        address: &Address,
        master: &str,
    ) -> Result<Option<(String, u16)>, RedisError> {
        let mut connection = self.connect(&self.access.anonymous(), address)?;
        let reply = sentinel::command(master).query(&mut connection);
        match reply {
            Err(error) if error.to_string().contains("NOAUTH") && self.access.has_password() => {
                let mut connection = self.connect(&self.access.first_database(), address)?;
                sentinel::command(master).query(&mut connection)
            }
            reply => reply,
        }
    }

    fn cluster(&self, seeds: &[Address], secret: &str) -> Result<String, ProbeError> {
        let primaries = self.primaries(seeds)?;
        let replicas: usize = primaries.iter().map(|primary| primary.replicas).sum();
        let mut text = format!(
            "Redis Cluster{secret}, {} primaries, {replicas} replicas",
            primaries.len()
        );
        let mut missing = Vec::new();
        let held: usize = primaries
            .iter()
            .map(|primary| primary.slots().count())
            .sum();
        if held < SLOTS {
            missing.push(format!("{} slots have no node", SLOTS - held));
        }
        for (number, primary) in primaries.iter().enumerate() {
            let address = &primary.address;
            let probe = number_in(|slot| primary.holds(slot)).unwrap_or_default();
            let server = self.server(address, &key::probe_key(probe))?;
            let ranges: Vec<String> = primary
                .ranges
                .iter()
                .map(|(first, last)| format!("{first}-{last}"))
                .collect();
            let _ = write!(
                text,
                "\n  node {number}: {}, slots {}, {} replicas, script loaded",
                server.shown(address),
                ranges.join(" "),
                primary.replicas
            );
            if primary.replicas == 0 {
                missing.push(format!("{address} has no replica to take its place"));
            }
            missing.extend(
                server
                    .missing
                    .iter()
                    .map(|what| format!("{address}: {what}")),
            );
        }
        for what in missing {
            let _ = write!(text, "\n  missing: {what}");
        }
        Ok(text)
    }

    fn primaries(&self, seeds: &[Address]) -> Result<Vec<Primary>, ProbeError> {
        let mut failure = None;
        for seed in seeds {
            let mut slots = cmd("CLUSTER");
            slots.arg("SLOTS");
            let reply = self
                .connect(&self.access, seed)
                .and_then(|mut connection| slots.query::<Value>(&mut connection));
            let error = match reply {
                Ok(value) => match slot_map::read(&value, seed) {
                    Some(primaries) => return Ok(primaries),
                    None => ProbeError::NoSlots(seed.clone()),
                },
                Err(error) => ProbeError::Server {
                    address: seed.clone(),
                    refusal: Refusal::while_connecting(error, self.access.is_tls()),
                },
            };
            failure = Some(error);
        }
        // A URL has at least one host.
        Err(failure.unwrap_or_else(|| UrlProblem::Unreadable.into()))
    }
}

impl Server {
    /// Asks what the user may ask.
    fn asked(connection: &mut Connection) -> Self {
        let mut server = Self {
            name: "Redis of unknown version".to_owned(),
            ..Self::default()
        };
        let info = info(connection).unwrap_or_default();
        let of = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(':').map(|value| value.trim().to_owned())
        };
        if let Some(version) = of("valkey_version") {
            server.name = format!("Valkey {version}");
        } else if let Some(version) = of("redis_version") {
            server.name = format!("Redis {version}");
        }
        // Valkey has its own name for it.
        let mode = of("redis_mode").or_else(|| of("server_mode"));
        server.is_cluster = mode.as_deref() == Some("cluster");
        server.is_replica = of("role").as_deref() == Some("slave");
        let maxmemory = of("maxmemory").and_then(|bytes| bytes.parse().ok());
        server.policy = of("maxmemory_policy");
        if let Some((policy, maxmemory)) = server.policy.as_ref().zip(maxmemory) {
            if maxmemory == 0 {
                server
                    .missing
                    .push("maxmemory is not set: the server may grow without bound".to_owned());
            }
            server.missing.extend(eviction::judge(policy, maxmemory));
        }
        if server.is_replica {
            server
                .missing
                .push("this is a replica: it takes no writes".to_owned());
        }
        if server.is_cluster && full_coverage(connection) == Some(true) {
            server.missing.push(
                "cluster-require-full-coverage is yes: while one node is away, all others refuse \
                 too; set it to no"
                    .to_owned(),
            );
        }
        server
    }

    fn shown(&self, address: &Address) -> String {
        let mut text = format!("{} at {address}", self.name);
        if let Some(policy) = &self.policy {
            let _ = write!(text, ", maxmemory-policy {policy}");
        }
        text
    }

    fn missing_of_one(&self, address: &Address) -> String {
        let mut missing = self.missing.clone();
        if self.is_cluster {
            missing.push(format!(
                "{address} is a member of a cluster: redis+cluster:// is its scheme"
            ));
        }
        let lines = missing.iter().map(|what| format!("\n  missing: {what}"));
        lines.collect()
    }
}

/// All of INFO that matters here.
fn info(connection: &mut Connection) -> Option<String> {
    let mut info = Cmd::new();
    info.arg("INFO");
    from_redis_value(info.query(connection).ok()?).ok()
}

/// Whether a cluster with a hole refuses everything, where the user may ask.
fn full_coverage(connection: &mut Connection) -> Option<bool> {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("cluster-require-full-coverage");
    let words: Vec<String> = from_redis_value(config.query(connection).ok()?).ok()?;
    Some(words.get(1)? == "yes")
}
