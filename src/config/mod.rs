//! The configuration: one YAML file, read whole, checked whole, and then immutable.
//!
//! [`Source::load`] reads it again at each call, which is all that a reload needs; what to do with the result is the
//! caller's business. An error always names its place, and errors of meaning come all at once. Nothing here opens a
//! connection, and no secret is ever part of a message.

mod env;
mod error;
mod model;
mod parse;
mod raw;
mod summary;
pub mod units;
mod unsupported;
mod validate;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use error::{ConfigError, Problem};
pub use model::{
    Admin, Breaker, Certificate, ClientCertificates, Cluster, Config, Format, Headers, Instances,
    Keys, Level, Limits, Listener, Log, Mode, Need, OnStoreFailure, Postgres, Protocol, Redis,
    Region, Route, Rule, RuleLimits, RulesSource, Secret, Server, Store, Tenant, TenantInLog,
    Timeouts, Tls, TlsVersion, Upstream, UpstreamServer,
};

/// Where a configuration is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, read anew each time.
    File(PathBuf),
    /// A text inside the program, such as the demo's.
    BuiltIn {
        /// What errors call it.
        name: String,
        /// The YAML.
        text: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::BuiltIn { name, .. } => f.write_str(name),
        }
    }
}

impl Source {
    /// Where the admin listener of a gateway with this configuration is, as far as that can be told: a running gateway
    /// goes on with its old configuration when the file is no longer right, and can still be asked for its health.
    pub fn admin_address(&self) -> SocketAddr {
        let text = match self {
            Self::File(path) => std::fs::read_to_string(path).unwrap_or_default(),
            Self::BuiltIn { text, .. } => text.clone(),
        };
        parse::admin_address(&text).unwrap_or(Admin::default().address)
    }

    /// Reads and checks everything that can be checked without a connection. Variables come from the process's
    /// environment; the names of upstream servers are resolved, which may take a moment.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or what it holds is wrong.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let name = self.to_string();
        let env = |variable: &str| std::env::var(variable).ok();
        match self {
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => parse(&name, &text, &env),
                Err(cause) => Err(ConfigError::Read { file: name, cause }),
            },
            Self::BuiltIn { text, .. } => parse(&name, text, &env),
        }
    }
}

/// Reads and checks a text; `name` is what errors call it, `env` gives the values of variables.
///
/// # Errors
///
/// The first error of shape, or else every error of meaning.
pub fn parse(
    name: &str,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let (file, text) = parse::parse(name, text, env)?;
    validate::validate(file).map_err(|mut problems| {
        for problem in &mut problems {
            problem.message = text.hide_values(&problem.message);
        }
        ConfigError::Meaning {
            file: name.to_owned(),
            problems,
        }
    })
}

#[cfg(test)]
mod tests;
