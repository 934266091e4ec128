//! What is held, and how it goes back.

use super::*;

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
