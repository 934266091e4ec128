use ahash::RandomState;

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

#[test]
fn a_key_above_the_threshold_is_found_within_two_windows() {
    for (every_ms, hot) in [(10, true), (15, true), (25, false), (100, false)] {
        let keys = HotKeys::new();
        let found = (0..400)
            .step_by(every_ms)
            .any(|ms| keys.observe(7, 1, at(ms as u64)) >= THRESHOLD);
        assert_eq!(found, hot, "each {every_ms} ms");
    }
}

#[test]
fn tokens_count_not_requests() {
    let keys = HotKeys::new();
    assert!(keys.observe(7, 10, at(0)) >= THRESHOLD);
}

#[test]
fn what_lies_long_ago_does_not_count() {
    let keys = HotKeys::new();
    for _ in 0..100 {
        keys.observe(7, 1, at(100));
    }
    assert!(keys.observe(7, 1, at(250)) > 300.0, "three quarters of it");
    // The window that holds it is neither this one nor the one before.
    assert!(keys.observe(7, 1, at(1_000)) < 10.0);
}

#[test]
fn a_hundred_thousand_tenants_do_not_read_as_hot() {
    let keys = HotKeys::new();
    let hasher = RandomState::new();
    let mut hot = 0;
    // 50,000 requests a second for two seconds, each tenant once a second and a bit.
    for n in 0..100_000_u64 {
        let now = Timestamp::from_nanos(n * 20_000);
        hot += u32::from(keys.observe(hasher.hash_one(n % 60_000), 1, now) >= THRESHOLD);
    }
    assert_eq!(hot, 0);
}
