//! What the path and the host of a route may look like.
//!
//! Requests are matched in one normal form; a route that is not written in it would never match, silently. Which
//! route wins is the router's business.

use std::net::Ipv6Addr;

/// Why a route's path is wrong and what would be right; None: it is fine.
pub(super) fn bad_path(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some(format!("`{path}` must begin with `/`"));
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(format!(
            "`{path}` may hold visible ASCII characters only, write others percent-encoded"
        ));
    }
    for (character, why) in [
        ('?', "the query is not matched, leave it out"),
        ('#', "a request has no fragment, leave it out"),
        ('\\', "no request with a backslash is let in"),
        (
            ';',
            "`;parameters` are dropped before matching, leave them out",
        ),
    ] {
        if path.contains(character) {
            return Some(format!("`{path}` must not hold `{character}`: {why}"));
        }
    }
    if let Some(why) = bad_percent(path) {
        return Some(why);
    }
    let segments: Vec<&str> = path[1..].split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        let why = match *segment {
            "" if last && segments.len() == 1 => None,
            "" if last => Some(
                "must not end with `/`, which is dropped before matching; `/*` is all that lies below",
            ),
            "" => Some("must not hold `//`: repeated slashes are merged before matching"),
            "." | ".." => {
                Some("must not hold the segments `.` and `..`, which are resolved before matching")
            }
            "*" if !last => Some("may hold `*` as its last segment only"),
            "*" => None,
            segment if segment.contains('*') => Some("may hold `*` as a whole segment only"),
            segment if segment.contains(['{', '}']) && !is_parameter(segment) => Some(
                "may hold `{name}` as a whole segment only, its name of letters, digits and `_`",
            ),
            _ => None,
        };
        if let Some(why) = why {
            return Some(format!("`{path}` {why}"));
        }
    }
    None
}

/// Whether two paths match the same requests: a parameter's name makes no difference.
pub(super) fn shape(path: &str) -> String {
    path.split('/')
        .map(|segment| if is_parameter(segment) { "{}" } else { segment })
        .collect::<Vec<_>>()
        .join("/")
}

fn is_parameter(segment: &str) -> bool {
    segment
        .strip_prefix('{')
        .and_then(|segment| segment.strip_suffix('}'))
        .is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
}

fn bad_percent(path: &str) -> Option<String> {
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        rest = &rest[at..];
        let digits = rest
            .get(1..3)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (Some(digits), Some(byte)) = (digits, byte) else {
            return Some(format!(
                "`{path}` holds a `%` without two hexadecimal digits, write `%25` for the character itself"
            ));
        };
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            return Some(format!(
                "`{path}` holds `%{digits}`, which is decoded before matching, write `{}`",
                char::from(byte)
            ));
        }
        if matches!(byte, b'/' | b'\\' | 0) {
            return Some(format!(
                "`{path}` holds `%{digits}`, and no request with that is let in"
            ));
        }
        if digits.bytes().any(|digit| digit.is_ascii_lowercase()) {
            return Some(format!(
                "`{path}` holds `%{digits}`, write `%{}`",
                digits.to_ascii_uppercase()
            ));
        }
        rest = &rest[3..];
    }
    None
}

/// A host in its normal form: lower case, without the trailing dot.
///
/// # Errors
///
/// Why it is wrong and what would be right.
pub(super) fn host(text: &str) -> Result<String, String> {
    let form = "expected a host such as api.example.com or *.example.com";
    let lower = text.to_ascii_lowercase();
    let host = lower.strip_suffix('.').unwrap_or(&lower);
    if let Some(inner) = host.strip_prefix('[') {
        return match inner.strip_suffix(']').map(str::parse::<Ipv6Addr>) {
            Some(Ok(_)) => Ok(host.to_owned()),
            _ => Err(format!("`{text}` is no host, {form}")),
        };
    }
    if host.contains(':') {
        return Err(format!(
            "`{text}` must be written without scheme and port, {form}"
        ));
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if name.contains('*') {
        return Err(format!(
            "`{text}` may hold `*` as its first label only, {form}"
        ));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(format!("`{text}` is no host, {form}"));
    }
    Ok(host.to_owned())
}
