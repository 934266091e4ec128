//! Finds the route of a request by method, host and path.
//!
//! The most specific route wins: an exact host before a wildcard (the longest first) before none;
//! then a literal segment before `{param}` before `*`, compared from the left. Only routes that
//! admit the method take part, so `GET /orders/special` goes to `/orders/{id}` when the literal
//! route is for POST alone. A trailing slash is no way around a limit: `/orders/` is `/orders`
//! unless a route `/orders/*` asks for it.
//!
//! There is one segment trie per host and not matchit's radix trie: matchit 0.8 refuses
//! `/orders/{id}` beside `/orders/*`, knows nothing of methods, so that it could not pass over a
//! route that does not admit one, and its `{*rest}` does not match `/orders/` itself.
//!
//! Paths come in the form that [`super::path::for_matching`] gives. The router answers with an
//! index and knows nothing of upstreams, costs or limits.

use std::collections::HashMap;

use http::Method;

use self::host::HostPattern;
use self::pattern::Pattern;
use self::tree::{Leaf, Target, Tree};

mod host;
mod pattern;
mod tree;

pub use self::host::HostError;
pub use self::pattern::PatternError;

/// What a route of the configuration asks of a request.
#[derive(Debug, Clone, Copy)]
pub struct RouteSpec<'a> {
    /// The route's name, for errors.
    pub id: &'a str,
    /// The methods that it admits; none: all. GET admits HEAD too.
    pub methods: &'a [Method],
    /// `api.example.com`, or `*.example.com` for all below it at any depth; none: all.
    pub host: Option<&'a str>,
    /// Exact (`/orders`), or with a parameter as a segment (`/orders/{id}`), or with `/*` at its end
    /// for everything below.
    pub path: &'a str,
}

/// What is wrong with a set of routes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The path is none that a route can have.
    #[error("route {id}: path {path:?}: {why}")]
    Path {
        /// The route.
        id: String,
        /// Its path, as given.
        path: String,
        /// What is wrong with it.
        why: PatternError,
    },
    /// The host is none that a route can have.
    #[error("route {id}: host {host:?}: {why}")]
    Host {
        /// The route.
        id: String,
        /// Its host, as given.
        host: String,
        /// What is wrong with it.
        why: HostError,
    },
    /// Two routes of equal rank match the same requests, so neither would win.
    #[error("routes {first} and {second} match the same requests, {requests}")]
    Conflict {
        /// The route that came first.
        first: String,
        /// The one that came later.
        second: String,
        /// A method, where one is named, and the later one's host and path.
        requests: String,
    },
}

/// What a request is in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// The route with this index among those the router was built from.
    Route(usize),
    /// Routes match host and path, but none of them this method.
    MethodNotAllowed {
        /// What they do admit, as the value of the `Allow` header: `GET, HEAD, POST`.
        allow: String,
    },
    /// No route matches host and path.
    NotFound,
}

/// The routes of one configuration, ready to be searched.
#[derive(Debug, Default)]
pub struct Router {
    exact: HashMap<Box<str>, Tree, ahash::RandomState>,
    /// By what follows `*.`.
    wildcard: HashMap<Box<str>, Tree, ahash::RandomState>,
    any_host: Tree,
}

impl Router {
    /// Builds the router. Routes are numbered in the order in which they come.
    ///
    /// # Errors
    ///
    /// The first route that cannot be, or the first two that match the same requests.
    pub fn build<'a>(specs: impl IntoIterator<Item = RouteSpec<'a>>) -> Result<Self, RouteError> {
        let mut router = Self::default();
        let mut ids: Vec<&str> = Vec::new();
        for (index, spec) in specs.into_iter().enumerate() {
            ids.push(spec.id);
            let pattern = Pattern::parse(spec.path).map_err(|why| RouteError::Path {
                id: spec.id.to_owned(),
                path: spec.path.to_owned(),
                why,
            })?;
            let host = spec
                .host
                .map(HostPattern::parse)
                .transpose()
                .map_err(|why| RouteError::Host {
                    id: spec.id.to_owned(),
                    host: spec.host.unwrap_or_default().to_owned(),
                    why,
                })?;
            let tree = match host {
                None => &mut router.any_host,
                Some(HostPattern::Exact(name)) => router.exact.entry(name).or_default(),
                Some(HostPattern::Below(name)) => router.wildcard.entry(name).or_default(),
            };
            tree.leaf_mut(&pattern)
                .admit(spec.methods, index)
                .map_err(|clash| RouteError::Conflict {
                    first: ids.get(clash.with).copied().unwrap_or_default().to_owned(),
                    second: spec.id.to_owned(),
                    requests: match clash.method {
                        Some(method) => {
                            format!("{method} {}{}", spec.host.unwrap_or_default(), spec.path)
                        }
                        None => format!("{}{}", spec.host.unwrap_or_default(), spec.path),
                    },
                })?;
        }
        Ok(router)
    }

    /// Finds the route of a request. `host` is as the client wrote it, with port and all; `path` is
    /// what [`super::path::for_matching`] gave.
    pub fn find(&self, method: &Method, host: Option<&str>, path: &str) -> Match {
        let target = Target::new(path);
        match self.search(host, target, &mut |leaf| leaf.route(method)) {
            Some(index) => Match::Route(index),
            None => self.refuse(host, target),
        }
    }

    /// Why no route was found: the method, or the rest.
    #[cold]
    fn refuse(&self, host: Option<&str>, target: Target<'_>) -> Match {
        let mut allow: Vec<&str> = Vec::new();
        let _: Option<()> = self.search(host, target, &mut |leaf| {
            allow.extend(leaf.methods().map(Method::as_str));
            None
        });
        if allow.is_empty() {
            return Match::NotFound;
        }
        allow.sort_unstable();
        allow.dedup();
        Match::MethodNotAllowed {
            allow: allow.join(", "),
        }
    }

    /// Shows `visit` the leaves that match host and path, the most specific first, until it wants one.
    fn search<'s, T>(
        &'s self,
        host: Option<&str>,
        target: Target<'_>,
        visit: &mut impl FnMut(&'s Leaf) -> Option<T>,
    ) -> Option<T> {
        // Most configurations name no host; they need not look at one.
        if !(self.exact.is_empty() && self.wildcard.is_empty())
            && let Some(name) = host.and_then(host::normal)
        {
            let exact = self.exact.get(&*name);
            let wildcards = host::parents(&name).filter_map(|parent| self.wildcard.get(parent));
            for tree in exact.into_iter().chain(wildcards) {
                if let Some(wanted) = tree.search(target, visit) {
                    return Some(wanted);
                }
            }
        }
        self.any_host.search(target, visit)
    }
}

#[cfg(test)]
mod tests;
