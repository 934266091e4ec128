//! Who asks: the key in a request's header, and the name that the upstream is told.

use http::{HeaderMap, HeaderName, HeaderValue};

use thiserror::Error;

#[cfg(test)]
mod tests;

/// The longest name of a tenant, in bytes.
pub const MAX_TENANT_BYTES: usize = 64;

/// Why a request has no tenant. The client is told no more than that; the reason is for logs.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unauthorized {
    /// No credential at all.
    #[error("no credential")]
    Missing,
    /// More than one.
    #[error("more than one credential")]
    Repeated,
    /// One that cannot be: empty, too long, or with bytes that do not belong there.
    #[error("malformed credential")]
    Malformed,
    /// One that is not known, or no longer.
    #[error("unknown credential")]
    Unknown,
}

/// The one key in the header `name`.
///
/// # Errors
///
/// Where the header is missing or repeated, or its value cannot be a key.
pub fn key<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<&'r str, Unauthorized> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(Unauthorized::Missing)?;
    if values.next().is_some() {
        return Err(Unauthorized::Repeated);
    }
    let bytes = value.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_TENANT_BYTES || !bytes.iter().all(u8::is_ascii_graphic)
    {
        return Err(Unauthorized::Malformed);
    }
    std::str::from_utf8(bytes).map_err(|_| Unauthorized::Malformed)
}

/// How a request without a key is told to send one.
pub fn challenge(name: &HeaderName) -> String {
    format!("ApiKey realm=\"aforo\", header=\"{}\"", spelled(name))
}

/// A header's name as it is usually written: the library keeps it in lower case.
fn spelled(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

/// The name of a tenant that passed [`check`], as a header's value.
pub fn header_value(name: &str) -> Option<HeaderValue> {
    // Only control characters cannot be in a value, and those did not pass.
    HeaderValue::from_bytes(name.as_bytes()).ok()
}

/// Whether `name` may name a tenant.
///
/// # Errors
///
/// Where it is empty, too long or holds control characters, which no log should show.
pub fn check(name: &str) -> Result<(), Unauthorized> {
    if name.is_empty() || name.len() > MAX_TENANT_BYTES || name.chars().any(char::is_control) {
        return Err(Unauthorized::Malformed);
    }
    Ok(())
}
