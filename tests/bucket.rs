//! Two ways to say the same thing: the bucket's arithmetic in Rust and in Lua, both held against
//! one simple model in whole numbers, with the same cases.

#![allow(clippy::unwrap_used)]

mod harness;
mod model;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use aforo::limit::{Ask, Bucket, Grant, Rule, Timestamp};
use harness::Redis;
use model::{Case, Model, Step};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const SCRIPT: &str = include_str!("../lua/token_bucket.lua");

fn cases() -> impl Strategy<Value = Case> {
    let slow = (1_u32..20, 1_u32..10, 1_u32..100);
    let fast = (1_u32..5_000, 1_u32..50_000, 1_u32..3);
    let rule = prop_oneof![slow, fast];
    (rule, any::<bool>()).prop_flat_map(|((capacity, refill, per_seconds), dear)| {
        let costs = if dear { 1..=capacity } else { 1..=1 };
        let step = (
            prop_oneof![Just(0_u64), 0..50_u64, 0..200_000_u64],
            costs,
            0_u32..6,
            prop_oneof![Just(0_u32), 0..60_u32],
            1_u32..5,
            prop_oneof![4 => Just(0_u32), 1 => 0..capacity * 2],
        );
        let step = step.prop_map(|(after_ms, cost, count, extra, divisor, debt)| Step {
            after_ms,
            ask: Ask {
                cost,
                count,
                extra,
                divisor,
                debt,
                seed: None,
            },
        });
        let begins_at = prop_oneof![Just(capacity), 0..=capacity];
        (prop::collection::vec(step, 1..40), begins_at).prop_map(move |(steps, begins_at)| Case {
            capacity,
            refill,
            per_seconds,
            begins_at,
            steps,
        })
    })
}

/// Holds `subject` against the model, step by step.
fn check(case: &Case, mut subject: impl FnMut(&Rule, &Ask, u64) -> Grant) {
    let rule = case.rule();
    let mut model = Model::new(case);
    let mut now_ms = 0;
    for (place, step) in case.steps.iter().enumerate() {
        now_ms += step.after_ms;
        let expected = model.take(&step.ask, step.after_ms);
        let grant = subject(&rule, &step.ask, now_ms);
        let context = format!("step {place} of {case:?}");
        assert_eq!(grant.granted, expected.granted, "granted, {context}");
        assert_eq!(
            grant.wait,
            Duration::from_millis(expected.wait_ms),
            "wait, {context}"
        );
        // Within what the script's thousandths of a token can say.
        let off = grant.level - expected.level;
        assert!(
            (-0.001_1..=0.000_001).contains(&off),
            "level off by {off}, {context}"
        );
    }
}

#[test]
fn the_bucket_does_what_the_model_does() {
    let mut runner = TestRunner::new(Config::with_cases(3000));
    runner
        .run(&cases(), |case| {
            let at = |ms| Timestamp::from_nanos(ms * 1_000_000);
            let mut bucket = Bucket::new(&case.rule(), Some(case.begins_at.into()), at(0));
            check(&case, |rule, ask, ms| bucket.take(rule, ask, at(ms)));
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_script_does_what_the_model_does() {
    let redis = Redis::start();
    let connection = RefCell::new(redis.connection());
    // The same script with a clock that is handed in.
    let clock = "{ ARGV[9], ARGV[10] }";
    assert_eq!(SCRIPT.matches("redis.call('TIME')").count(), 1);
    let script = SCRIPT.replace("redis.call('TIME')", clock);
    let mut runner = TestRunner::new(Config::with_cases(500));
    let case_number = Cell::new(0);
    runner
        .run(&cases(), |case| {
            case_number.set(case_number.get() + 1);
            let key = format!("rl:{{t}}:{}", case_number.get());
            // A server that has been up since 2026.
            let begin_ms = 1_767_225_600_000_u64;
            let fields = redis::cmd("HSET")
                .arg(&key)
                .arg(&["tokens", &case.begins_at.to_string()])
                .arg(&["ts", &begin_ms.to_string()])
                .exec(&mut *connection.borrow_mut());
            fields.unwrap();
            check(&case, |rule, ask, ms| {
                let now_ms = begin_ms + ms;
                let (granted, thousandths, wait_ms): (u32, i64, u64) = redis::cmd("EVAL")
                    .arg(&script)
                    .arg(1)
                    .arg(&key)
                    .arg(rule.capacity)
                    .arg(rule.refill_per_second)
                    .arg(ask.cost)
                    .arg(ask.count)
                    .arg(ask.extra)
                    .arg(ask.divisor)
                    .arg(ask.debt)
                    .arg(ask.seed.unwrap_or(-1.0))
                    .arg(now_ms / 1000)
                    .arg(now_ms % 1000 * 1000 + 500)
                    .query(&mut *connection.borrow_mut())
                    .unwrap();
                Grant {
                    granted,
                    level: thousandths as f64 / 1000.0,
                    wait: Duration::from_millis(wait_ms),
                }
            });
            Ok(())
        })
        .unwrap();
}
