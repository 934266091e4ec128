//! The sections about the process itself and its clients: server, admin, log, timeouts, tenant.

use http::header::HeaderName;

use super::listeners::{address, taken};
use super::positive;
use crate::config::error::Problems;
use crate::config::model::{Admin, Listener, Log, Server, Tenant, Timeouts};
use crate::config::raw;

/// Far more cores than a machine has.
const MOST_THREADS: usize = 1024;

/// What unix(7) leaves to a path, less what is put behind it while the socket is made.
const LONGEST_SOCKET_PATH: usize = 96;

/// Headers that Aforo writes itself on a request or a response: a tenant's name in one of them would be lost, or would
/// pass for something else.
const OWN_HEADERS: [&str; 11] = [
    "forwarded",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "via",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
];

/// Headers that carry the connection or the message itself: a key in them, or a name written into them, would break
/// the request.
const RESERVED_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn server(raw: raw::Server, problems: &mut Problems) -> Server {
    let default = Server::default();
    if raw.threads == Some(0) {
        problems.add("server.threads", "must be at least 1, not 0");
    }
    if raw.threads.is_some_and(|threads| threads > MOST_THREADS) {
        problems.add(
            "server.threads",
            format!("must be at most {MOST_THREADS}; the default is the number of cores"),
        );
    }
    if let Some(path) = &raw.upgrade_sock {
        let bytes = path.as_os_str().len();
        if bytes == 0 {
            problems.add(
                "server.upgrade_sock",
                "must be the path of a socket, such as /run/aforo/upgrade.sock",
            );
        } else if bytes > LONGEST_SOCKET_PATH {
            problems.add(
                "server.upgrade_sock",
                format!(
                    "has {bytes} bytes, at most {LONGEST_SOCKET_PATH} are possible for a socket"
                ),
            );
        }
    }
    Server {
        threads: raw.threads.unwrap_or(default.threads),
        grace_period: raw.grace_period.map_or(default.grace_period, |time| time.0),
        drain_delay: raw.drain_delay.map_or(default.drain_delay, |time| time.0),
        upgrade_sock: raw.upgrade_sock,
    }
}

pub(super) fn admin(
    raw: raw::Admin,
    listeners: &[Option<Listener>],
    problems: &mut Problems,
) -> Admin {
    let default = Admin::default();
    let path = "admin.address";
    let address = match raw.address {
        None => Some(default.address),
        Some(text) => address(&text, path, problems),
    };
    if let Some(address) = address {
        taken(address, listeners, path, problems);
    }
    Admin {
        address: address.unwrap_or(default.address),
        token: raw.token.filter(|token| !token.expose().is_empty()),
    }
}

pub(super) fn log(raw: raw::Log) -> Log {
    Log {
        level: raw.level.unwrap_or_default(),
        format: raw.format.unwrap_or_default(),
        access: raw.access.unwrap_or_default(),
        tenant: raw.tenant.unwrap_or_default(),
    }
}

pub(super) fn timeouts(raw: &raw::Timeouts, problems: &mut Problems) -> Timeouts {
    let default = Timeouts::default();
    Timeouts {
        header: positive(raw.header, default.header, "timeouts.header", problems),
        idle: positive(raw.idle, default.idle, "timeouts.idle", problems),
        body: positive(raw.body, default.body, "timeouts.body", problems),
        tls: positive(raw.tls, default.tls, "timeouts.tls", problems),
    }
}

pub(super) fn tenant(raw: raw::Tenant, problems: &mut Problems) -> Tenant {
    let default = Tenant::default();
    let header = raw
        .header
        .and_then(|name| header(&name, "tenant.header", problems))
        .unwrap_or(default.header);
    let forward = raw
        .forward
        .and_then(|name| self::header(&name, "tenant.forward", problems));
    if forward.as_ref() == Some(&header) {
        problems.add(
            "tenant.forward",
            format!("must be another header than tenant.header (`{header}`): it is removed from what clients send"),
        );
    }
    Tenant {
        header,
        keys: raw.keys.unwrap_or_default(),
        forward,
        strip_key: raw.strip_key.unwrap_or(default.strip_key),
    }
}

fn header(name: &str, path: &str, problems: &mut Problems) -> Option<HeaderName> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(header) if RESERVED_HEADERS.contains(&header.as_str()) => {
            problems.add(
                path,
                format!("`{name}` belongs to HTTP itself, use a header such as X-Api-Key"),
            );
            None
        }
        Ok(header) if OWN_HEADERS.contains(&header.as_str()) => {
            problems.add(
                path,
                format!("`{name}` is written by Aforo itself, use a header such as X-Tenant-Id"),
            );
            None
        }
        Ok(header) => Some(header),
        Err(_) => {
            problems.add(
                path,
                format!("`{name}` is no header name, use one such as X-Api-Key"),
            );
            None
        }
    }
}
