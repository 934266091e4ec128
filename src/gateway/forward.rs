//! What the upstream is told of a request beyond what the client sent.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue};
use pingora::http::RequestHeader;

use super::context::Context;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Prepares the request for the upstream.
///
/// # Errors
///
/// Where the header map is full, or the normal form of the path is no path to Pingora.
pub fn prepare(
    request: &mut RequestHeader,
    context: &Context,
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
        request.remove_header(forward);
        if let Some(name) = &context.tenant {
            request.insert_header(forward.clone(), name.clone())?;
        }
    }
    // What the client says of itself is not believed.
    request.remove_header(&FORWARDED_FOR);
    if let Some(address) = peer.and_then(|peer| HeaderValue::try_from(peer.to_string()).ok()) {
        request.insert_header(FORWARDED_FOR, address)?;
    }
    request.insert_header(FORWARDED_PROTO, HeaderValue::from_static("http"))?;
    Ok(())
}
