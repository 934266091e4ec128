//! The one normal form of a request path.
//!
//! Limits hang on routes, so a client that finds a second spelling of a path which the upstream
//! takes for the first one has found a way around a limit. Therefore a path is brought to one form
//! before anything looks at it, what is matched is derived from that form, and that form is what
//! goes to the upstream. What has no reading that everybody shares is refused.
//!
//! Not done here: the query (neither matched nor changed), upper and lower case (they differ), the
//! trailing slash (the router's business, for it depends on the routes).

use std::borrow::Cow;

/// Why a path has no normal form. The answer to each is 400, and the text may be shown to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path does not begin with a slash (`*` and authorities among them).
    #[error("the path does not begin with /")]
    NotAbsolute,
    /// A `%` without two hexadecimal digits behind it.
    #[error("the path has a % that is not followed by two hexadecimal digits")]
    BadPercent,
    /// `%2F`, `%5C` or `%00`: some upstreams take the first two for separators, and some end the
    /// path at the third.
    #[error("the path has an encoded {0}")]
    Encoded(&'static str),
    /// A backslash, which some upstreams take for a slash.
    #[error("the path has a backslash")]
    Backslash,
    /// A byte that has no place in a path: a control character, a space, `?` or `#`.
    #[error("the path has the byte 0x{0:02X}, which would have to be percent-encoded")]
    Forbidden(u8),
    /// `..` leads above the root.
    #[error("the path leads above its root")]
    AboveRoot,
    /// `.;x` or `..;x`: a dot segment for upstreams that drop parameters, a name for the others.
    #[error("the path has a dot segment with parameters")]
    DotParameters,
    /// `/;x/` inside the path: nothing is left of the segment for upstreams that drop parameters.
    #[error("the path has a segment of parameters alone")]
    OnlyParameters,
}

/// What a byte of a path means for its normal form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Stands as it is: RFC 3986's `pchar` but for `%`.
    Plain,
    /// Ends a segment.
    Slash,
    /// Opens a percent sequence.
    Percent,
    /// Goes on percent-encoded, for the grammar of a path has no room for it: not ASCII, or one of
    /// ``"<>[]^`{|}``. Clients send these raw, and `{` and `%7B` must not be two paths.
    Escape,
    /// Refused.
    Refuse,
}

/// The class of every byte.
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Escape; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if is_unreserved(byte) || is_plain_punctuation(byte) || byte == b';' {
            classes[at] = Class::Plain;
        } else if byte == b'/' {
            classes[at] = Class::Slash;
        } else if byte == b'%' {
            classes[at] = Class::Percent;
        } else if byte <= b' ' || matches!(byte, 0x7F | b'\\' | b'?' | b'#') {
            classes[at] = Class::Refuse;
        }
        at += 1;
    }
    classes
};

/// Upper case, as RFC 3986 wants percent sequences.
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The normal form of a path (without the query): unreserved characters are decoded, dot segments
/// removed, repeated slashes merged; what remains encoded has upper-case digits, and bytes that do
/// not belong in a path are encoded. An empty path is `/`.
///
/// The result is visible ASCII, begins with `/` and is its own normal form. It is borrowed when the
/// input is in normal form already, which one look at each byte tells.
///
/// # Errors
///
/// Where upstreams could disagree about what the path means; see [`PathError`].
pub fn normalize(path: &[u8]) -> Result<Cow<'_, str>, PathError> {
    if path.is_empty() {
        return Ok(Cow::Borrowed("/"));
    }
    if is_normal(path)
        && let Ok(path) = std::str::from_utf8(path)
    {
        return Ok(Cow::Borrowed(path));
    }
    rewrite(path).map(Cow::Owned)
}

/// What routes are matched on, out of a normal form: the `;parameters` of each segment are gone,
/// and the characters that a segment may hold either way (``!$&'()*+,:=@``) are decoded, so that
/// `/orders%3Abatch` does not miss the route of `/orders:batch`. `%3B` stays: it is no parameter.
///
/// This is for matching alone; what is forwarded is the normal form. Borrowed when there is nothing
/// to drop or decode.
///
/// A last segment of parameters alone counts as a trailing slash (`/app/;jsessionid=1` is a
/// directory to those who know parameters). Elsewhere such a segment is an error: it would be an
/// empty one, which some upstreams skip and others look up, and nobody sends it in good faith.
///
/// # Errors
///
/// [`PathError::OnlyParameters`] and [`PathError::DotParameters`].
pub fn for_matching(normal: &str) -> Result<Cow<'_, str>, PathError> {
    let bytes = normal.as_bytes();
    let changes = bytes.iter().enumerate().any(|(at, byte)| match byte {
        b';' => true,
        b'%' => punctuation_at(&bytes[at..]).is_some(),
        _ => false,
    });
    if !changes {
        return Ok(Cow::Borrowed(normal));
    }

    let mut out = String::with_capacity(normal.len());
    let mut rest = normal;
    while let Some(at) = rest.find([';', '%']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(parameters) = from.strip_prefix(';') {
            rest = &parameters[parameters.find('/').unwrap_or(parameters.len())..];
            match out.rsplit('/').next() {
                Some("") if !rest.is_empty() => return Err(PathError::OnlyParameters),
                Some("." | "..") => return Err(PathError::DotParameters),
                _ => {}
            }
        } else if let Some(punctuation) = punctuation_at(from.as_bytes()) {
            out.push(char::from(punctuation));
            rest = &from[3..];
        } else {
            out.push('%');
            rest = &from[1..];
        }
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// Whether a path is in normal form. False where it cannot have one: [`rewrite`] says why.
fn is_normal(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        rest = match CLASSES[usize::from(*byte)] {
            Class::Plain => tail,
            Class::Slash if !opens_with_oddity(tail) => tail,
            Class::Percent => match tail {
                [high, low, after @ ..] if stays_encoded(*high, *low) => after,
                _ => return false,
            },
            Class::Slash | Class::Escape | Class::Refuse => return false,
        };
    }
    true
}

/// Whether the segment that begins here is empty and not the last one, or is a dot segment, be it
/// with parameters.
fn opens_with_oddity(rest: &[u8]) -> bool {
    matches!(
        rest,
        [b'/', ..]
            | [b'.']
            | [b'.', b'/' | b';', ..]
            | [b'.', b'.']
            | [b'.', b'.', b'/' | b';', ..]
    )
}

/// Whether a percent sequence is what the normal form has.
fn stays_encoded(high: u8, low: u8) -> bool {
    match (hex_value(high), hex_value(low)) {
        (Some(h), Some(l)) => {
            let byte = h << 4 | l;
            high == HEX[usize::from(h)]
                && low == HEX[usize::from(l)]
                && !is_unreserved(byte)
                && !matches!(byte, 0 | b'/' | b'\\')
        }
        _ => false,
    }
}

/// The normal form of a path that is not in it. The path is not empty.
fn rewrite(path: &[u8]) -> Result<String, PathError> {
    let Some(path) = path.strip_prefix(b"/") else {
        return Err(PathError::NotAbsolute);
    };
    // Between segments `out` ends with a slash, so merged slashes and dot segments add nothing.
    let mut out = String::with_capacity(path.len() + 16);
    out.push('/');
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let start = out.len();
        push_segment(&mut out, segment)?;
        let written = &out[start..];
        match written {
            "" => {}
            "." => out.truncate(start),
            ".." => {
                let parent = out[..start - 1].rfind('/').ok_or(PathError::AboveRoot)?;
                out.truncate(parent + 1);
            }
            _ if written.starts_with(".;") || written.starts_with("..;") => {
                return Err(PathError::DotParameters);
            }
            _ if segments.peek().is_some() => out.push('/'),
            _ => {}
        }
    }
    Ok(out)
}

/// Appends one segment, decoded and encoded as the normal form wants it.
fn push_segment(out: &mut String, segment: &[u8]) -> Result<(), PathError> {
    let mut rest = segment;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match CLASSES[usize::from(*byte)] {
            // The segment was cut at slashes.
            Class::Plain | Class::Slash => out.push(char::from(*byte)),
            Class::Escape => push_encoded(out, *byte),
            Class::Refuse if *byte == b'\\' => return Err(PathError::Backslash),
            Class::Refuse => return Err(PathError::Forbidden(*byte)),
            Class::Percent => {
                let (encoded, after) = sequence(tail).ok_or(PathError::BadPercent)?;
                rest = after;
                match encoded {
                    0 => return Err(PathError::Encoded("NUL (%00)")),
                    b'/' => return Err(PathError::Encoded("slash (%2F)")),
                    b'\\' => return Err(PathError::Encoded("backslash (%5C)")),
                    _ if is_unreserved(encoded) => out.push(char::from(encoded)),
                    _ => push_encoded(out, encoded),
                }
            }
        }
    }
    Ok(())
}

fn push_encoded(out: &mut String, byte: u8) {
    out.push('%');
    out.push(char::from(HEX[usize::from(byte >> 4)]));
    out.push(char::from(HEX[usize::from(byte & 15)]));
}

/// The byte that two hexadecimal digits stand for, and what comes after them.
fn sequence(digits: &[u8]) -> Option<(u8, &[u8])> {
    match digits {
        [high, low, after @ ..] => Some((hex_value(*high)? << 4 | hex_value(*low)?, after)),
        _ => None,
    }
}

/// The character that the percent sequence here stands for, if it is one that need not be encoded.
fn punctuation_at(from: &[u8]) -> Option<u8> {
    let (byte, _) = sequence(from.strip_prefix(b"%")?)?;
    is_plain_punctuation(byte).then_some(byte)
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// RFC 3986, section 2.3: encoded or not, these are the same character.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What a segment may hold unencoded besides, without `;`, which has a meaning of its own. The
/// encoded spelling is kept when forwarding, for to RFC 3986 it is another path.
const fn is_plain_punctuation(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b':' | b'=' | b'@'
    )
}

#[cfg(test)]
mod tests;
