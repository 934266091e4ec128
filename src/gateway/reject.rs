//! The answers that Aforo gives itself, as `application/problem+json` (RFC 9457), or to a gRPC client
//! as a status of its own kind.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use pingora::http::ResponseHeader;
use pingora_proxy::Session;
use std::time::Duration;

use super::headers::RateHeaders;
use crate::config;

/// A request body up to this size is read and dropped, so that the connection can go on. What is
/// larger, or of unknown size, is not worth reading for a request that is not served.
const SMALL_BODY: u64 = 64 * 1024;

/// How long reading such a body may take.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// Why a request is not served by its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The path cannot be brought into its normal form.
    BadPath,
    /// No route matches.
    NoRoute,
    /// A route matches, but not for this method.
    MethodNotAllowed,
    /// There is no telling who asks.
    Unauthorized,
    /// Over the limit.
    Limited,
    /// Costs more than a full bucket holds: no use in coming back.
    Oversized,
    /// A limit too small to be split between regions, and held in another one.
    Elsewhere,
    /// The store is away, and the rule wants no request to pass without it.
    StoreAway,
    /// The client was too slow with its request's body.
    RequestTimeout,
    /// The request or its framing makes no sense.
    BadRequest,
    /// The upstream cannot be reached, or broke off.
    BadGateway,
    /// The upstream is too slow.
    GatewayTimeout,
    /// A fault of the gateway itself.
    Internal,
}

/// A whole answer.
pub struct Rejection<'r> {
    /// What it is for.
    pub reason: Reason,
    /// The rate headers, where a decision was made.
    pub rate: Option<RateHeaders>,
    /// For a method that is not allowed: those that are.
    pub allow: Option<String>,
    /// For a request without a tenant: how to say who one is.
    pub challenge: Option<&'r str>,
}

macro_rules! problem {
    ($status:literal, $kind:literal, $title:literal, $detail:literal $(, $more:literal)?) => {
        concat!(
            r#"{"type":""#, $kind, r#"","title":""#, $title, r#"","status":"#, $status,
            r#","detail":""#, $detail, r#"""#, $(",", $more,)? "}\n"
        )
    };
}

impl Reason {
    /// The status that the client sees.
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadPath | Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Limited | Self::Oversized | Self::Elsewhere => StatusCode::TOO_MANY_REQUESTS,
            Self::StoreAway => StatusCode::SERVICE_UNAVAILABLE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::GatewayTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether it is the upstream that failed. The request was within its limit then, and the
    /// answer says what is left of it.
    pub fn is_upstreams(self) -> bool {
        matches!(self, Self::BadGateway | Self::GatewayTimeout)
    }

    /// The problem as JSON. Constant, so that a client that hammers its limit costs no text.
    fn body(self) -> &'static str {
        match self {
            Self::BadPath => problem!(
                400,
                "about:blank",
                "Bad Request",
                "The path cannot be brought into one normal form."
            ),
            Self::BadRequest => problem!(
                400,
                "about:blank",
                "Bad Request",
                "The request is malformed."
            ),
            Self::NoRoute => problem!(
                404,
                "about:blank",
                "Not Found",
                "No route matches this host and path."
            ),
            Self::MethodNotAllowed => problem!(
                405,
                "about:blank",
                "Method Not Allowed",
                "This path is not served for this method; see Allow."
            ),
            Self::Unauthorized => problem!(
                401,
                "about:blank",
                "Unauthorized",
                "The request carries no valid API key."
            ),
            Self::Limited => problem!(
                429,
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Too Many Requests",
                "The rate limit of this API key on this route is reached; see Retry-After.",
                r#""violated-policies":["default"]"#
            ),
            Self::Oversized => problem!(
                429,
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Too Many Requests",
                "This request costs more than the rate limit ever allows at once.",
                r#""violated-policies":["default"]"#
            ),
            Self::Elsewhere => problem!(
                429,
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Too Many Requests",
                "The rate limit of this API key on this route is too small to be split between regions, and is held in another one.",
                r#""violated-policies":["default"]"#
            ),
            Self::StoreAway => problem!(
                503,
                "about:blank",
                "Service Unavailable",
                "The rate limit cannot be checked for the moment; see Retry-After."
            ),
            Self::RequestTimeout => problem!(
                408,
                "about:blank",
                "Request Timeout",
                "The request's body did not arrive in time."
            ),
            Self::BadGateway => problem!(
                502,
                "about:blank",
                "Bad Gateway",
                "The upstream cannot be reached or broke off."
            ),
            Self::GatewayTimeout => problem!(
                504,
                "about:blank",
                "Gateway Timeout",
                "The upstream did not answer in time."
            ),
            Self::Internal => problem!(
                500,
                "about:blank",
                "Internal Server Error",
                "The gateway failed to handle the request."
            ),
        }
    }
}

/// Whether a request of this content type is a call of gRPC, and not of one of its kin for browsers.
fn is_grpc(content_type: &HeaderValue) -> bool {
    let rest = content_type.as_bytes().strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

impl Reason {
    /// The status that a gRPC client sees (grpc/doc/statuscodes.md). Of HTTP's it would make less:
    /// UNAVAILABLE of a 429.
    fn grpc_status(self) -> &'static str {
        match self {
            Self::BadPath | Self::BadRequest => "3", // INVALID_ARGUMENT
            Self::GatewayTimeout | Self::RequestTimeout => "4", // DEADLINE_EXCEEDED
            Self::Limited | Self::Oversized | Self::Elsewhere => "8", // RESOURCE_EXHAUSTED
            Self::NoRoute | Self::MethodNotAllowed => "12", // UNIMPLEMENTED
            Self::Internal => "13",                  // INTERNAL
            Self::StoreAway | Self::BadGateway => "14", // UNAVAILABLE
            Self::Unauthorized => "16",              // UNAUTHENTICATED
        }
    }

    /// What a gRPC client is told in words.
    fn grpc_message(self) -> &'static str {
        match self {
            Self::BadPath => "the path cannot be brought into one normal form",
            Self::BadRequest => "the request is malformed",
            Self::GatewayTimeout => "the upstream did not answer in time",
            Self::RequestTimeout => "the request did not arrive in time",
            Self::Limited => "the rate limit is reached, see retry-after",
            Self::Oversized => "the call costs more than the rate limit ever allows at once",
            Self::Elsewhere => {
                "the rate limit is too small to be split between regions, and held in another one"
            }
            Self::NoRoute => "no route matches this host and path",
            Self::MethodNotAllowed => "this path is not served for this method",
            Self::Internal => "the gateway failed to handle the call",
            Self::StoreAway => "the rate limit cannot be checked for the moment",
            Self::BadGateway => "the upstream cannot be reached or broke off",
            Self::Unauthorized => "the call carries no valid API key",
        }
    }

    /// An answer of trailers alone (grpc/doc/PROTOCOL-HTTP2.md, "Trailers-Only").
    fn grpc_response(self) -> pingora::Result<ResponseHeader> {
        let mut response = ResponseHeader::build(StatusCode::OK, Some(10))?;
        response.insert_header(header::CONTENT_TYPE, "application/grpc")?;
        response.insert_header("grpc-status", self.grpc_status())?;
        response.insert_header("grpc-message", self.grpc_message())?;
        Ok(response)
    }
}

impl Rejection<'_> {
    /// A rejection that says its reason and no more.
    pub fn new(reason: Reason) -> Self {
        Self {
            reason,
            rate: None,
            allow: None,
            challenge: None,
        }
    }

    /// Writes the answer. The connection stays open where the request's body is read or small.
    ///
    /// # Errors
    ///
    /// Where the client is gone.
    pub async fn write(
        &self,
        session: &mut Session,
        families: &config::Headers,
    ) -> pingora::Result<()> {
        let grpc = session
            .get_header(header::CONTENT_TYPE)
            .is_some_and(is_grpc);
        let body = if grpc { "" } else { self.reason.body() };
        let mut response = if grpc {
            let mut response = self.reason.grpc_response()?;
            if !session.is_http2() {
                response.set_content_length(0)?;
            }
            response
        } else {
            let mut response = ResponseHeader::build(self.reason.status(), Some(10))?;
            response.insert_header(header::CONTENT_TYPE, "application/problem+json")?;
            response.set_content_length(body.len())?;
            response
        };
        if let Some(rate) = &self.rate {
            rate.write(families, &mut response)?;
        }
        if let Some(methods) = &self.allow {
            response.insert_header("Allow", methods.as_str())?;
        }
        if let Some(challenge) = self.challenge {
            response.insert_header("WWW-Authenticate", challenge)?;
        }
        if self.reason == Reason::StoreAway {
            response.insert_header(header::RETRY_AFTER, "1")?;
        }
        keep_open_past_a_small_body(session);
        // With HTTP/2 the end of the header is that of the answer then, which is what makes its
        // header the trailers.
        let headless = session.req_header().method == Method::HEAD || body.is_empty();
        session
            .write_response_header(Box::new(response), headless)
            .await?;
        if !headless {
            let body = Bytes::from_static(body.as_bytes());
            session.write_response_body(Some(body), true).await?;
        }
        Ok(())
    }
}

/// Pingora closes a connection when it answers before the request's body was read. A small one is
/// cheaper to read than a new connection is to make.
fn keep_open_past_a_small_body(session: &mut Session) {
    // Who waits to be told to go on will not send the body now, and must not send the next request
    // in its place.
    if session.is_body_done() || session.get_header(header::EXPECT).is_some() {
        return;
    }
    let declared = session
        .get_header(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    if declared.is_some_and(|length| length <= SMALL_BODY) {
        session.set_close_on_response_before_downstream_finish(false);
        session.set_total_drain_timeout(Some(DRAIN_WITHIN));
    }
}
