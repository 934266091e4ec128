use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::limit::breaker::State;
use crate::limit::clock::Timestamp;

mod leases;
mod outage;

const KEY: BucketKey<'_> = BucketKey {
    tenant: "t",
    route: "r",
};

const AT_ONCE: Duration = Duration::ZERO;
const TOO_LATE: Duration = Duration::from_millis(50);
const BUDGET: Duration = Duration::from_millis(5);

/// The time of tokio, which stands still until everybody sleeps.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::default() + self.0.elapsed()
    }
}

/// A store that answers each take as it is told to.
#[derive(Clone)]
struct Scripted(Arc<Script>);

struct Script {
    answer: Mutex<Answer>,
    /// Takes, probes not counted.
    asked: Mutex<Vec<Ask>>,
    answered: Mutex<usize>,
    given_back: Mutex<Vec<u32>>,
    probes: Mutex<usize>,
    gateways: Mutex<u32>,
}

#[derive(Clone)]
enum Answer {
    /// With a grant of this many tokens, after this long.
    After(Duration, u32),
    /// With a grant, but nothing before this time.
    FrozenUntil(Instant),
    /// With an error, after this long.
    Fails(Duration, StoreError),
    /// At once, without asking.
    TurnsDown(StoreError),
}

impl Script {
    fn call(self: &Arc<Self>, level: f64) -> Call {
        let script = Arc::clone(self);
        let (until, result) = match self.answer.lock().clone() {
            Answer::TurnsDown(error) => return Call::Done(Err(error)),
            Answer::After(delay, granted) => (Instant::now() + delay, Ok(granted)),
            Answer::FrozenUntil(until) => (until, Ok(1)),
            Answer::Fails(delay, error) => (Instant::now() + delay, Err(error)),
        };
        Call::Waiting(Box::pin(async move {
            tokio::time::sleep_until(until).await;
            *script.answered.lock() += 1;
            result.map(|granted| Grant {
                granted,
                level,
                wait: Duration::from_millis(1500),
            })
        }))
    }
}

impl BucketStore for Scripted {
    fn take(&self, _key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        self.0.asked.lock().push(*ask);
        self.0.call(rule.capacity - 1.0)
    }

    fn give_back(&self, _key: &BucketKey<'_>, _rule: &Rule, tokens: u32) -> Call {
        self.0.given_back.lock().push(tokens);
        Call::Waiting(Box::pin(std::future::ready(Ok(Grant {
            granted: tokens,
            level: 1.0,
            wait: Duration::ZERO,
        }))))
    }

    fn probe(&self, _node: usize) -> Call {
        *self.0.probes.lock() += 1;
        self.0.call(1.0)
    }

    fn heartbeat(&self, _id: &str) -> crate::limit::Heartbeat {
        let gateways = *self.0.gateways.lock();
        Box::pin(std::future::ready(Ok(gateways)))
    }

    fn is_local(&self) -> bool {
        false
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn take_part(&self, key: &BucketKey<'_>, _part: u32, rule: &Rule, ask: &Ask) -> Call {
        self.take(key, rule, ask)
    }
}

type Tested = Limiter<Scripted, TokioClock>;

fn limiter(answer: Answer, instances: u32) -> Tested {
    let store = Scripted(Arc::new(Script {
        answer: Mutex::new(answer),
        asked: Mutex::default(),
        answered: Mutex::default(),
        given_back: Mutex::default(),
        probes: Mutex::default(),
        gateways: Mutex::new(1),
    }));
    let settings = Settings {
        budget: BUDGET,
        instances,
        count_instances: true,
        max_local_buckets: 1000,
        ..Settings::default()
    };
    Limiter::new(store, TokioClock(Instant::now()), settings)
}

impl Tested {
    fn answers(&self, answer: Answer) {
        *self.store().0.answer.lock() = answer;
    }

    fn asked(&self) -> usize {
        self.store().0.asked.lock().len()
    }

    fn state(&self) -> State {
        self.watches()[0].state()
    }

    /// One request, and how long it waited.
    async fn timed(&self, rule: &Rule) -> (Decision, Duration) {
        let before = Instant::now();
        let decision = self.decide(&KEY, rule, 1).await;
        (decision, before.elapsed())
    }
}

fn rule(capacity: u32) -> Rule {
    Rule::new(capacity, 0.1).unwrap()
}

async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn refuses() -> StoreError {
    StoreError::Refused("LOADING".to_owned())
}

fn no_way() -> StoreError {
    StoreError::Unsent("test".to_owned())
}

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
async fn a_failing_store_leaves_each_gateway_its_share_of_what_it_said_last() {
    for answer in [
        Answer::TurnsDown(no_way()),
        Answer::Fails(AT_ONCE, refuses()),
        Answer::After(Duration::from_secs(60), 1),
    ] {
        let limiter = limiter(Answer::After(AT_ONCE, 1), 20);
        limiter.decide(&KEY, &rule(100), 1).await;
        limiter.answers(answer);
        let mut passed = 0;
        for _ in 0..50 {
            let decision = limiter.decide(&KEY, &rule(100), 1).await;
            assert_eq!(decision.source, Source::Fallback);
            passed += usize::from(decision.allowed);
        }
        assert_eq!(passed, 4, "a twentieth of 99");
        assert_eq!(limiter.counters().fallback.get(), 50);
        assert_eq!(limiter.counters().debt.recorded.get(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_small_rule_is_one_request_and_its_numbers_are_those_of_the_whole() {
    let limiter = limiter(Answer::TurnsDown(no_way()), 20);
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
    let (_, waited) = limiter.timed(&rule(10)).await;
    assert!(waited <= BUDGET + Duration::from_millis(1), "{waited:?}");
    assert_eq!(*limiter.store().0.answered.lock(), 0);
    tokio::time::sleep(TOO_LATE).await;
    assert_eq!(*limiter.store().0.answered.lock(), 1);
    let counters = limiter.counters();
    let late = &limiter.watches()[0].counters().late;
    assert_eq!((counters.takes.timeout.get(), late.get()), (1, 1));
    assert_eq!(counters.debt.recorded.get(), 1);
    assert_eq!(counters.debt.cancelled.get(), 1, "it was granted after all");
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
    pass(10).await;
    assert_eq!(*limiter.store().0.answered.lock(), 1);
    assert_eq!(*limiter.store().0.given_back.lock(), [1]);
    let leased = &limiter.counters().leased;
    assert_eq!((leased.granted.get(), leased.returned.get()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_can_never_pass_is_refused_without_asking() {
    let limiter = limiter(Answer::After(AT_ONCE, 11), 1);
    let decision = limiter.decide(&KEY, &rule(10), 11).await;
    assert!(!decision.allowed);
    assert_eq!(decision.retry_after_seconds(), None);
    assert_eq!(limiter.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn gateways_are_counted_by_heartbeats() {
    let limiter = limiter(Answer::After(AT_ONCE, 1), 2);
    limiter.begin();
    pass(100).await;
    assert_eq!(limiter.instances(), 2, "at least");
    *limiter.store().0.gateways.lock() = 7;
    pass(2_500).await;
    assert_eq!(limiter.instances(), 7);
    assert_eq!(limiter.counters().heartbeats.ok.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_answered_at_once_carries_no_room_for_waiting() {
    let limiter = limiter(Answer::After(AT_ONCE, 1), 1);
    let rule = rule(10);
    let size = size_of_val(&limiter.decide(&KEY, &rule, 1));
    assert!(size <= 64, "{size}");
}
