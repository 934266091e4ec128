//! Hosts: those that routes name, and those that clients send.
//!
//! Both are compared in lower case, without port and without the trailing dot. Nothing is resolved.

use std::borrow::Cow;

/// The longest name that DNS can hold. A longer one can only match routes without a host, which
/// also bounds what a hostile `Host` costs.
const LONGEST: usize = 253;

/// What is wrong with the host of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The host is empty, or nothing but a wildcard.
    #[error("is empty: leave host out to match all hosts")]
    Empty,
    /// A `*` elsewhere than in a leading `*.`.
    #[error("may have a wildcard only as its whole first label, as in *.example.com")]
    Wildcard,
    /// A port, which has no part in the comparison.
    #[error("has a port: hosts are compared without it")]
    Port,
    /// Labels are letters, digits, `-` and `_`, with dots between them, 253 characters in all; an
    /// IPv6 address stands in brackets.
    #[error(
        "is not a host name (write international names as xn--…, IPv6 addresses as [2001:db8::1])"
    )]
    NotAName,
}

/// The host of a route, in the form that is compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostPattern {
    /// This host.
    Exact(Box<str>),
    /// All hosts that end with a dot and this.
    Below(Box<str>),
}

impl HostPattern {
    pub(super) fn parse(host: &str) -> Result<Self, HostError> {
        if matches!(host, "" | "." | "*" | "*.") {
            return Err(HostError::Empty);
        }
        if host.starts_with('[') {
            let address = host.strip_prefix('[').and_then(|host| host.split_once(']'));
            return match address {
                Some((_, port)) if port.starts_with(':') => Err(HostError::Port),
                Some((address, "")) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
                    Ok(Self::Exact(host.to_ascii_lowercase().into()))
                }
                _ => Err(HostError::NotAName),
            };
        }
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.contains('*') {
            return Err(HostError::Wildcard);
        }
        if let Some((name, port)) = name.split_once(':')
            && !name.is_empty()
            && port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(HostError::Port);
        }
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if name.len() > LONGEST || !name.split('.').all(is_label) {
            return Err(HostError::NotAName);
        }
        let name = name.to_ascii_lowercase().into();
        Ok(if below {
            Self::Below(name)
        } else {
            Self::Exact(name)
        })
    }
}

/// A client's host in the form that is compared; none if no route can name it.
pub(super) fn normal(host: &str) -> Option<Cow<'_, str>> {
    let name = match host.strip_prefix('[').and_then(|inner| inner.find(']')) {
        // The brackets are part of it.
        Some(end) => &host[..end + 2],
        // At the first colon, whatever follows: what is not a port does not make another host.
        None => host.split(':').next().unwrap_or(host),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    Some(if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}

/// The names that a host lies below, the longest first.
pub(super) fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.')
        .filter(|(at, _)| *at > 0)
        .map(|(at, _)| &name[at + 1..])
}
