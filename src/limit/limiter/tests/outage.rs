//! The store away, slow, and back again.

use super::*;

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
