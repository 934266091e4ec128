//! What the upstream is told of a request beyond what the client sent.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use http::{HeaderName, HeaderValue, header};
use once_cell::sync::Lazy;
use pingora::http::RequestHeader;
use pingora::protocols::l4::socket::SocketAddr;
use pingora_proxy::Session;

use super::context::Context;
use super::text::Text;

// As text, which Pingora keeps as it is; of a `HeaderName` it makes a copy for each request.
const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";
const REQUEST_ID: &str = "x-request-id";
/// The same, to look for.
const REQUEST_ID_NAME: HeaderName = HeaderName::from_static(REQUEST_ID);

/// The longest request id that is taken from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;

#[cfg(test)]
mod tests;

/// How a request came, as far as the upstream cannot see it.
pub struct Came {
    /// The address of the connection's other side.
    pub peer: Option<IpAddr>,
    /// Whether over TLS.
    pub tls: bool,
    /// Whether by HTTP/2.
    pub http2: bool,
}

impl Came {
    /// How this session's request came.
    pub fn of(session: &Session) -> Self {
        Self {
            peer: peer_of(session),
            tls: session
                .digest()
                .is_some_and(|digest| digest.ssl_digest.is_some()),
            http2: session.is_http2(),
        }
    }
}

/// The address that a request's connection comes from.
pub fn peer_of(session: &Session) -> Option<IpAddr> {
    match session.client_addr()? {
        SocketAddr::Inet(address) => Some(address.ip()),
        SocketAddr::Unix(_) => None,
    }
}

/// Prepares the request for the upstream.
///
/// # Errors
///
/// Where the header map is full, or the normal form of the path is no path to Pingora.
pub fn prepare(
    request: &mut RequestHeader,
    context: &mut Context,
    came: &Came,
) -> pingora::Result<()> {
    if let Some(target) = &context.rewritten {
        request.set_raw_path(target)?;
    }
    let tenant = &context.snapshot.tenant;
    if tenant.strip_key {
        request.remove_header(&tenant.header);
    }
    if let Some(forward) = &tenant.forward {
        // In place of the client's own, also where there is no name to tell.
        for spelling in &context.snapshot.forward_spellings {
            request.remove_header(spelling);
        }
        if let Some(name) = &context.tenant {
            request.insert_header(forward.clone(), name.clone())?;
        }
    }
    // What the client says of itself is not believed.
    match came.peer {
        Some(peer) => {
            let address = Text::new().address(peer).value();
            request.insert_header(FORWARDED_FOR, address)?;
        }
        None => {
            request.remove_header(FORWARDED_FOR);
        }
    }
    let scheme = if came.tls { "https" } else { "http" };
    request.insert_header(FORWARDED_PROTO, HeaderValue::from_static(scheme))?;
    if came.http2 {
        join_cookies(request)?;
    }
    let id = request_id(request);
    // Only the log asks for it later.
    context.request_id = context.snapshot.access_log.then(|| id.clone());
    request.insert_header(REQUEST_ID, id)?;
    Ok(())
}

/// Clients of HTTP/2 may send each cookie in a header of its own, which is no spelling of HTTP/1.1
/// (RFC 9113, 8.2.3).
fn join_cookies(request: &mut RequestHeader) -> pingora::Result<()> {
    let cookies = request.headers.get_all(header::COOKIE);
    if cookies.iter().nth(1).is_none() {
        return Ok(());
    }
    let cookies: Vec<&[u8]> = cookies.iter().map(HeaderValue::as_bytes).collect();
    // Of values that are ones already, joined by visible characters.
    if let Ok(cookies) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        request.insert_header(header::COOKIE, cookies)?;
    }
    Ok(())
}

/// The client's request id, where it sent one that is fit to be logged, or a new one.
fn request_id(request: &RequestHeader) -> HeaderValue {
    let mut given = request.headers.get_all(&REQUEST_ID_NAME).iter();
    match (given.next(), given.next()) {
        (Some(id), None) if is_id(id.as_bytes()) => id.clone(),
        _ => new_request_id(),
    }
}

fn is_id(bytes: &[u8]) -> bool {
    (1..=MAX_REQUEST_ID).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

/// 32 hexadecimal digits: half of them are this process's, half count its requests. Unique, and no
/// secret.
fn new_request_id() -> HeaderValue {
    static PROCESS: Lazy<u64> = Lazy::new(|| RandomState::new().hash_one(std::process::id()));
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    Text::new().hex(*PROCESS).hex(number).value()
}
