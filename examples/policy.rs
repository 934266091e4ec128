//! A gateway with a policy of its own, in one file.
//!
//! - The tenant is the claim `sub` of the JSON web token in `Authorization: Bearer …`.
//! - A request costs one token, and one more for each KiB of its body.
//! - `GET` on the route `health` is exempt, and needs no token.
//!
//! The token's signature is *not* checked here: that is left to a service in front that checks it
//! once for all. Where there is none, check it in [`JwtPolicy::tenant`].
//!
//! ```sh
//! cargo run --example policy -- conf/aforo.yaml
//! ```

use std::borrow::Cow;
use std::process::ExitCode;

use aforo::{Mode, Policy, Request, Route, Source, Unauthorized};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, header};

/// The route of health checks, by its `id` and its path.
const HEALTH: &str = "health";
const HEALTH_PATH: &str = "/healthz";

struct JwtPolicy;

#[derive(serde::Deserialize)]
struct Claims {
    sub: String,
}

impl Policy for JwtPolicy {
    fn tenant<'r>(&self, request: &Request<'r>) -> Result<Cow<'r, str>, Unauthorized> {
        if request.method() == Method::GET && request.path() == HEALTH_PATH {
            return Ok(Cow::Borrowed(HEALTH));
        }
        let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
        let value = values.next().ok_or(Unauthorized::Missing)?;
        if values.next().is_some() {
            return Err(Unauthorized::Repeated);
        }
        subject(value.as_bytes()).map(Cow::Owned)
    }

    fn cost(&self, request: &Request<'_>, route: &Route<'_>) -> u32 {
        let length = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok())
            .unwrap_or(0);
        let for_body = u32::try_from(length / 1024).unwrap_or(u32::MAX);
        route.cost().saturating_add(for_body)
    }

    fn mode(&self, request: &Request<'_>, route: &Route<'_>) -> Mode {
        if route.id() == HEALTH && request.method() == Method::GET {
            Mode::Exempt
        } else {
            Mode::Enforce
        }
    }
}

/// The claim `sub` of a bearer token.
fn subject(authorization: &[u8]) -> Result<String, Unauthorized> {
    let text = std::str::from_utf8(authorization).map_err(|_| Unauthorized::Malformed)?;
    let (scheme, token) = text.split_once(' ').ok_or(Unauthorized::Malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthorized::Malformed);
    }
    let payload = token.split('.').nth(1).ok_or(Unauthorized::Malformed)?;
    let json = URL_SAFE_NO_PAD
        .decode(payload)
        .map_err(|_| Unauthorized::Malformed)?;
    let claims: Claims = serde_json::from_slice(&json).map_err(|_| Unauthorized::Malformed)?;
    Ok(claims.sub)
}

fn main() -> ExitCode {
    let file = std::env::args_os().nth(1);
    let file = file.unwrap_or_else(|| "conf/aforo.yaml".into());
    match aforo::run(Source::File(file.into()), JwtPolicy) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
