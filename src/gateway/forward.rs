//! What the upstream is told of a request beyond what the client sent.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use http::{HeaderName, HeaderValue};
use once_cell::sync::Lazy;
use pingora::http::RequestHeader;

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

/// Prepares the request for the upstream.
///
/// # Errors
///
/// Where the header map is full, or the normal form of the path is no path to Pingora.
pub fn prepare(
    request: &mut RequestHeader,
    context: &mut Context,
    peer: Option<IpAddr>,
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
    match peer {
        Some(peer) => {
            let address = Text::new().address(peer).value();
            request.insert_header(FORWARDED_FOR, address)?;
        }
        None => {
            request.remove_header(FORWARDED_FOR);
        }
    }
    request.insert_header(FORWARDED_PROTO, HeaderValue::from_static("http"))?;
    let id = request_id(request);
    // Only the log asks for it later.
    context.request_id = context.snapshot.access_log.then(|| id.clone());
    request.insert_header(REQUEST_ID, id)?;
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
