//! Why a server does not take us, in one line that says what would be right.

use ::redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// Why there is no connection that is fit for takes.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The user or the password.
    #[error("user or password is wrong: {0}")]
    SignIn(String),
    /// The server wants a password and got none.
    #[error("the server asks for a password, and the URL has none: {0}")]
    NoPassword(String),
    /// The user lacks a right.
    #[error("the user lacks rights, docs/redis.md has the line that gives them: {0}")]
    Rights(String),
    /// Either side's certificate.
    #[error("TLS failed, see store.redis.tls: {0}")]
    Tls(String),
    /// The server does not know flags in scripts.
    #[error("this server is too old: Aforo needs Redis 7.0 or later, or Valkey ({0})")]
    TooOld(String),
    /// A member of a cluster that is taken for a stand-alone server, or the other way round.
    #[error("{0}")]
    Kind(&'static str),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    /// What an error while connecting means, `tls` saying whether over TLS.
    pub(super) fn while_connecting(error: RedisError, tls: bool) -> Self {
        let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
        match Self::of(error) {
            // A server that does not believe a certificate says so late, and hangs up at once.
            Self::Other(text) if tls && hung_up => Self::Tls(format!(
                "the server hung up; it may ask for a client certificate, or not believe ours ({text})"
            )),
            refusal => refusal,
        }
    }

    /// What an error of a server means that is connected.
    pub(super) fn of(error: RedisError) -> Self {
        let text = one_line(&error);
        let is = |kind: ServerErrorKind| error.kind() == kind.into();
        if text.contains("NOAUTH") {
            Self::NoPassword(text)
        } else if text.contains("WRONGPASS")
            || error.kind() == ErrorKind::AuthenticationFailed
            || text.contains("AUTH")
        {
            Self::SignIn(text)
        } else if is(ServerErrorKind::NoPerm)
            || text.contains("NOPERM")
            || text.contains("ACL failure")
        {
            Self::Rights(text)
        } else if is(ServerErrorKind::Moved) {
            Self::Kind("this server is a member of a cluster: redis+cluster:// is its scheme")
        } else if text.contains("compiling script") {
            Self::TooOld(text)
        } else if text.contains("certificate")
            || text.contains("Certificate")
            || text.contains("corrupt message")
            || text.contains("HandshakeFailure")
            || text.contains("received fatal alert")
        {
            Self::Tls(text)
        } else if text.contains("cluster support disabled") {
            Self::Kind("this server is no member of a cluster: redis:// is its scheme")
        } else {
            Self::Other(text)
        }
    }
}

/// An error's text with its causes' words, on one line.
fn one_line(error: &RedisError) -> String {
    let text = error.to_string();
    text.lines().collect::<Vec<_>>().join(" ")
}
