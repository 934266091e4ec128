//! The programmable seam: what the limiter is asked about a request is code.
//!
//! A gateway is built for one [`Policy`], known when it is compiled, so that asking costs a call
//! and no more. The trait's own answers do what the configuration says; [`YamlPolicy`] has nothing
//! else, and `examples/policy.rs` shows another one. A policy does no I/O: it is asked on every
//! request, between the header and the limiter.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, Method};

use super::tenant;
pub use super::tenant::{MAX_TENANT_BYTES, Unauthorized};
use crate::config;

/// What a policy sees of a request.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    pub(super) method: &'r Method,
    pub(super) path: &'r str,
    pub(super) headers: &'r HeaderMap,
    pub(super) peer: Option<IpAddr>,
    pub(super) settings: &'r config::Tenant,
}

/// What a policy sees of the route that a request matched.
#[derive(Clone, Copy)]
pub struct Route<'r> {
    pub(super) id: &'r str,
    pub(super) cost: u32,
}

/// Whether a request's limit is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The limiter is not asked, and the response carries no rate headers.
    Exempt,
    /// Decided and counted, never rejected.
    Shadow,
    /// Over the limit is rejected.
    #[default]
    Enforce,
}

/// Answers what the limiter has to know of a request.
pub trait Policy: Send + Sync + 'static {
    /// Who asks: the name whose buckets the request is held to, from 1 to [`MAX_TENANT_BYTES`]
    /// bytes long. Unless overridden, the value of the header `tenant.header`.
    ///
    /// # Errors
    ///
    /// Where there is no telling. The request is then answered with 401, and goes no further.
    fn tenant<'r>(&self, request: &Request<'r>) -> Result<Cow<'r, str>, Unauthorized> {
        request.key().map(Cow::Borrowed)
    }

    /// How many tokens the request takes; for 0 the limiter is not asked. Unless overridden, the
    /// route's `cost`.
    ///
    /// A request that costs more than a full bucket holds is rejected, for it can never pass.
    fn cost(&self, _request: &Request<'_>, route: &Route<'_>) -> u32 {
        route.cost()
    }

    /// Whether the limit is enforced. What `limits.mode` and the rule say holds too: of the three,
    /// the most lenient one counts.
    fn mode(&self, _request: &Request<'_>, _route: &Route<'_>) -> Mode {
        Mode::Enforce
    }
}

/// The policy of the configuration file.
#[derive(Clone, Copy, Debug, Default)]
pub struct YamlPolicy;

impl Policy for YamlPolicy {}

impl<'r> Request<'r> {
    /// The method.
    pub fn method(&self) -> &'r Method {
        self.method
    }

    /// The path in its normal form, without the query.
    pub fn path(&self) -> &'r str {
        self.path
    }

    /// All headers, as the client sent them.
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The address that the connection comes from. Many clients may share it.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The key in the header that `tenant.header` names.
    ///
    /// # Errors
    ///
    /// Where there is none, more than one, or one that is empty, longer than
    /// [`MAX_TENANT_BYTES`] or not visible ASCII.
    pub fn key(&self) -> Result<&'r str, Unauthorized> {
        tenant::key(self.headers, &self.settings.header)
    }
}

impl<'r> Route<'r> {
    /// The route's `id`.
    pub fn id(&self) -> &'r str {
        self.id
    }

    /// The route's `cost`, in tokens.
    pub fn cost(&self) -> u32 {
        self.cost
    }
}
