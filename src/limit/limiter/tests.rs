use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::limit::breaker::State;
use crate::limit::clock::Timestamp;

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
async fn in_a_stall_nobody_waits_and_nothing_else_happens() {
    for stall in [7, 34] {
        let limiter = limiter(Answer::After(AT_ONCE, 1), 1);
        let rule = rule(1_000);
        limiter.decide(&KEY, &rule, 1).await;
        let until = Instant::now() + Duration::from_millis(stall);
        limiter.answers(Answer::FrozenUntil(until));
        // The first one spends its budget on it.
        let (first, waited) = limiter.timed(&rule).await;
        assert!(first.allowed && waited >= BUDGET);
        pass(1).await;
        let mut held = 0;
        while Instant::now() < until {
            let (decision, waited) = limiter.timed(&rule).await;
            assert!(decision.allowed && decision.source == Source::Fallback);
            assert_eq!(waited, Duration::ZERO);
            held += 1;
            pass(1).await;
        }
        // Calls still go out: four for one key, and again four when those are overdue.
        let sent = limiter.asked() - 1;
        let most = 4 * (stall as usize).div_ceil(BUDGET.as_millis() as usize);
        assert!(sent >= (1 + held).min(4) && sent <= most, "{sent}");
        limiter.answers(Answer::After(AT_ONCE, 1));
        pass(1).await;
        let (decision, waited) = limiter.timed(&rule).await;
        assert_eq!(decision.source, Source::Store);
        assert_eq!(waited, Duration::ZERO);
        assert_eq!(limiter.state(), State::Closed);
        let debt = &limiter.counters().debt;
        assert_eq!(debt.recorded.get(), 1 + held as u64);
        assert_eq!(debt.cancelled.get(), sent as u64);
        assert_eq!(debt.posted.get(), (1 + held - sent) as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_opens_the_breaker_and_then_nothing_is_sent_but_probes() {
    let limiter = limiter(Answer::After(AT_ONCE, 1), 1);
    let rule = rule(1_000);
    limiter.decide(&KEY, &rule, 1).await;
    let began = Instant::now();
    limiter.answers(Answer::FrozenUntil(began + Duration::from_secs(60)));
    while limiter.state() == State::Closed {
        limiter.decide(&KEY, &rule, 1).await;
        pass(1).await;
    }
    let took = began.elapsed();
    assert!((105..115).contains(&took.as_millis()), "{took:?}");
    let sent = limiter.asked();
    while began.elapsed() < Duration::from_millis(2_100) {
        let (decision, waited) = limiter.timed(&rule).await;
        assert_eq!(
            (decision.source, waited),
            (Source::Fallback, Duration::ZERO)
        );
        pass(1).await;
    }
    assert_eq!(limiter.asked(), sent);
    // One each 100 ms, of which each was given up after as long.
    let probes = *limiter.store().0.probes.lock();
    assert!((8..=12).contains(&probes), "{probes}");
    assert_eq!(limiter.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn the_way_back_takes_three_probes_and_the_first_call_carries_the_debt() {
    let limiter = limiter(Answer::After(AT_ONCE, 1), 1);
    let rule = rule(1_000);
    limiter.decide(&KEY, &rule, 1).await;
    limiter.answers(Answer::TurnsDown(no_way()));
    for _ in 0..7 {
        limiter.decide(&KEY, &rule, 1).await;
    }
    assert_eq!(limiter.state(), State::Open);
    assert_eq!(limiter.asked(), 1 + 5, "five in a row");
    pass(500).await;
    assert_eq!(limiter.state(), State::Open);

    limiter.answers(Answer::After(Duration::from_millis(1), 1));
    let began = Instant::now();
    while limiter.state() != State::Closed {
        pass(1).await;
    }
    assert!(began.elapsed() < Duration::from_millis(130));
    let probes = *limiter.store().0.probes.lock();
    limiter.decide(&KEY, &rule, 1).await;
    limiter.decide(&KEY, &rule, 1).await;
    let debts: Vec<u32> = limiter
        .store()
        .0
        .asked
        .lock()
        .iter()
        .map(|ask| ask.debt)
        .collect();
    assert_eq!(debts[6..], [7, 0]);
    assert_eq!(limiter.counters().debt.posted.get(), 7);
    pass(1_000).await;
    assert_eq!(
        *limiter.store().0.probes.lock(),
        probes,
        "nobody probes any more"
    );
    let counters = limiter.watches()[0].counters();
    let changes = [&counters.opened, &counters.half_opened, &counters.closed];
    assert_eq!(changes.map(|counter| counter.get()), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn on_the_way_back_one_call_for_a_key_is_under_way_and_the_others_do_not_wait() {
    let limiter = Arc::new(limiter(Answer::TurnsDown(no_way()), 1));
    let rule = Rule::new(1_000, 100.0).unwrap();
    for _ in 0..5 {
        limiter.decide(&KEY, &rule, 1).await;
    }
    limiter.answers(Answer::After(Duration::from_millis(2), 1));
    while limiter.state() != State::Closed {
        pass(1).await;
    }
    let before = limiter.asked();
    let crowd: Vec<_> = (0..50)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.timed(&rule).await })
        })
        .collect();
    let mut by_store = 0;
    for one in crowd {
        let (decision, waited) = one.await.unwrap();
        by_store += usize::from(decision.source == Source::Store);
        assert!(decision.source == Source::Store || waited == Duration::ZERO);
    }
    assert_eq!((by_store, limiter.asked() - before), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn on_the_way_back_store_and_share_must_agree_for_half_a_second() {
    let limiter = limiter(Answer::After(AT_ONCE, 1), 20);
    let rule = rule(1_000);
    limiter.decide(&KEY, &rule, 1).await;
    limiter.answers(Answer::TurnsDown(no_way()));
    // A twentieth of 999, but for two.
    for _ in 0..47 {
        assert!(limiter.decide(&KEY, &rule, 1).await.allowed);
    }
    limiter.answers(Answer::After(AT_ONCE, 1));
    while limiter.state() != State::Closed {
        pass(1).await;
    }
    for expected in [
        Source::Store,
        Source::Store,
        Source::Fallback,
        Source::Fallback,
    ] {
        let decision = limiter.decide(&KEY, &rule, 1).await;
        assert_eq!(decision.source, expected);
        assert_eq!(decision.allowed, expected == Source::Store);
    }
    assert_eq!(limiter.counters().debt.recorded.get(), 47);
    assert_eq!(limiter.counters().debt.posted.get(), 47);
    pass(500).await;
    let decision = limiter.decide(&KEY, &rule, 1).await;
    assert_eq!((decision.source, decision.allowed), (Source::Store, true));
}

#[tokio::test(start_paused = true)]
async fn a_debt_is_posted_once_whatever_becomes_of_its_call() {
    for (error, posted, again) in [
        (StoreError::Lost("test".to_owned()), 1, 1),
        (StoreError::Disconnected("test".to_owned()), 1, 1),
        // That one certainly did nothing.
        (refuses(), 0, 2),
    ] {
        let limiter = limiter(Answer::TurnsDown(no_way()), 1);
        let rule = rule(1_000);
        limiter.decide(&KEY, &rule, 1).await;
        limiter.answers(Answer::After(AT_ONCE, 1));
        limiter.store().0.asked.lock().clear();
        // The bucket is known from here on, and the debt of one was in the call.
        limiter.decide(&KEY, &rule, 1).await;
        assert_eq!(limiter.counters().debt.posted.get(), 1);
        limiter.answers(Answer::TurnsDown(no_way()));
        limiter.decide(&KEY, &rule, 1).await;
        limiter.answers(Answer::Fails(AT_ONCE, error));
        limiter.decide(&KEY, &rule, 1).await;
        limiter.answers(Answer::After(AT_ONCE, 1));
        limiter.decide(&KEY, &rule, 1).await;
        let debts: Vec<u32> = limiter
            .store()
            .0
            .asked
            .lock()
            .iter()
            .map(|ask| ask.debt)
            .collect();
        // First, then turned down, then of unknown fate, then the one that tells.
        assert_eq!(debts, [1, 0, 1, again], "{posted}");
        assert_eq!(
            limiter.counters().debt.posted.get(),
            1 + posted + u64::from(again)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_debt_larger_than_a_part_is_posted_in_pieces_and_owed_once_where_a_call_fails() {
    let limiter = limiter(Answer::After(AT_ONCE, 1), 1);
    let rule = rule(1_000).with_shards(2);
    limiter.decide(&KEY, &rule, 1).await;
    limiter.answers(Answer::TurnsDown(no_way()));
    let mut spent = 0;
    for _ in 0..700 {
        let decision = limiter.decide(&KEY, &rule, 1).await;
        assert_eq!(
            (decision.allowed, decision.source),
            (true, Source::Fallback)
        );
        spent += 1;
    }
    limiter.answers(Answer::After(AT_ONCE, 1));
    while limiter.state() != State::Closed {
        pass(10).await;
    }
    limiter.answers(Answer::TurnsDown(StoreError::Busy(256)));
    limiter.store().0.asked.lock().clear();
    limiter.decide(&KEY, &rule, 1).await;
    spent += 1;
    let first = limiter.store().0.asked.lock()[0].debt;
    assert_eq!(first, 500, "a part carries no more");
    limiter.answers(Answer::After(AT_ONCE, 1));
    limiter.store().0.asked.lock().clear();
    for _ in 0..5 {
        pass(1_000).await;
        let decision = limiter.decide(&KEY, &rule, 1).await;
        spent += u32::from(decision.source == Source::Fallback);
    }
    let posted: u32 = limiter
        .store()
        .0
        .asked
        .lock()
        .iter()
        .map(|ask| ask.debt)
        .sum();
    assert_eq!(posted, spent);
    assert_eq!(limiter.counters().debt.posted.get(), u64::from(spent));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_failure_of_the_store_opens_nothing() {
    for error in [
        StoreError::WrongType("WRONGTYPE".to_owned()),
        StoreError::Moved("MOVED 1 h:1".to_owned()),
    ] {
        let limiter = limiter(Answer::Fails(AT_ONCE, error), 1);
        for _ in 0..100 {
            let decision = limiter.decide(&KEY, &rule(10), 1).await;
            assert_eq!(decision.source, Source::Fallback);
        }
        assert_eq!((limiter.state(), limiter.asked()), (State::Closed, 100));
    }
    let busy = limiter(Answer::TurnsDown(StoreError::Busy(256)), 1);
    for _ in 0..100 {
        busy.decide(&KEY, &rule(10), 1).await;
    }
    assert_eq!((busy.state(), busy.asked()), (State::Closed, 100));
}

#[tokio::test(start_paused = true)]
async fn a_rule_may_be_open_or_closed_without_the_store() {
    let with = |on_store_failure| Rule {
        on_store_failure,
        ..rule(10)
    };
    let (open, closed) = (with(OnStoreFailure::Open), with(OnStoreFailure::Closed));
    for answer in [
        Answer::TurnsDown(no_way()),
        Answer::Fails(AT_ONCE, refuses()),
        // No node serves its slot.
        Answer::Fails(AT_ONCE, StoreError::Moved("MOVED 1 h:1".to_owned())),
        Answer::After(TOO_LATE, 1),
    ] {
        let limiter = limiter(answer, 20);
        for _ in 0..30 {
            let decision = limiter.decide(&KEY, &open, 1).await;
            assert!(decision.allowed);
            assert_eq!(
                (decision.remaining(), decision.source),
                (10, Source::Fallback)
            );
            let decision = limiter.decide(&KEY, &closed, 1).await;
            assert!(!decision.allowed);
            assert_eq!(decision.source, Source::Closed);
        }
        assert_eq!(
            limiter.counters().fallback.get(),
            30,
            "no decision is counted"
        );
        assert_eq!(limiter.counters().debt.recorded.get(), 0);
    }
    // A store that is well, and only busy, is not away.
    let busy = limiter(Answer::TurnsDown(StoreError::Busy(256)), 20);
    assert_eq!(busy.decide(&KEY, &closed, 1).await.source, Source::Fallback);
    // While it answers, it decides.
    let well = limiter(Answer::After(AT_ONCE, 1), 20);
    assert_eq!(well.decide(&KEY, &closed, 1).await.source, Source::Store);
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

#[tokio::test(start_paused = true)]
async fn calls_that_are_never_answered_do_not_stand_in_the_way_of_others() {
    let limiter = Arc::new(limiter(Answer::After(AT_ONCE, 1), 1));
    let rule = rule(1_000);
    limiter.decide(&KEY, &rule, 1).await;
    // More than may be under way at once, and no answer for a minute.
    limiter.answers(Answer::FrozenUntil(
        Instant::now() + Duration::from_secs(60),
    ));
    let crowd: Vec<_> = (0..10)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.timed(&rule).await })
        })
        .collect();
    for one in crowd {
        let (decision, waited) = one.await.unwrap();
        assert_eq!(decision.source, Source::Fallback);
        assert!(waited <= BUDGET + Duration::from_millis(1));
    }
    while limiter.state() == State::Closed {
        limiter.decide(&KEY, &rule, 1).await;
        pass(1).await;
    }
    limiter.answers(Answer::After(AT_ONCE, 1));
    while limiter.state() != State::Closed {
        pass(1).await;
    }
    let (decision, waited) = limiter.timed(&rule).await;
    assert_eq!((decision.source, waited), (Source::Store, Duration::ZERO));
}

impl Tested {
    /// Asks until a call is under way that no request waits for.
    async fn asks_beside_requests(&self, rule: &Rule) {
        for _ in 0..1_000 {
            self.decide(&KEY, rule, 1).await;
            if self.core.taking.load(Ordering::Acquire) > 0 {
                return;
            }
            pass(1).await;
        }
        panic!("neither refills nor polls");
    }
}

/// A limiter with a lease of one hot key.
async fn with_a_lease() -> (Tested, Rule) {
    let limiter = limiter(Answer::After(AT_ONCE, 51), 1);
    let rule = Rule::new(10_000, 0.1).unwrap();
    while limiter.leased_tokens() < 50 {
        limiter.decide(&KEY, &rule, 1).await;
        pass(1).await;
    }
    (limiter, rule)
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_spent_first_while_the_store_is_away_and_nothing_is_sent() {
    let (limiter, rule) = with_a_lease().await;
    limiter.answers(Answer::FrozenUntil(
        Instant::now() + Duration::from_secs(60),
    ));
    let held = limiter.leased_tokens();
    // One that finds no lease opens the breaker.
    let other = BucketKey {
        tenant: "other",
        route: "r",
    };
    while limiter.state() == State::Closed {
        limiter.decide(&other, &rule, 1).await;
        pass(1).await;
    }
    let sent = limiter.asked();
    limiter.store().0.given_back.lock().clear();
    for _ in 0..held {
        let (decision, waited) = limiter.timed(&rule).await;
        assert_eq!((decision.source, waited), (Source::Lease, Duration::ZERO));
    }
    let (decision, _) = limiter.timed(&rule).await;
    assert_eq!(decision.source, Source::Fallback);
    pass(2_000).await;
    assert_eq!(limiter.asked(), sent, "neither refills nor polls");
    assert!(limiter.store().0.given_back.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_idle_goes_back_and_is_lost_where_the_store_is_away() {
    let (limiter, _) = with_a_lease().await;
    let (held, leased) = (limiter.leased_tokens(), &limiter.counters().leased);
    let before = leased.returned.get();
    pass(400).await;
    assert_eq!(limiter.leased_tokens(), 0);
    assert_eq!(leased.returned.get() - before, held);

    let (limiter, rule) = with_a_lease().await;
    let held = limiter.leased_tokens();
    limiter.answers(Answer::TurnsDown(no_way()));
    let other = BucketKey {
        tenant: "other",
        route: "r",
    };
    for _ in 0..5 {
        limiter.decide(&other, &rule, 1).await;
    }
    assert_eq!(limiter.state(), State::Open);
    pass(400).await;
    let leased = &limiter.counters().leased;
    assert_eq!((limiter.leased_tokens(), leased.expired.get()), (0, held));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_a_call_under_way_brings_goes_back_too() {
    let (limiter, rule) = with_a_lease().await;
    let refill = Duration::from_millis(3);
    limiter.answers(Answer::After(refill, 50));
    limiter.asks_beside_requests(&rule).await;
    limiter.store().0.given_back.lock().clear();
    let held = limiter.leased_tokens();
    let began = Instant::now();
    let returned = limiter.close(Duration::from_secs(1)).await;
    assert!(began.elapsed() < refill + Duration::from_millis(5));
    assert_eq!(returned, held + 50);
    assert_eq!(
        limiter.store().0.given_back.lock().iter().sum::<u32>(),
        50 + held as u32
    );
    assert!(!limiter.has_leases());
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_does_not_hold_up_the_end() {
    let (limiter, rule) = with_a_lease().await;
    limiter.answers(Answer::FrozenUntil(
        Instant::now() + Duration::from_secs(60),
    ));
    limiter.asks_beside_requests(&rule).await;
    let began = Instant::now();
    limiter.close(Duration::from_secs(1)).await;
    assert!(began.elapsed() < 3 * BUDGET);
}
