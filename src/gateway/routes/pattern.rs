//! The paths that routes may have: `/orders`, `/orders/{id}`, `/orders/*`, `/*`.
//!
//! Literal segments are brought to the form in which requests are matched, so a route may be written
//! with `é` or with `%C3%A9`, and what no request can look like is refused instead of never matching.

use crate::gateway::path::{self, PathError};

/// What is wrong with the path of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It has no `/` at its start.
    #[error("must begin with /")]
    NotAbsolute,
    /// It ends with a slash, which would match nothing: requests lose theirs.
    #[error(
        "must not end with /: without it the path matches both spellings, with /* it matches what lies below"
    )]
    TrailingSlash,
    /// Two slashes in a row, which no request has: they are merged.
    #[error("has an empty segment")]
    EmptySegment,
    /// `.` or `..` as a segment, which no request has.
    #[error("has a segment . or ..")]
    DotSegment,
    /// `*` elsewhere than as the whole last segment.
    #[error("may have * only as its whole last segment, as in /orders/*")]
    Wildcard,
    /// A brace that is not part of a segment `{name}`.
    #[error(
        "may have braces only around a whole segment, as in /orders/{{id}}, where the name is of letters, digits, - and _"
    )]
    Braces,
    /// A `;`, which no request has when it is matched.
    #[error("has a ;, but requests are matched without their parameters")]
    Parameters,
    /// A `?` or `#`.
    #[error("has a ? or #, but only the path is matched")]
    Query,
    /// A request with this path would be answered with 400.
    #[error("would match nothing, for requests with it are refused: {0}")]
    Refused(PathError),
}

/// A segment of a route's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// This text, in the form that is matched.
    Literal(Box<str>),
    /// `{name}`: any one segment.
    Param,
}

/// A route's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) segments: Vec<Segment>,
    /// Whether `/*` follows them.
    pub(super) rest: bool,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        // What follows keeps the slash before each segment.
        let (text, rest) = match text.strip_suffix("/*") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let segments = match text {
            "" if rest => Vec::new(),
            "/" if !rest => Vec::new(),
            _ if !rest && text.ends_with('/') => return Err(PatternError::TrailingSlash),
            _ => text
                .strip_prefix('/')
                .ok_or(PatternError::NotAbsolute)?
                .split('/')
                .map(segment)
                .collect::<Result<_, _>>()?,
        };
        Ok(Self { segments, rest })
    }
}

fn segment(text: &str) -> Result<Segment, PatternError> {
    if let Some(name) = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        return if !name.is_empty() && name.bytes().all(fine) {
            Ok(Segment::Param)
        } else {
            Err(PatternError::Braces)
        };
    }
    let wrong = text.bytes().find_map(|byte| match byte {
        b'{' | b'}' => Some(PatternError::Braces),
        b'*' => Some(PatternError::Wildcard),
        b';' => Some(PatternError::Parameters),
        b'?' | b'#' => Some(PatternError::Query),
        _ => None,
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    if text.is_empty() {
        return Err(PatternError::EmptySegment);
    }
    let alone = format!("/{text}");
    let normal = match path::normalize(alone.as_bytes()) {
        Err(PathError::AboveRoot) => return Err(PatternError::DotSegment),
        normal => normal.map_err(PatternError::Refused)?,
    };
    let matched = path::for_matching(&normal).map_err(PatternError::Refused)?;
    match matched.strip_prefix('/') {
        None | Some("") => Err(PatternError::DotSegment),
        Some(literal) => Ok(Segment::Literal(literal.into())),
    }
}
