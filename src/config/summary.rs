//! A configuration in a handful of lines for people, and what a reload of it cannot change.

use std::fmt::Write;

use super::model::{Cluster, Config, Instances, Need};
use super::units::format_duration;

impl Config {
    /// What `aforo check` prints: listeners, routes, upstreams, rules, and where state lives. No secrets.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_summary(&mut text);
        text
    }

    fn write_summary(&self, text: &mut String) -> std::fmt::Result {
        let listeners: Vec<String> = self
            .listeners
            .iter()
            .map(|listener| {
                let speaks = match (&listener.tls, listener.h2c) {
                    (Some(tls), _) => match tls.clients.as_ref().map(|clients| clients.need) {
                        None => " (TLS)",
                        Some(Need::Required) => " (TLS, client certificates)",
                        Some(Need::Optional) => " (TLS, client certificates optional)",
                    },
                    (None, true) => " (also HTTP/2)",
                    (None, false) => "",
                };
                format!("{}{speaks}", listener.address)
            })
            .collect();
        writeln!(text, "listeners: {}", listeners.join(", "))?;
        writeln!(text, "admin: {}", self.admin.address)?;
        writeln!(text, "routes: {}", self.routes.len())?;
        for route in &self.routes {
            let methods: Vec<&str> = route.methods.iter().map(http::Method::as_str).collect();
            let methods = if methods.is_empty() {
                "any method".to_owned()
            } else {
                methods.join(", ")
            };
            let host = route.host.as_deref().unwrap_or_default();
            writeln!(
                text,
                "  {} → {host}{} ({methods}) → {}",
                route.id, route.path, route.upstream
            )?;
        }
        writeln!(text, "upstreams: {}", self.upstreams.len())?;
        for (name, upstream) in &self.upstreams {
            let servers: Vec<String> = upstream
                .servers
                .iter()
                .map(|server| match server.weight {
                    1 => server.address.to_string(),
                    weight => format!("{} weight={weight}", server.address),
                })
                .collect();
            writeln!(text, "  {name} → {}", servers.join(", "))?;
        }
        let default = self.limits.default_rule;
        writeln!(
            text,
            "rules: {} and the default rule: capacity {}, {} per second",
            self.limits.rules.len(),
            default.capacity,
            default.refill_per_second
        )?;
        if let Some(rules) = &self.rules {
            let postgres = &rules.postgres;
            writeln!(
                text,
                "  and those of PostgreSQL at {}, which win; asked each {}",
                postgres.address,
                format_duration(postgres.refresh)
            )?;
            if let Some(path) = &postgres.snapshot {
                writeln!(text, "  kept in {}", path.display())?;
            }
        }
        if let Some(region) = &self.region {
            let moved = match &self.rules {
                Some(_) => format!("moved each {}", format_duration(region.rebalance)),
                None => "fixed".to_owned(),
            };
            writeln!(
                text,
                "region: {} with {} % of each limit, {moved}",
                region.name,
                (region.share * 1e6).round() / 1e4
            )?;
        }
        writeln!(text, "mode: {}", self.limits.mode.as_str())?;
        match &self.store {
            None => writeln!(text, "state: in this process")?,
            Some(store) => {
                let instances = match self.cluster {
                    Some(Cluster {
                        instances: Instances::Auto { at_least },
                    }) => format!("at least {at_least}"),
                    Some(Cluster {
                        instances: Instances::Fixed(number),
                    }) => number.to_string(),
                    None => "1".to_owned(),
                };
                writeln!(
                    text,
                    "state: in Redis at {}, timeout {}, shared by {instances} gateways",
                    store.redis.address,
                    format_duration(store.redis.timeout)
                )?;
            }
        }
        Ok(())
    }

    /// The keys that differ from `new` and that only a new process can change, named as in the file.
    #[must_use]
    pub fn restart_differences(&self, new: &Self) -> Vec<String> {
        let redis = |config: &Self| config.store.as_ref().map(|store| store.redis.clone());
        let (old_redis, new_redis) = (redis(self), redis(new));
        let both = old_redis.as_ref().zip(new_redis.as_ref());
        let postgres = |config: &Self| config.rules.as_ref().map(|rules| rules.postgres.clone());
        let (old_postgres, new_postgres) = (postgres(self), postgres(new));
        let rules = old_postgres.as_ref().zip(new_postgres.as_ref());
        let (old, new) = (self, new);
        [
            (
                "listeners",
                old.listeners.len() != new.listeners.len()
                    || !old
                        .listeners
                        .iter()
                        .zip(&new.listeners)
                        .all(|(old, new)| old.listens_like(new)),
            ),
            ("server.threads", old.server.threads != new.server.threads),
            (
                "server.grace_period",
                old.server.grace_period != new.server.grace_period,
            ),
            (
                "server.drain_delay",
                old.server.drain_delay != new.server.drain_delay,
            ),
            (
                "server.upgrade_sock",
                old.server.upgrade_sock != new.server.upgrade_sock,
            ),
            ("admin.address", old.admin.address != new.admin.address),
            ("log.format", old.log.format != new.log.format),
            (
                "limits.max_local_buckets",
                old.limits.max_local_buckets != new.limits.max_local_buckets,
            ),
            ("store.redis", old_redis.is_some() != new_redis.is_some()),
            (
                "store.redis.url",
                both.is_some_and(|(old, new)| old.url != new.url),
            ),
            (
                "store.redis.tls",
                both.is_some_and(|(old, new)| old.tls != new.tls),
            ),
            (
                "store.redis.timeout",
                both.is_some_and(|(old, new)| old.timeout != new.timeout),
            ),
            (
                "store.redis.in_flight",
                both.is_some_and(|(old, new)| old.in_flight != new.in_flight),
            ),
            (
                "store.redis.breaker",
                both.is_some_and(|(old, new)| old.breaker != new.breaker),
            ),
            (
                "rules.postgres",
                old_postgres.is_some() != new_postgres.is_some(),
            ),
            (
                "rules.postgres.url",
                rules.is_some_and(|(old, new)| old.url != new.url),
            ),
            (
                "rules.postgres.refresh",
                rules.is_some_and(|(old, new)| old.refresh != new.refresh),
            ),
            (
                "rules.postgres.snapshot",
                rules.is_some_and(|(old, new)| old.snapshot != new.snapshot),
            ),
            ("cluster.instances", old.cluster != new.cluster),
            ("region", old.region != new.region),
        ]
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(key, _)| key.to_owned())
        .collect()
    }
}
