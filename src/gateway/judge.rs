//! The judgement on one request: which route, which tenant, and whether it may pass.
//!
//! The order is fixed: a path without a normal form is 400, no route 404 or 405, no tenant 401,
//! and only then is the limiter asked. Nothing is written here; the verdict says what to write.

use std::net::IpAddr;

use http::{HeaderValue, Uri, Version, header};
use pingora::http::RequestHeader;

use super::context::Outcome;
use super::headers::RateHeaders;
use super::policy::{self, Mode, Policy};
use super::reject::{Reason, Rejection};
use super::routes::Match;
use super::snapshot::Snapshot;
use super::{path, tenant};
use crate::limit::{BucketKey, Limiter, Rule, Source};
use crate::rules::share;
use crate::store::Store;

/// What is to be done with a request.
pub struct Verdict<'s> {
    /// The place of the matched route.
    pub route: Option<usize>,
    /// Who asks.
    pub tenant: Option<HeaderValue>,
    /// What the response says of the limit.
    pub rate: Option<RateHeaders>,
    /// How it is counted.
    pub outcome: Outcome,
    /// The normal form of path and query, where it differs from what was sent.
    pub rewritten: Option<Vec<u8>>,
    /// The answer, unless the request is forwarded.
    pub rejection: Option<Rejection<'s>>,
}

impl<'s> Verdict<'s> {
    fn rejected(outcome: Outcome, rejection: Rejection<'s>) -> Self {
        Self {
            route: None,
            tenant: None,
            rate: None,
            outcome,
            rewritten: None,
            rejection: Some(rejection),
        }
    }
}

/// Judges a request by its header.
pub async fn judge<'s, P: Policy>(
    policy: &P,
    limiter: &Limiter<Store>,
    snapshot: &'s Snapshot,
    request: &RequestHeader,
    peer: Option<IpAddr>,
) -> Verdict<'s> {
    if request.version == Version::HTTP_11 && host(request).is_none() {
        return Verdict::rejected(Outcome::Error, Rejection::new(Reason::BadRequest));
    }
    let Some((raw_path, query)) = target(request) else {
        return Verdict::rejected(Outcome::Error, Rejection::new(Reason::BadPath));
    };
    let Ok(normal) = path::normalize(raw_path) else {
        return Verdict::rejected(Outcome::Error, Rejection::new(Reason::BadPath));
    };
    let Ok(matched) = path::for_matching(&normal) else {
        return Verdict::rejected(Outcome::Error, Rejection::new(Reason::BadPath));
    };
    let found = snapshot
        .router
        .find(&request.method, host(request), &matched);
    let (place, route) = match found {
        Match::Route(place) => (place, &snapshot.routes[place]),
        Match::MethodNotAllowed { allow } => {
            let mut rejection = Rejection::new(Reason::MethodNotAllowed);
            rejection.allow = Some(allow);
            return Verdict::rejected(Outcome::NoRoute, rejection);
        }
        Match::NotFound => {
            return Verdict::rejected(Outcome::NoRoute, Rejection::new(Reason::NoRoute));
        }
    };

    let mut verdict = Verdict {
        route: Some(place),
        tenant: None,
        rate: None,
        outcome: Outcome::Allowed,
        rewritten: rewritten(request, &normal, query),
        rejection: None,
    };
    let asked = policy::Request {
        method: &request.method,
        path: &normal,
        headers: &request.headers,
        peer,
        settings: &snapshot.tenant,
    };
    let of_route = policy::Route {
        id: &route.id,
        cost: route.cost,
    };
    let Ok(name) = policy
        .tenant(&asked)
        .and_then(|name| tenant::check(&name).map(|()| name))
    else {
        let mut rejection = Rejection::new(Reason::Unauthorized);
        rejection.challenge = Some(&snapshot.challenge);
        verdict.outcome = Outcome::Unauthorized;
        verdict.rejection = Some(rejection);
        return verdict;
    };
    if snapshot.tells_tenant() {
        verdict.tenant = tenant::header_value(&name);
    }

    let cost = policy.cost(&asked, &of_route);
    let rule = snapshot.rules.find(&name, &route.id, route.cost);
    let mode = mode_of(snapshot, rule, policy.mode(&asked, &of_route));
    if cost > 0 && mode > Mode::Exempt {
        let key = BucketKey {
            tenant: &name,
            route: &route.id,
        };
        let rule = match &snapshot.rules.region {
            None => *rule,
            Some(region) => region.hold(&key, rule, route.cost, cost),
        };
        decide(limiter, &key, &rule, cost, mode, &mut verdict).await;
    }
    verdict
}

/// Asks the limiter, and writes what it says into the verdict.
async fn decide(
    limiter: &Limiter<Store>,
    key: &BucketKey<'_>,
    rule: &Rule,
    cost: u32,
    mode: Mode,
    verdict: &mut Verdict<'_>,
) {
    let decision = limiter.decide(key, rule, cost).await;
    if decision.source == Source::Closed {
        // Nobody knows what is left, so nothing is said of it.
        if mode == Mode::Enforce {
            verdict.outcome = Outcome::Error;
            verdict.rejection = Some(Rejection::new(Reason::StoreAway));
        }
        return;
    }
    let rejected = !decision.allowed && mode == Mode::Enforce;
    let rate = RateHeaders::of(&decision, rejected);
    verdict.rate = Some(rate);
    if rejected {
        let mut rejection = Rejection::new(match decision.source {
            Source::Oversized if share::is_elsewhere(rule) => Reason::Elsewhere,
            Source::Oversized => Reason::Oversized,
            _ => Reason::Limited,
        });
        rejection.rate = Some(rate);
        verdict.outcome = Outcome::Limited;
        verdict.rejection = Some(rejection);
    } else if !decision.allowed {
        verdict.outcome = Outcome::ShadowLimited;
    }
}

/// The most lenient of what the configuration, the rule and the policy say.
fn mode_of(snapshot: &Snapshot, rule: &Rule, policy: Mode) -> Mode {
    let of_rule = if rule.shadow {
        Mode::Shadow
    } else {
        Mode::Enforce
    };
    snapshot.mode.min(of_rule).min(policy)
}

/// The host that is asked for, as it was sent.
fn host(request: &RequestHeader) -> Option<&str> {
    let of_uri = request.uri.authority().map(|authority| authority.as_str());
    let of_header = || request.headers.get(header::HOST)?.to_str().ok();
    of_uri.or_else(of_header)
}

/// Path and query of what was asked for, also where that is a whole URL.
fn target(request: &RequestHeader) -> Option<(&[u8], Option<&[u8]>)> {
    let raw = request.raw_path();
    if raw.first() != Some(&b'/') {
        // A whole URL: Pingora keeps its path apart, but only where it is text.
        let uri: &Uri = &request.uri;
        return (request.raw_path_is_utf8() && uri.path().starts_with('/'))
            .then(|| (uri.path().as_bytes(), uri.query().map(str::as_bytes)));
    }
    Some(match raw.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&raw[..mark], Some(&raw[mark + 1..])),
        None => (raw, None),
    })
}

/// What the upstream is asked for, where that differs from what was sent. The query goes on as it
/// came.
fn rewritten(request: &RequestHeader, normal: &str, query: Option<&[u8]>) -> Option<Vec<u8>> {
    let raw = request.raw_path();
    let query_length = query.map_or(0, |query| query.len() + 1);
    if raw.len() == normal.len() + query_length && raw.starts_with(normal.as_bytes()) {
        return None;
    }
    let mut target = Vec::with_capacity(normal.len() + query_length);
    target.extend_from_slice(normal.as_bytes());
    if let Some(query) = query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    Some(target)
}
