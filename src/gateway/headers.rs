//! What a client sees of its limit: the rate headers of a response.
//!
//! Two families can be sent: `X-RateLimit-*` as they are in wide use, and `RateLimit` and
//! `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10. `X-RateLimit-Remaining` is
//! always sent. What an upstream sends under these names is replaced.

use http::{HeaderName, HeaderValue};
use pingora::http::ResponseHeader;

use super::text::Text;
use crate::config;
use crate::limit::Decision;

#[cfg(test)]
mod tests;

const LIMIT: &str = "X-RateLimit-Limit";
const REMAINING: &str = "X-RateLimit-Remaining";
const RESET: &str = "X-RateLimit-Reset";
const DRAFT: &str = "RateLimit";
const DRAFT_POLICY: &str = "RateLimit-Policy";
const RETRY_AFTER: &str = "Retry-After";

/// What a response from an upstream must not say where a family is not sent. What is sent replaces
/// the upstream's own.
const OF_X_RATELIMIT: [HeaderName; 2] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-reset"),
];
const OF_DRAFT: [HeaderName; 2] = [
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
];

/// The rate headers of one decision, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateHeaders {
    /// Whole tokens of a full bucket.
    pub limit: u64,
    /// Whole tokens left.
    pub remaining: u64,
    /// Seconds until the bucket is full.
    pub reset: u64,
    /// Seconds that it takes to fill an empty bucket.
    pub window: u64,
    /// Seconds until there is more: for a rejected request until it would pass, else until the
    /// next token; `None` where the bucket is full.
    pub more_in: Option<u64>,
    /// Seconds after which a rejected request would pass.
    pub retry_after: Option<u64>,
}

impl RateHeaders {
    /// What to tell of `decision`. Where it is over the limit and forwarded all the same, there is
    /// no time to come back.
    pub fn of(decision: &Decision, rejected: bool) -> Self {
        let retry_after = decision.retry_after_seconds();
        Self {
            limit: decision.limit(),
            remaining: decision.remaining(),
            reset: decision.seconds_to_full(),
            window: decision.window_seconds(),
            more_in: if rejected {
                retry_after
            } else {
                decision.seconds_to_next_token()
            },
            retry_after: retry_after.filter(|_| rejected),
        }
    }

    /// Writes them on a response, in place of any that are there.
    ///
    /// # Errors
    ///
    /// Where the header map is full, which a response from an upstream may bring about.
    pub fn write(
        &self,
        families: &config::Headers,
        response: &mut ResponseHeader,
    ) -> pingora::Result<()> {
        response.insert_header(REMAINING, number(self.remaining))?;
        if families.x_ratelimit {
            response.insert_header(LIMIT, number(self.limit))?;
            response.insert_header(RESET, number(self.reset))?;
        } else {
            remove(&OF_X_RATELIMIT, response);
        }
        if families.draft {
            let quota = Text::new().text("\"default\";q=").number(self.limit);
            let policy = quota.text(";w=").number(self.window);
            response.insert_header(DRAFT_POLICY, policy.value())?;
            let left = Text::new().text("\"default\";r=").number(self.remaining);
            let state = match self.more_in {
                Some(seconds) => left.text(";t=").number(seconds),
                None => left,
            };
            response.insert_header(DRAFT, state.value())?;
        } else {
            remove(&OF_DRAFT, response);
        }
        if let Some(seconds) = self.retry_after {
            response.insert_header(RETRY_AFTER, number(seconds))?;
        }
        Ok(())
    }
}

fn remove(names: &[HeaderName], response: &mut ResponseHeader) {
    for name in names {
        response.remove_header(name);
    }
}

fn number(value: u64) -> HeaderValue {
    Text::new().number(value).value()
}
