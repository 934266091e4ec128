//! A configuration file for a test, with only what the test is about.

use super::{Postgres, Redis, Upstream};

pub const ONE_A_MINUTE: f64 = 1.0 / 60.0;
pub const ONE_AN_HOUR: f64 = 1.0 / 3_600.0;
pub const ONE_A_DAY: f64 = 1.0 / 86_400.0;

/// Where buckets live.
pub enum Store {
    Memory,
    Redis(Redis),
}

impl Store {
    /// For a test that is about either alike.
    pub fn each() -> [Self; 2] {
        [Self::Memory, Self::Redis(Redis::start())]
    }
}

/// Builds the YAML. Sections are YAML flow mappings as one would write them in the file.
/// `{listen}` and `{admin}` stay in it until a gateway takes its ports.
#[derive(Clone)]
pub struct Config {
    upstream: String,
    upstream_settings: String,
    listener: String,
    routes: Vec<String>,
    default_rule: Option<String>,
    rules: Vec<String>,
    limits: Vec<String>,
    sections: Vec<String>,
}

impl Config {
    /// Everything goes to this upstream, by one route `r` unless the test names its own.
    pub fn new(upstream: &Upstream) -> Self {
        Self::with_upstream_address(upstream.address())
    }

    pub fn with_upstream_address(address: &str) -> Self {
        Self {
            upstream: address.to_owned(),
            upstream_settings: String::new(),
            listener: String::new(),
            routes: Vec::new(),
            default_rule: None,
            rules: Vec::new(),
            limits: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Further keys of the upstream, as `read_timeout: 300ms, retries: 0`.
    pub fn upstream_settings(mut self, keys: &str) -> Self {
        self.upstream_settings = format!(", {keys}");
        self
    }

    /// Further keys of the listener, as `h2c: true`.
    pub fn listener(mut self, keys: &str) -> Self {
        self.listener = format!(", {keys}");
        self
    }

    /// A route, as `id: orders, methods: [POST], path: /orders`.
    pub fn route(mut self, keys: &str) -> Self {
        self.routes
            .push(format!("  - {{ {keys}, upstream: main }}"));
        self
    }

    pub fn default_rule(mut self, capacity: u64, refill_per_second: f64) -> Self {
        self.default_rule = Some(format!(
            "  default_rule: {{ capacity: {capacity}, refill_per_second: {refill_per_second} }}"
        ));
        self
    }

    pub fn rule(
        mut self,
        tenant: &str,
        route: &str,
        capacity: u64,
        refill_per_second: f64,
    ) -> Self {
        self.rules.push(format!(
            "    - {{ tenant: \"{tenant}\", route: \"{route}\", capacity: {capacity}, refill_per_second: {refill_per_second} }}"
        ));
        self
    }

    /// A rule with further keys, as `shadow: true`.
    pub fn rule_with(
        mut self,
        tenant: &str,
        route: &str,
        capacity: u64,
        refill_per_second: f64,
        keys: &str,
    ) -> Self {
        self.rules.push(format!(
            "    - {{ tenant: \"{tenant}\", route: \"{route}\", capacity: {capacity}, refill_per_second: {refill_per_second}, {keys} }}"
        ));
        self
    }

    /// One further key of `limits`, as `mode: shadow`.
    pub fn limits(mut self, key: &str) -> Self {
        self.limits.push(format!("  {key}"));
        self
    }

    /// Buckets live here. A budget that a slow machine does not exceed, and room for every request at
    /// once, keep every decision exact.
    pub fn store(self, store: &Store) -> Self {
        match store {
            Store::Memory => self,
            Store::Redis(redis) => self.redis(redis, 1, "timeout: 5s, in_flight: 1000"),
        }
    }

    /// Buckets live in this Redis, which so many gateways share. `keys` as `timeout: 5s`.
    pub fn redis(self, redis: &Redis, instances: u32, keys: &str) -> Self {
        self.redis_url(&redis.url(), instances, keys)
    }

    pub fn redis_url(self, url: &str, instances: u32, keys: &str) -> Self {
        let keys = if keys.is_empty() {
            String::new()
        } else {
            format!(", {keys}")
        };
        self.section(&format!(
            "store: {{ redis: {{ url: \"{url}\"{keys} }} }}\ncluster: {{ instances: {instances} }}"
        ))
    }

    /// Rules come from here too. `keys` as `refresh: 1s`.
    pub fn postgres(self, postgres: &Postgres, keys: &str) -> Self {
        self.postgres_url(&postgres.url(), keys)
    }

    pub fn postgres_url(self, url: &str, keys: &str) -> Self {
        self.section(&format!(
            "rules: {{ postgres: {{ url: \"{url}\", {keys} }} }}"
        ))
    }

    /// Anything else at the top of the file.
    pub fn section(mut self, yaml: &str) -> Self {
        self.sections.push(yaml.to_owned());
        self
    }

    pub fn yaml(&self) -> String {
        let mut lines = vec![
            "version: 1".to_owned(),
            format!(
                "listeners: [{{ address: \"{{listen}}\"{} }}]",
                self.listener
            ),
            "admin: { address: \"{admin}\" }".to_owned(),
        ];
        if !self
            .sections
            .iter()
            .any(|section| section.starts_with("server:"))
        {
            lines.push("server: { threads: 2 }".to_owned());
        }
        lines.push(format!(
            "upstreams: {{ main: {{ servers: [\"{}\"]{} }} }}",
            self.upstream, self.upstream_settings
        ));
        lines.push("routes:".to_owned());
        if self.routes.is_empty() {
            lines.push("  - { id: r, path: /*, upstream: main }".to_owned());
        }
        lines.extend(self.routes.iter().cloned());
        if self.default_rule.is_some() || !self.rules.is_empty() || !self.limits.is_empty() {
            lines.push("limits:".to_owned());
            lines.extend(self.default_rule.iter().cloned());
            lines.extend(self.limits.iter().cloned());
            if !self.rules.is_empty() {
                lines.push("  rules:".to_owned());
                lines.extend(self.rules.iter().cloned());
            }
        }
        lines.extend(self.sections.iter().cloned());
        lines.join("\n") + "\n"
    }
}
