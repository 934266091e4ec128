use std::time::Duration;

use super::*;
use crate::limit::{Rule, Source};

fn decision(capacity: u32, refill: f64, level: f64, retry_after: Option<u64>) -> Decision {
    Decision {
        allowed: retry_after.is_none(),
        rule: Rule::new(capacity, refill).unwrap(),
        level,
        retry_after: retry_after.map(Duration::from_millis),
        source: Source::Store,
    }
}

fn written(decision: &Decision, x_ratelimit: bool, draft: bool) -> Vec<String> {
    let mut response = ResponseHeader::build(200, None).unwrap();
    for name in ["x-ratelimit-remaining", "ratelimit", "X-RateLimit-Limit"] {
        response.append_header(name, "999").unwrap();
        response.append_header(name, "888").unwrap();
    }
    let families = config::Headers { x_ratelimit, draft };
    RateHeaders::of(decision, !decision.allowed)
        .write(&families, &mut response)
        .unwrap();
    let mut lines: Vec<String> = response
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines
}

#[test]
fn both_families_describe_the_bucket_and_replace_the_upstreams() {
    assert_eq!(
        written(&decision(200, 100.0, 152.4, None), true, true),
        [
            "ratelimit-policy: \"default\";q=200;w=2",
            "ratelimit: \"default\";r=152;t=1",
            "x-ratelimit-limit: 200",
            "x-ratelimit-remaining: 152",
            "x-ratelimit-reset: 1",
        ]
    );
}

#[test]
fn a_rejection_says_when_to_come_back() {
    assert_eq!(
        written(&decision(2, 1.0 / 60.0, 0.2, Some(48_000)), true, true),
        [
            "ratelimit-policy: \"default\";q=2;w=120",
            "ratelimit: \"default\";r=0;t=48",
            "retry-after: 48",
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 108",
        ]
    );
}

#[test]
fn a_full_bucket_has_no_next_token_to_wait_for() {
    assert_eq!(
        written(&decision(20, 10.0, 20.0, None), false, true),
        [
            "ratelimit-policy: \"default\";q=20;w=2",
            "ratelimit: \"default\";r=20",
            "x-ratelimit-remaining: 20",
        ]
    );
}

#[test]
fn remaining_is_sent_whatever_the_families_are() {
    assert_eq!(
        written(&decision(20, 10.0, 3.0, None), false, false),
        ["x-ratelimit-remaining: 3"]
    );
}

#[test]
fn what_is_forwarded_over_its_limit_has_nothing_left_and_no_time_to_come_back() {
    let over = decision(7, 0.1, 2.0, Some(30_000));
    let headers = RateHeaders::of(&over, false);
    assert_eq!((headers.remaining, headers.retry_after), (0, None));
    assert_eq!(
        headers.more_in,
        Some(10),
        "until the next token, not until it would pass"
    );
}

#[test]
fn whole_numbers_are_not_lost_to_rounding() {
    // 3 tokens at one a second, after sums that are off in the last digits.
    let almost = decision(3, 1.0, 3.0 - 1e-9, None);
    let headers = RateHeaders::of(&almost, false);
    assert_eq!((headers.remaining, headers.reset), (3, 0));
    // 2 tokens at one a minute take 120 s, not 121.
    assert_eq!(decision(2, 1.0 / 60.0, 0.0, None).seconds_to_full(), 120);
    assert_eq!(
        decision(1, 1.0 / 86_400.0, 0.0, None).seconds_to_full(),
        86_400
    );
    // Exactly 2 s to wait are 2, and a little over is 3.
    assert_eq!(
        decision(1, 1.0, 0.0, Some(2_000)).retry_after_seconds(),
        Some(2)
    );
    assert_eq!(
        decision(1, 1.0, 0.0, Some(2_001)).retry_after_seconds(),
        Some(3)
    );
    assert_eq!(
        decision(1, 1.0, 0.8, Some(200)).retry_after_seconds(),
        Some(1)
    );
}
