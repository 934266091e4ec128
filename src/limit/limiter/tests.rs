use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::limit::clock::ManualClock;
use crate::limit::store::StoreError;

const KEY: BucketKey<'_> = BucketKey {
    tenant: "t",
    route: "r",
};

/// A store that answers each take as it is told to.
struct Scripted {
    answer: Answer,
    asked: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

#[derive(Clone)]
enum Answer {
    /// With a grant of this many tokens, after this long.
    After(Duration, u32),
    /// With an error, after this long.
    Fails(Duration),
    /// At once, that there is no way to ask.
    NoWay,
}

impl BucketStore for Scripted {
    fn take(&self, _key: &BucketKey<'_>, rule: &Rule, _ask: &Ask) -> Call {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answered = Arc::clone(&self.answered);
        let level = rule.capacity - 1.0;
        match self.answer.clone() {
            Answer::NoWay => Call::Done(Err(StoreError::Disconnected("test".to_owned()))),
            Answer::After(delay, granted) => Call::Waiting(Box::pin(async move {
                tokio::time::sleep(delay).await;
                answered.fetch_add(1, Ordering::SeqCst);
                Ok(Grant {
                    granted,
                    level,
                    wait: Duration::from_millis(1500),
                })
            })),
            Answer::Fails(delay) => Call::Waiting(Box::pin(async move {
                tokio::time::sleep(delay).await;
                answered.fetch_add(1, Ordering::SeqCst);
                Err(StoreError::Refused("LOADING".to_owned()))
            })),
        }
    }

    fn is_local(&self) -> bool {
        false
    }
}

fn limiter(answer: Answer, instances: u32) -> Limiter<Scripted, ManualClock> {
    let store = Scripted {
        answer,
        asked: Arc::default(),
        answered: Arc::default(),
    };
    let settings = Settings {
        budget: Duration::from_millis(5),
        instances,
        max_local_buckets: 1000,
    };
    Limiter::new(store, ManualClock::default(), settings)
}

fn rule(capacity: u32) -> Rule {
    Rule::new(capacity, 0.1).unwrap()
}

const AT_ONCE: Duration = Duration::ZERO;
const TOO_LATE: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn the_stores_answer_decides() {
    let passes = limiter(Answer::After(AT_ONCE, 1), 20);
    let decision = passes.decide(&KEY, &rule(10), 1).await;
    assert!(decision.allowed);
    assert_eq!((decision.source, decision.level), (Source::Store, 9.0));

    let rejects = limiter(Answer::After(AT_ONCE, 0), 20);
    let decision = rejects.decide(&KEY, &rule(10), 1).await;
    assert!(!decision.allowed);
    assert_eq!(decision.remaining(), 0);
    assert_eq!(decision.retry_after_seconds(), Some(2));
    assert_eq!(rejects.counters().takes.short.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_leaves_each_gateway_its_share() {
    for answer in [
        Answer::NoWay,
        Answer::Fails(AT_ONCE),
        Answer::After(TOO_LATE, 1),
    ] {
        let limiter = limiter(answer, 20);
        let mut passed = 0;
        for _ in 0..50 {
            let decision = limiter.decide(&KEY, &rule(100), 1).await;
            assert_eq!(decision.source, Source::Fallback);
            passed += usize::from(decision.allowed);
        }
        assert_eq!(passed, 5, "a twentieth of 100");
        assert_eq!(limiter.counters().fallback.get(), 50);
    }
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_small_rule_is_one_request_and_its_numbers_are_those_of_the_whole() {
    let limiter = limiter(Answer::NoWay, 20);
    let rule = rule(10);
    let first = limiter.decide(&KEY, &rule, 5).await;
    assert!(
        first.allowed,
        "a share of half a token still serves a request of 5"
    );
    assert_eq!(first.rule.capacity, 10.0);
    let second = limiter.decide(&KEY, &rule, 5).await;
    // 5 tokens at a twentieth of 0.1 a second.
    assert_eq!(second.retry_after_seconds(), Some(1000));
}

#[tokio::test(start_paused = true)]
async fn no_request_waits_longer_than_the_budget_and_a_late_answer_is_still_read() {
    let limiter = limiter(Answer::After(TOO_LATE, 1), 1);
    let before = tokio::time::Instant::now();
    limiter.decide(&KEY, &rule(10), 1).await;
    assert!(before.elapsed() <= Duration::from_millis(6));
    assert_eq!(limiter.store().answered.load(Ordering::SeqCst), 0);
    limiter.clock.advance(TOO_LATE);
    tokio::time::sleep(TOO_LATE).await;
    assert_eq!(limiter.store().answered.load(Ordering::SeqCst), 1);
    let counters = limiter.counters();
    assert_eq!((counters.takes.timeout.get(), counters.late.get()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_does_not_cut_its_call_off() {
    let limiter = limiter(Answer::After(Duration::from_millis(2), 1), 1);
    {
        let rule = rule(10);
        let decision = limiter.decide(&KEY, &rule, 1);
        tokio::pin!(decision);
        let gone = tokio::time::timeout(Duration::from_millis(1), decision).await;
        assert!(gone.is_err());
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(limiter.store().answered.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_pass_is_refused_without_asking() {
    let limiter = limiter(Answer::After(AT_ONCE, 11), 1);
    let decision = limiter.decide(&KEY, &rule(10), 11).await;
    assert!(!decision.allowed);
    assert_eq!(decision.retry_after_seconds(), None);
    assert_eq!(limiter.store().asked.load(Ordering::SeqCst), 0);
}
