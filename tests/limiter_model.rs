//! Many limiters over one exact bucket, on a clock that stands still until everybody sleeps: what
//! the cluster lets through, held against what one central bucket would have.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aforo::limit::{
    Ask, Bucket, BucketKey, BucketStore, Call, Clock, Decision, Limiter, Rule, Settings, Source,
    StoreError, Timestamp,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const GATEWAYS: u32 = 20;
const KEY: BucketKey<'_> = BucketKey {
    tenant: "t",
    route: "r",
};

/// The time of tokio.
#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::default() + self.0.elapsed()
    }
}

/// One bucket, some way off.
#[derive(Clone)]
struct Central(Arc<Mutex<State>>, TokioClock);

struct State {
    bucket: Bucket,
    /// Where it is split.
    parts: HashMap<u32, Bucket>,
    /// How often each part was asked.
    asked: HashMap<u32, u32>,
    /// Parts below this are on nodes that are away.
    away: u32,
    random: fastrand::Rng,
    /// Of so many answers one is lost.
    lost: Option<u32>,
    calls: u64,
    /// Those that brought nothing.
    in_vain: u64,
}

impl Central {
    fn new(rule: &Rule, seed: u64) -> Self {
        let clock = TokioClock(Instant::now());
        let state = State {
            bucket: Bucket::new(rule, None, clock.now()),
            parts: HashMap::new(),
            asked: HashMap::new(),
            away: 0,
            random: fastrand::Rng::with_seed(seed),
            lost: None,
            calls: 0,
            in_vain: 0,
        };
        Self(Arc::new(Mutex::new(state)), clock)
    }

    /// Works on the bucket after a while, and answers at once: tokio's timers count milliseconds, so
    /// that a way there and back would take two.
    fn call(
        &self,
        work: impl FnOnce(&mut Bucket, Timestamp) -> aforo::limit::Grant + Send + 'static,
    ) -> Call {
        self.call_state(move |state, now| work(&mut state.bucket, now))
    }

    fn call_part(
        &self,
        part: u32,
        rule: Rule,
        work: impl FnOnce(&mut Bucket, Timestamp) -> aforo::limit::Grant + Send + 'static,
    ) -> Call {
        self.call_state(move |state, now| {
            let begin = || Bucket::new(&rule, None, now);
            work(state.parts.entry(part).or_insert_with(begin), now)
        })
    }

    fn call_state(
        &self,
        work: impl FnOnce(&mut State, Timestamp) -> aforo::limit::Grant + Send + 'static,
    ) -> Call {
        let (central, clock) = (Arc::clone(&self.0), self.1);
        let (there, lost) = {
            let mut state = central.lock();
            state.calls += 1;
            let there = Duration::from_micros(state.random.u64(200..400));
            let lost = state
                .lost
                .is_some_and(|each| state.random.u32(0..each) == 0);
            (there, lost)
        };
        Call::Waiting(Box::pin(async move {
            sleep(there).await;
            let grant = {
                let mut state = central.lock();
                let grant = work(&mut state, clock.now());
                state.in_vain += u64::from(grant.granted == 0);
                grant
            };
            if lost {
                return Err(StoreError::Lost("by the test".to_owned()));
            }
            Ok(grant)
        }))
    }
}

impl BucketStore for Central {
    fn take(&self, _key: &BucketKey<'_>, rule: &Rule, ask: &Ask) -> Call {
        let (rule, ask) = (*rule, *ask);
        self.call(move |bucket, now| bucket.take(&rule, &ask, now))
    }

    fn give_back(&self, _key: &BucketKey<'_>, rule: &Rule, tokens: u32) -> Call {
        let rule = *rule;
        self.call(move |bucket, now| bucket.give_back(&rule, tokens, now))
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn take_part(&self, _key: &BucketKey<'_>, part: u32, rule: &Rule, ask: &Ask) -> Call {
        let (rule, ask) = (*rule, *ask);
        {
            let mut state = self.0.lock();
            *state.asked.entry(part).or_default() += 1;
            if part < state.away {
                return Call::Done(Err(StoreError::Unsent("by the test".to_owned())));
            }
        }
        self.call_part(part, rule, move |bucket, now| bucket.take(&rule, &ask, now))
    }

    fn node_of_part(&self, _key: &BucketKey<'_>, part: u32) -> usize {
        part as usize
    }

    fn give_back_part(&self, _key: &BucketKey<'_>, part: u32, rule: &Rule, tokens: u32) -> Call {
        let rule = *rule;
        self.call_part(part, rule, move |bucket, now| {
            bucket.give_back(&rule, tokens, now)
        })
    }

    fn is_local(&self) -> bool {
        false
    }
}

type Gateway = Limiter<Central, TokioClock>;

struct Cluster {
    rule: Rule,
    cost: u32,
    central: Central,
    gateways: Vec<Arc<Gateway>>,
    random: fastrand::Rng,
}

/// When tokens were let through, in nanoseconds, and how many.
#[derive(Default)]
struct Run {
    admitted: Vec<(u64, u32)>,
    /// When requests came.
    came: Vec<Timestamp>,
    requests: u64,
    decided: Vec<Decision>,
}

impl Cluster {
    fn new(rule: Rule, cost: u32, seed: u64) -> Self {
        let central = Central::new(&rule, seed);
        let settings = Settings {
            instances: GATEWAYS,
            max_local_buckets: 1_000,
            ..Settings::default()
        };
        let gateway = |_| Arc::new(Limiter::new(central.clone(), central.1, settings));
        Self {
            rule,
            cost,
            gateways: (0..GATEWAYS).map(gateway).collect(),
            random: fastrand::Rng::with_seed(seed),
            central,
        }
    }

    /// Requests arrive at random, `per_second` in all, at gateways drawn from `weights`.
    async fn run(&mut self, per_second: f64, weights: &[f64], time: Duration) -> Run {
        let began = Instant::now();
        let all: f64 = weights.iter().sum();
        let mut requests = JoinSet::new();
        let mut run = Run::default();
        let mut due = 0.0;
        loop {
            due += -(1.0 - self.random.f64()).ln() / per_second;
            if due >= time.as_secs_f64() {
                break;
            }
            sleep_until(began + Duration::from_secs_f64(due)).await;
            let mut at = self.random.f64() * all;
            let place = weights.iter().position(|weight| {
                at -= weight;
                at < 0.0
            });
            let gateway = Arc::clone(&self.gateways[place.unwrap_or(0)]);
            let (rule, cost, clock) = (self.rule, self.cost, self.central.1);
            run.came.push(clock.now());
            requests.spawn(async move {
                let decision = gateway.decide(&KEY, &rule, cost).await;
                (clock.now().as_nanos(), decision)
            });
            run.requests += 1;
            while let Some(done) = requests.try_join_next() {
                run.note(done.unwrap(), self.cost);
            }
        }
        while let Some(done) = requests.join_next().await {
            run.note(done.unwrap(), self.cost);
        }
        run.admitted.sort_unstable();
        run
    }

    fn calls(&self) -> u64 {
        self.central.0.lock().calls
    }

    /// The most that all gateways may hold together.
    fn slack(&self) -> f64 {
        0.05 * (self.rule.capacity + self.rule.refill_per_second)
    }
}

impl Run {
    fn note(&mut self, (at, decision): (u64, Decision), cost: u32) {
        if decision.allowed {
            self.admitted.push((at, cost));
        }
        self.decided.push(decision);
    }

    fn tokens(&self) -> f64 {
        self.admitted.iter().map(|(_, cost)| f64::from(*cost)).sum()
    }

    /// What one bucket here would have let through of the same requests.
    fn ideal(&self, bucket: &mut Bucket, rule: &Rule, cost: u32) -> f64 {
        let took = self
            .came
            .iter()
            .map(|came| bucket.take(rule, &Ask::one(cost), *came).granted);
        took.map(f64::from).sum()
    }

    /// The most that any window lets through beyond C + r·T.
    fn excess(&self, rule: &Rule) -> f64 {
        let mut worst = f64::MIN;
        // The lowest of what was admitted before a window less what had come back by then.
        let mut lowest = f64::MAX;
        let mut sum = 0.0;
        for (at, cost) in &self.admitted {
            let came_back = *at as f64 / 1e9 * rule.refill_per_second;
            lowest = lowest.min(sum - came_back);
            sum += f64::from(*cost);
            worst = worst.max(sum - came_back - lowest - rule.capacity);
        }
        worst
    }
}

fn even() -> Vec<f64> {
    vec![1.0; GATEWAYS as usize]
}

fn skewed() -> Vec<f64> {
    (1..=GATEWAYS).map(|place| 1.0 / f64::from(place)).collect()
}

fn one_hot() -> Vec<f64> {
    let mut weights = vec![0.0; GATEWAYS as usize];
    weights[7] = 1.0;
    weights
}

fn rule(capacity: u32, refill: f64) -> Rule {
    Rule::new(capacity, refill).unwrap()
}

/// Capacity, refill, and for how long it is tried.
const RULES: [(u32, f64, u64); 7] = [
    (2, 1.0, 60),
    (20, 10.0, 30),
    (100, 50.0, 10),
    (1_000, 500.0, 4),
    (4_000, 2_000.0, 4),
    (40_000, 20_000.0, 3),
    (100, 20_000.0, 2),
];

#[tokio::test(start_paused = true)]
async fn over_the_limit_the_cluster_admits_what_one_bucket_would() {
    for (capacity, refill, seconds) in RULES {
        for (shape, weights) in [
            ("even", even()),
            ("skewed", skewed()),
            ("one hot", one_hot()),
        ] {
            for (cost, times) in [(1, 1.5), (1, 4.0), (5, 2.0)] {
                // Tokio's timers count milliseconds, so that a round trip takes one here: too long
                // for one gateway to keep a bucket from running over that is full in five.
                let too_coarse = refill > 100.0 * f64::from(capacity) && shape == "one hot";
                if cost > capacity || too_coarse {
                    continue;
                }
                let rule = rule(capacity, refill);
                let mut cluster = Cluster::new(rule, cost, 1);
                let per_second = times * refill / f64::from(cost);
                // Until the burst is spent.
                let warm = f64::from(capacity) / (times - 1.0) / refill * 1.5;
                let warm = Duration::from_secs_f64(warm);
                let began = cluster.central.1.now();
                let before = cluster.run(per_second, &weights, warm).await;
                let time = Duration::from_secs(seconds);
                let run = cluster.run(per_second, &weights, time).await;
                let what = format!("{capacity}/{refill} cost {cost} × {times} {shape}");

                let mut ideal = Bucket::new(&rule, None, began);
                before.ideal(&mut ideal, &rule, cost);
                let expected = run.ideal(&mut ideal, &rule, cost);
                let error = run.tokens() / expected - 1.0;
                // Of a few tokens one more or less is a few percent.
                let grain = 2.0 * f64::from(cost) / expected;
                assert!(error.abs() <= 0.02 + grain, "{what}: {error:+.4}");
                let excess = before.excess(&rule).max(run.excess(&rule));
                assert!(excess <= cluster.slack() + 1e-6, "{what}: {excess}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn below_the_limit_nobody_is_rejected() {
    for (capacity, refill, seconds) in RULES {
        // What arrives at random now and then exceeds a small burst, in one bucket as well.
        if capacity < 100 {
            continue;
        }
        for weights in [even(), skewed(), one_hot()] {
            let rule = rule(capacity, refill);
            let mut cluster = Cluster::new(rule, 1, 2);
            let run = cluster
                .run(0.5 * refill, &weights, Duration::from_secs(seconds))
                .await;
            assert_eq!(
                run.admitted.len() as u64,
                run.requests,
                "{capacity}/{refill}"
            );
            let by_store = run
                .decided
                .iter()
                .filter(|decision| decision.source == Source::Fallback);
            assert_eq!(by_store.count(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cold_burst_passes_whole_as_far_as_one_bucket_would_let_it() {
    for (capacity, refill, requests) in [
        (20, 1.0 / 60.0, 15),
        (100, 1.0, 100),
        (400, 10.0, 400),
        (4_000, 2_000.0, 4_000),
    ] {
        let mut cluster = Cluster::new(rule(capacity, refill), 1, 3);
        let run = cluster
            .run(f64::from(requests), &even(), Duration::from_secs(1))
            .await;
        let most = f64::from(capacity) + refill;
        let expected = (run.requests as f64).min(most.floor());
        assert!(
            run.tokens() >= expected - 1.0,
            "{capacity}: {} of {expected}",
            run.tokens()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_hoards_and_then_bursts_gets_no_more_than_the_bound() {
    for (capacity, refill, light, each) in [
        (100, 50.0, 40.0, 15),
        (1_000, 500.0, 450.0, 150),
        (40_000, 20_000.0, 15_000.0, 6_000),
    ] {
        let rule = rule(capacity, refill);
        let mut cluster = Cluster::new(rule, 1, 4);
        let light = cluster.run(light, &even(), Duration::from_secs(2)).await;
        // All gateways at one moment, three times the capacity together.
        let burst = cluster
            .run(
                f64::from(each * GATEWAYS) * 100.0,
                &even(),
                Duration::from_millis(10),
            )
            .await;
        let mut both = light;
        both.admitted.extend(burst.admitted);
        let excess = both.excess(&rule);
        assert!(
            excess <= cluster.slack() + 1e-6,
            "{capacity}/{refill}: {excess}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn hot_keys_ask_the_store_for_one_request_in_forty() {
    let mut cluster = Cluster::new(rule(40_000, 20_000.0), 1, 5);
    // 1,000 a second at each gateway.
    let run = cluster
        .run(20_000.0 * 0.9, &even(), Duration::from_secs(1))
        .await;
    let before = cluster.calls();
    let time = Duration::from_secs(3);
    let hot = cluster.run(20_000.0, &even(), time).await;
    let per_request = (cluster.calls() - before) as f64 / hot.requests as f64;
    assert_eq!(run.admitted.len() as u64, run.requests);
    assert!(per_request <= 1.0 / 40.0, "{per_request}");
}

#[tokio::test(start_paused = true)]
async fn who_hammers_an_empty_bucket_causes_few_calls() {
    // Rules that lease, and rules that do not.
    for (capacity, refill) in [(20, 0.1), (1_000, 1.0), (40_000, 100.0)] {
        let mut cluster = Cluster::new(rule(capacity, refill), 1, 6);
        cluster
            .run(
                f64::from(capacity) * 2.0,
                &one_hot(),
                Duration::from_secs(1),
            )
            .await;
        let in_vain = |cluster: &Cluster| cluster.central.0.lock().in_vain;
        let before = in_vain(&cluster);
        let time = Duration::from_secs(4);
        cluster.run(5_000.0, &one_hot(), time).await;
        let calls = in_vain(&cluster) - before;
        assert!(calls <= 4 * 100, "{capacity}/{refill}: {calls}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_its_tokens_and_makes_none() {
    let rule = rule(4_000, 2_000.0);
    let mut cluster = Cluster::new(rule, 1, 7);
    cluster.central.0.lock().lost = Some(50);
    let run = cluster.run(6_000.0, &even(), Duration::from_secs(4)).await;
    // What was decided by a share while nobody knew is owed; an answer that is lost pays nothing.
    let fallback = run
        .decided
        .iter()
        .filter(|d| d.source == Source::Fallback && d.allowed)
        .count();
    let excess = run.excess(&rule) - fallback as f64;
    assert!(excess <= cluster.slack() + 1e-6, "{excess}");
    assert!(
        run.tokens() >= 0.85 * (4_000.0 + 4.0 * 2_000.0),
        "{}",
        run.tokens()
    );
}

#[tokio::test(start_paused = true)]
async fn leases_go_back_when_idle_and_when_the_gateways_end() {
    let rule = rule(40_000, 20_000.0);
    let mut cluster = Cluster::new(rule, 1, 8);
    let held = |cluster: &Cluster| -> u64 {
        cluster
            .gateways
            .iter()
            .map(|gateway| gateway.leased_tokens())
            .sum()
    };
    cluster.run(20_000.0, &even(), Duration::from_secs(1)).await;
    assert!(held(&cluster) > 100);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(held(&cluster), 0, "idle");

    cluster.run(20_000.0, &even(), Duration::from_secs(1)).await;
    for gateway in &cluster.gateways {
        gateway.close(Duration::from_secs(1)).await;
    }
    assert_eq!(held(&cluster), 0);
    let leased = cluster
        .gateways
        .iter()
        .map(|gateway| &gateway.counters().leased);
    assert!(leased.clone().all(|leased| leased.expired.get() == 0));
    assert!(leased.clone().any(|leased| leased.returned.get() > 0));
    // And the bucket is full again: nothing was lost on the way.
    sleep(Duration::from_secs(2)).await;
    let mut state = cluster.central.0.lock();
    let now = cluster.central.1.now();
    let all = Ask {
        count: 40_000,
        ..Ask::one(1)
    };
    assert_eq!(state.bucket.take(&rule, &all, now).granted, 40_000);
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_frees_a_saturated_client_at_once_and_a_lowered_one_bites() {
    let low = rule(1_000, 1_000.0);
    let mut cluster = Cluster::new(low, 1, 9);
    cluster
        .run(4_000.0, &one_hot(), Duration::from_secs(2))
        .await;
    cluster.rule = rule(4_000, 4_000.0);
    let raised = cluster
        .run(3_900.0, &one_hot(), Duration::from_secs(2))
        .await;
    // The bucket goes on where it was: nearly all of what arrives passes, from the start on.
    let share = raised.admitted.len() as f64 / raised.requests as f64;
    assert!(share > 0.97, "{share}");
    cluster.rule = low;
    let lowered = cluster
        .run(4_000.0, &one_hot(), Duration::from_secs(2))
        .await;
    assert!(
        lowered.tokens() <= 1_000.0 + 2.0 * 1_000.0,
        "{}",
        lowered.tokens()
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_client_is_told_stays_between_nothing_and_the_capacity() {
    for (capacity, refill) in [(100, 50.0), (1_000, 500.0), (40_000, 20_000.0)] {
        let mut cluster = Cluster::new(rule(capacity, refill), 1, 10);
        let run = cluster
            .run(2.0 * refill, &skewed(), Duration::from_secs(3))
            .await;
        for decision in &run.decided {
            assert!(decision.remaining() <= u64::from(capacity));
            assert_eq!(decision.allowed, decision.retry_after.is_none());
            if !decision.allowed {
                assert_eq!(decision.remaining(), 0);
                assert!(decision.retry_after_seconds().unwrap() >= 1);
            }
        }
    }
}

fn two_hot() -> Vec<f64> {
    let mut weights = vec![0.0; GATEWAYS as usize];
    (weights[3], weights[11]) = (1.0, 1.0);
    weights
}

#[tokio::test(start_paused = true)]
async fn a_bucket_in_ten_parts_is_one_limit() {
    for (capacity, refill) in [(40_000, 20_000.0), (2_000, 20_000.0)] {
        for (shape, weights) in [("even", even()), ("two hot", two_hot())] {
            for times in [0.95, 2.0] {
                // Two gateways with calls of two milliseconds cannot keep up with parts that are
                // full in ten; see `over_the_limit_the_cluster_admits_what_one_bucket_would`.
                if capacity == 2_000 && shape == "two hot" {
                    continue;
                }
                let rule = rule(capacity, refill).with_shards(10);
                let mut cluster = Cluster::new(rule, 1, 11);
                let began = cluster.central.1.now();
                let warm = if times > 1.0 {
                    f64::from(capacity) / refill / (times - 1.0) * 3.0
                } else {
                    1.0
                };
                let before = cluster
                    .run(times * refill, &weights, Duration::from_secs_f64(warm))
                    .await;
                // Levels go up and down by some hundred tokens: that much is no error of the rate.
                let time = Duration::from_secs(4);
                let run = cluster.run(times * refill, &weights, time).await;
                let mut ideal = Bucket::new(&rule, None, began);
                before.ideal(&mut ideal, &rule, 1);
                let error = run.tokens() / run.ideal(&mut ideal, &rule, 1) - 1.0;
                let what = format!("{capacity}/{refill} × {times} {shape}: {error:+.4}");
                assert!(error.abs() <= 0.01, "{what}");
                let excess = before.excess(&rule).max(run.excess(&rule));
                assert!(excess <= cluster.slack() + 1e-6, "{what}: {excess}");
                let state = cluster.central.0.lock();
                assert_eq!(state.parts.len(), 10, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_gateway_goes_round_all_parts() {
    let rule = rule(4_000, 2_000.0).with_shards(10);
    for per_second in [40.0, 1_500.0] {
        let mut cluster = Cluster::new(rule, 1, 13);
        cluster
            .run(per_second, &one_hot(), Duration::from_secs(5))
            .await;
        let state = cluster.central.0.lock();
        let most = state.asked.values().max().unwrap();
        let least = state.asked.values().min().unwrap();
        assert_eq!(state.asked.len(), 10, "{:?}", state.asked);
        assert!(most - least <= 2, "{:?}", state.asked);
    }
}

#[tokio::test(start_paused = true)]
async fn parts_that_are_away_leave_the_others_limit_whole() {
    let rule = rule(4_000, 2_000.0).with_shards(10);
    let mut cluster = Cluster::new(rule, 1, 14);
    cluster.central.0.lock().away = 3;
    cluster.run(1_250.0, &even(), Duration::from_secs(6)).await;
    // By now nobody asks the nodes that are away: seven tenths of the limit are left, and all of them
    // are found.
    let run = cluster.run(1_250.0, &even(), Duration::from_secs(4)).await;
    let share = run.admitted.len() as f64 / run.requests as f64;
    assert!(share > 0.999, "{share}");
    let fallback = |decision: &&Decision| decision.source == Source::Fallback;
    assert_eq!(run.decided.iter().filter(fallback).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_small_bucket_is_split_into_as_many_parts_as_hold_fifty() {
    for (capacity, parts) in [(99, 0), (100, 2), (499, 9), (10, 0)] {
        let rule = rule(capacity, 0.001).with_shards(16);
        let mut cluster = Cluster::new(rule, 1, 12);
        let run = cluster
            .run(f64::from(capacity) * 4.0, &even(), Duration::from_secs(1))
            .await;
        assert_eq!(cluster.central.0.lock().parts.len(), parts, "{capacity}");
        // The last tokens may lie in parts that were not asked.
        let passed = run.tokens();
        assert!(passed <= f64::from(capacity), "{passed} of {capacity}");
        assert!(
            passed >= 0.9 * f64::from(capacity),
            "{passed} of {capacity}"
        );
    }
}
