//! Aforo: an edge proxy that holds every tenant of an API to its rate across a whole cluster of
//! gateways.
//!
//! Imports point down only: [`cli`] → [`app`] → {[`reload`], [`gateway`], [`admin`], [`region`]} →
//! {[`config`], [`rules`], [`store`]} → {[`limit`], [`metrics`]}. The heart is [`limit`], which
//! knows neither HTTP nor Redis; [`gateway`] speaks HTTP and asks it one question; [`store`] plugs
//! in behind a trait.
//!
//! A gateway with a policy of its own is a binary of a few lines: see [`Policy`], [`run`] and
//! `examples/policy.rs`.

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod gateway;
pub mod health;
pub mod lifecycle;
pub mod limit;
pub mod logging;
pub mod metrics;
mod priority;
pub mod region;
pub mod reload;
pub mod rules;
pub mod signals;
pub mod sockets;
pub mod stop;
pub mod store;
pub mod systemd;
pub mod upgrade;

pub use app::{Start, StartError};
pub use config::Source;
pub use gateway::policy::{Mode, Policy, Request, Route, Unauthorized, YamlPolicy};

/// Runs a gateway that is configured by `config` and asks `policy`, until the process is told to
/// end.
///
/// # Errors
///
/// Where it cannot start. Once it serves, it does not return.
pub fn run<P: Policy>(config: Source, policy: P) -> Result<(), StartError> {
    Start::new(config).run(policy)
}
