//! Where Redis is: what the URL in `store.redis.url` says.
//!
//! Six schemes: `redis` for one server, `redis+cluster` for a cluster, `redis+sentinel` for a primary
//! that Sentinel knows, and each with `rediss` for TLS. No error here quotes the URL, for it may hold
//! a password.

use std::fmt;

use percent_encoding::percent_decode_str;
use thiserror::Error;

#[cfg(test)]
mod tests;

/// The port of a server where the URL names none.
const PORT: u16 = 6379;
/// The port of a Sentinel where the URL names none.
const SENTINEL_PORT: u16 = 26379;

/// What a URL is to look like, for people.
pub const FORM: &str = "redis://host:port (user:password@ before the host, /database behind the port), \
     redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/MASTER, each with rediss for TLS";

/// What is wrong with a URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlProblem {
    /// There is no `://`.
    #[error("is no URL, expected {FORM}")]
    NoUrl,
    /// Its scheme is none of ours. The scheme where it looks like one: anything else may be a
    /// misplaced secret.
    #[error("has an unknown scheme{}, expected {FORM}", .0.as_ref().map(|s| format!(" `{s}`")).unwrap_or_default())]
    Scheme(Option<String>),
    /// There is a `?` or a `#`.
    #[error(
        "must not hold `?` and `#` (in a password they are written %3F and %23), expected {FORM}"
    )]
    Query,
    /// The number of the database is negative.
    #[error("has a database below 0, expected {FORM}")]
    NegativeDatabase,
    /// A cluster has no databases.
    #[error("names a database, but a cluster has only one: leave out what is behind the hosts")]
    ClusterDatabase,
    /// Sentinel is asked for a primary by its name.
    #[error(
        "does not name the primary that Sentinel is to be asked for, expected redis+sentinel://host:port,host:port/MASTER"
    )]
    NoMaster,
    /// One server, and several hosts.
    #[error(
        "names several hosts, which redis+cluster:// and redis+sentinel:// take, but not redis://"
    )]
    SeveralHosts,
    /// Anything else.
    #[error(
        "cannot be read, expected {FORM}; special characters of a password are written percent-encoded"
    )]
    Unreadable,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What stands at the hosts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One server.
    Standalone,
    /// Some nodes of a cluster.
    Cluster,
    /// Some Sentinels.
    Sentinel {
        /// The name by which they know the primary.
        master: String,
    },
}

/// All that a URL says.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// What stands there.
    pub kind: Kind,
    /// Where, at least one; exactly one for a stand-alone server.
    pub hosts: Vec<Address>,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Who signs in.
    pub username: Option<String>,
    /// With what.
    pub password: Option<String>,
    /// The number of the database.
    pub database: u32,
}

impl Place {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Self, UrlProblem> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlProblem::NoUrl)?;
        let (tls, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", kind @ ("" | "cluster" | "sentinel")) => (false, kind),
            ("rediss", kind @ ("" | "cluster" | "sentinel")) => (true, kind),
            _ => {
                let like = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
                let named = scheme.bytes().all(like).then(|| scheme.to_owned());
                return Err(UrlProblem::Scheme(named));
            }
        };
        if rest.contains(['?', '#']) {
            return Err(UrlProblem::Query);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let (username, password) = match user.map(|user| user.split_once(':').unwrap_or((user, "")))
        {
            Some((name, password)) => (decoded(name)?, decoded(password)?),
            None => (None, None),
        };
        let port = if kind == "sentinel" {
            SENTINEL_PORT
        } else {
            PORT
        };
        let hosts = hosts
            .split(',')
            .map(|host| Address::parse(host, Some(port)).ok_or(UrlProblem::Unreadable))
            .collect::<Result<Vec<_>, _>>()?;
        let (kind, database) = match kind {
            "cluster" if !["", "0"].contains(&path) => return Err(UrlProblem::ClusterDatabase),
            "cluster" => (Kind::Cluster, 0),
            "sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                let master = decoded(master)?.ok_or(UrlProblem::NoMaster)?;
                (Kind::Sentinel { master }, number(database)?)
            }
            _ if hosts.len() > 1 => return Err(UrlProblem::SeveralHosts),
            _ => (Kind::Standalone, number(path)?),
        };
        Ok(Self {
            kind,
            hosts,
            tls,
            username,
            password,
            database,
        })
    }
}

/// Percent-decoded; none where there is nothing.
fn decoded(text: &str) -> Result<Option<String>, UrlProblem> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| UrlProblem::Unreadable)?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

fn number(path: &str) -> Result<u32, UrlProblem> {
    if path.is_empty() {
        return Ok(0);
    }
    match path.parse::<i64>() {
        Ok(number) if number < 0 => Err(UrlProblem::NegativeDatabase),
        Ok(number) => u32::try_from(number).map_err(|_| UrlProblem::Unreadable),
        Err(_) => Err(UrlProblem::Unreadable),
    }
}

impl Address {
    /// Reads `host:port`, `host`, `[v6]:port`, `[v6]`, and with a port also a bare IPv6 address, as a
    /// cluster writes it.
    pub fn parse(text: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                let port = if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':')?)
                };
                (host, port)
            }
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None => default_port?,
        };
        let strange = |c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c);
        if host.is_empty() || host.contains(strange) {
            return None;
        }
        Some(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// For people: without user and password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Address::to_string).collect();
        match &self.kind {
            Kind::Standalone => f.write_str(&hosts.join(","))?,
            Kind::Cluster => write!(f, "{} (cluster)", hosts.join(","))?,
            Kind::Sentinel { master } => write!(f, "{} (primary of {master})", hosts.join(","))?,
        }
        if self.tls {
            f.write_str(", TLS")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}
