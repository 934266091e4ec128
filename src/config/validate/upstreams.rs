//! The upstreams and their servers.
//!
//! A server's name is resolved here, once, and its first address counts: what changes in DNS afterwards is seen at
//! the next start or SIGHUP.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::{bad_name, positive};
use crate::config::error::Problems;
use crate::config::model::{Upstream, UpstreamServer};
use crate::config::raw;

/// Retries are for a server that is gone; a request that finds none after so many is better answered.
const MOST_RETRIES: u32 = 10;

/// The largest weight: shares finer than a thousandth of another's are more likely a slip.
const LARGEST_WEIGHT: u32 = 1000;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
const RETRIES: u32 = 1;

pub(super) fn upstreams(
    raw: BTreeMap<String, raw::Upstream>,
    problems: &mut Problems,
) -> BTreeMap<String, Upstream> {
    raw.into_iter()
        .map(|(name, raw)| {
            let path = format!("upstreams.{name}");
            if let Some(why) = bad_name(&name) {
                problems.add(&path, format!("the name {why}"));
            }
            let upstream = upstream(raw, &path, problems);
            (name, upstream)
        })
        .collect()
}

fn upstream(raw: raw::Upstream, path: &str, problems: &mut Problems) -> Upstream {
    let texts = raw.servers.unwrap_or_default();
    if texts.is_empty() {
        problems.add(
            format!("{path}.servers"),
            "at least one is needed, such as `127.0.0.1:9000`",
        );
    }
    let mut servers: Vec<UpstreamServer> = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match server(text) {
            Ok(server) if servers.iter().any(|s| s.address == server.address) => problems.add(
                format!("{path}.servers[{index}]"),
                format!(
                    "{} is here twice, give one of them a weight instead, as in `{} weight=2`",
                    server.address, server.address
                ),
            ),
            Ok(server) => servers.push(server),
            Err(why) => problems.add(format!("{path}.servers[{index}]"), why),
        }
    }
    let timeout = |time, default, key: &str, problems: &mut Problems| {
        positive(time, default, &format!("{path}.{key}"), problems)
    };
    let retries = raw.retries;
    if retries.is_some_and(|retries| retries > MOST_RETRIES) {
        problems.add(
            format!("{path}.retries"),
            format!("must be from 0 to {MOST_RETRIES}"),
        );
    }
    Upstream {
        servers,
        connect_timeout: timeout(
            raw.connect_timeout,
            CONNECT_TIMEOUT,
            "connect_timeout",
            problems,
        ),
        read_timeout: timeout(raw.read_timeout, READ_TIMEOUT, "read_timeout", problems),
        idle_timeout: timeout(raw.idle_timeout, IDLE_TIMEOUT, "idle_timeout", problems),
        retries: retries.unwrap_or(RETRIES),
        protocol: raw.protocol.unwrap_or_default(),
    }
}

/// Reads `host:port` or `host:port weight=2`.
fn server(text: &str) -> Result<UpstreamServer, String> {
    let mut words = text.split_ascii_whitespace();
    let place = words.next().unwrap_or_default();
    let weight = match words.next() {
        None => 1,
        Some(word) => match word.strip_prefix("weight=") {
            None => {
                return Err(format!(
                    "`{word}` is not known here, expected `host:port` or `host:port weight=2`"
                ));
            }
            Some(weight) => weight
                .parse()
                .ok()
                .filter(|weight| (1..=LARGEST_WEIGHT).contains(weight))
                .ok_or_else(|| {
                    format!(
                        "the weight `{weight}` must be a whole number from 1 to {LARGEST_WEIGHT}"
                    )
                })?,
        },
    };
    if let Some(word) = words.next() {
        return Err(format!(
            "`{word}` is not known here, expected `host:port` or `host:port weight=2`"
        ));
    }
    let address = resolve(place)?;
    Ok(UpstreamServer { address, weight })
}

fn resolve(place: &str) -> Result<SocketAddr, String> {
    let form = || format!("`{place}` must be `host:port`, such as 127.0.0.1:9000");
    let (host, port) = place.rsplit_once(':').ok_or_else(form)?;
    // The resolver would take a URL or a bare IPv6 address for a name.
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || host.contains('/') || bare_ipv6 {
        return Err(form());
    }
    match port.parse::<u16>() {
        Ok(0) | Err(_) => {
            return Err(format!(
                "`{place}` must end with a port from 1 to 65535, such as 127.0.0.1:9000"
            ));
        }
        Ok(_) => {}
    }
    let none = || {
        format!("`{place}` has no address, expected an IP address or a name that can be resolved")
    };
    place
        .to_socket_addrs()
        .map_err(|_| none())?
        .next()
        .ok_or_else(none)
}
