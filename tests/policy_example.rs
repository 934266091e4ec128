//! The programmable seam: `examples/policy.rs` is a gateway with a policy of its own.
//!
//! It reads the configuration file that is its first argument, and of a request it takes
//!
//! - the tenant from the claim `sub` of the JWT in `Authorization: Bearer` (something in front of
//!   it has verified the signature),
//! - the cost from the size of its body: 1 + Content-Length / 1024,
//! - and exempts those of the route `health`, which need no token.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Config, Gateway, ONE_A_DAY, Response, Upstream};
use std::path::PathBuf;

/// Cargo builds the examples for a run of the tests, in a folder beside theirs.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    profile.join("examples").join("policy")
}

fn start(upstream: &Upstream) -> Gateway {
    let config = Config::new(upstream)
        .route("id: health, methods: [GET], path: /healthz")
        .route("id: upload, methods: [POST], path: /upload")
        .rule("shop-a", "upload", 10, ONE_A_DAY)
        .rule("shop-b", "upload", 100, ONE_A_DAY)
        .rule("*", "health", 1, ONE_A_DAY);
    Gateway::start_program(&example(), &[], &config)
}

fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=part.len()].copy_from_slice(part);
        let group = u32::from_be_bytes(group);
        for digit in 0..=part.len() {
            let index = group >> (18 - 6 * digit) & 63;
            text.push(char::from(ALPHABET[index as usize]));
        }
    }
    text
}

fn bearer(claims: &str) -> String {
    let header = base64url(br#"{"alg":"HS256","typ":"JWT"}"#);
    let claims = base64url(claims.as_bytes());
    format!("Bearer {header}.{claims}.{}", base64url(b"a signature"))
}

fn upload(gateway: &Gateway, authorization: &str, size: usize) -> Response {
    let headers = [("Authorization", authorization)];
    gateway.request("POST", "/upload", &headers, &vec![b'x'; size])
}

#[test]
fn the_tenant_is_the_subject_of_the_token() {
    let upstream = Upstream::start();
    let gateway = start(&upstream);

    let claims =
        |tenant: &str| format!(r#"{{"iss":"https://id.example","sub":"{tenant}","exp":1}}"#);
    for (tenant, capacity) in [("shop-a", 10), ("shop-b", 100)] {
        let response = upload(&gateway, &bearer(&claims(tenant)), 0);
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.number("X-RateLimit-Limit"), capacity);
        assert_eq!(response.number("X-RateLimit-Remaining"), capacity - 1);
    }
}

#[test]
fn a_request_without_a_readable_token_is_401_and_reaches_nobody() {
    let upstream = Upstream::start();
    let gateway = start(&upstream);

    let no_subject = bearer(r#"{"iss":"https://id.example"}"#);
    for authorization in [
        "",
        "Bearer",
        "Bearer nonsense",
        "Bearer a.b.c",
        "Basic c2hvcC1hOng=",
        &no_subject,
    ] {
        let response = upload(&gateway, authorization, 0);
        assert_eq!(response.status, 401, "{authorization}");
    }
    let response = gateway.request("POST", "/upload", &[("X-Api-Key", "shop-a")], b"");
    assert_eq!(response.status, 401);
    assert_eq!(upstream.count(), 0);
}

#[test]
fn a_body_costs_one_token_more_for_each_kibibyte() {
    let upstream = Upstream::start();
    let gateway = start(&upstream);
    let token = bearer(r#"{"sub":"shop-a"}"#);

    for (size, remaining) in [(0, 9), (1_023, 8), (1_024, 6), (3_000, 3)] {
        let response = upload(&gateway, &token, size);
        assert_eq!(response.status, 200, "{size} bytes");
        assert_eq!(
            response.number("X-RateLimit-Remaining"),
            remaining,
            "{size} bytes"
        );
    }
    // Four are needed, three are left; a smaller one still passes.
    assert_eq!(upload(&gateway, &token, 3_072).status, 429);
    assert_eq!(upload(&gateway, &token, 2_048).status, 200);
}

#[test]
fn health_checks_are_exempt() {
    let upstream = Upstream::start();
    let gateway = start(&upstream);

    for _ in 0..5 {
        let response = gateway.request("GET", "/healthz", &[], b"");
        assert_eq!(response.status, 200);
        response.assert_no_rate_headers();
    }
    assert_eq!(upstream.count(), 5);
}
