//! How much each tenant may ask for, and what is said and done where that is not enough.

use serde::Deserialize;

/// How much each tenant may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// What holds where no rule fits.
    pub default_rule: RuleLimits,
    /// The rules of the file, in its order; no two for the same tenant and route.
    pub rules: Vec<Rule>,
    /// Which families of response headers are sent.
    pub headers: Headers,
    /// Whether requests over the limit are rejected.
    pub mode: Mode,
    /// The largest number of tokens that a gateway asks for at once. 0: no leases.
    pub prefetch_batch: u32,
    /// The bound on the buckets of this process, at least 1: each takes about 200 bytes. Needs a new process.
    pub max_local_buckets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            default_rule: RuleLimits::default(),
            rules: Vec::new(),
            headers: Headers::default(),
            mode: Mode::default(),
            prefetch_batch: 50,
            max_local_buckets: 1_000_000,
        }
    }
}

/// A bucket's size and its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuleLimits {
    /// Tokens that the bucket holds when it is full, 1 to 2147483647 (PostgreSQL's `int`).
    pub capacity: u32,
    /// Tokens that flow in each second, 1e-9 to 1e9; may be a fraction.
    pub refill_per_second: f64,
}

impl Default for RuleLimits {
    fn default() -> Self {
        Self {
            capacity: 20,
            refill_per_second: 10.0,
        }
    }
}

/// The limits of one tenant on one route.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// 1 to 64 visible ASCII characters, or `*` for every tenant.
    pub tenant: String,
    /// The id of a route that exists, or `*` for every route, each with its own bucket. Not `*` where the tenant
    /// is `*` too: that is the default rule.
    pub route: String,
    /// The bucket.
    pub limits: RuleLimits,
    /// Whether it only decides and counts, and never rejects.
    pub shadow: bool,
    /// Into how many sub-buckets a hot bucket is split, at least 1.
    pub shards: u32,
    /// What happens while the store is away.
    pub on_store_failure: OnStoreFailure,
    /// How many requests may be in flight at once. None: any number.
    pub concurrency: Option<u32>,
}

/// What happens to requests while the store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreFailure {
    /// Each gateway decides on its share of the limit. The default.
    #[default]
    Local,
    /// Everything passes.
    Open,
    /// Nothing passes.
    Closed,
}

/// Which families of response headers are sent; both by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// `X-RateLimit-Limit` and `X-RateLimit-Reset` (`X-RateLimit-Remaining` is always sent).
    pub x_ratelimit: bool,
    /// `RateLimit` and `RateLimit-Policy` of the IETF draft.
    pub draft: bool,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            x_ratelimit: true,
            draft: true,
        }
    }
}

/// Whether limits are in force: the operator's emergency switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything is forwarded, nothing is decided.
    Off,
    /// Decide and count, never reject.
    Shadow,
    /// Reject what is over the limit. The default.
    #[default]
    Enforce,
}

impl Mode {
    /// The mode as the file writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }
}
