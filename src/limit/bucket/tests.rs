use super::*;

fn rule(capacity: u32, refill_per_second: f64) -> Rule {
    Rule::new(capacity, refill_per_second).unwrap()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// A bucket and its rule, asked for one request at a time.
struct One {
    rule: Rule,
    bucket: Bucket,
}

impl One {
    fn new(capacity: u32, refill_per_second: f64) -> Self {
        let rule = rule(capacity, refill_per_second);
        Self {
            rule,
            bucket: Bucket::new(&rule, None, at(0)),
        }
    }

    fn take(&mut self, cost: u32, ms: u64) -> Grant {
        self.bucket.take(&self.rule, &Ask::one(cost), at(ms))
    }

    /// How many of the requests, one of cost 1 at each time, pass.
    fn passing(&mut self, times: impl IntoIterator<Item = u64>) -> usize {
        times
            .into_iter()
            .filter(|ms| self.take(1, *ms).granted == 1)
            .count()
    }
}

#[test]
fn capacity_2_refill_1_passes_two_then_one_a_second() {
    let mut bucket = One::new(2, 1.0);
    assert_eq!(bucket.take(1, 0).granted, 1);
    assert_eq!(bucket.take(1, 0).granted, 1);
    let denied = bucket.take(1, 0);
    assert_eq!((denied.granted, denied.wait), (0, Duration::from_secs(1)));
    let again = bucket.take(1, 1000);
    assert_eq!((again.granted, again.level), (1, 0.0));
}

#[test]
fn a_fast_bucket_gives_out_no_more_than_it_holds_at_one_instant() {
    assert_eq!(One::new(4, 10.0).passing([0; 1000]), 4);
}

#[test]
fn one_in_ten_seconds_is_one_in_ten_seconds() {
    let every_half_second = (0..=60).map(|n| n * 500);
    assert_eq!(One::new(1, 0.1).passing(every_half_second), 4);
}

#[test]
fn polling_an_empty_bucket_neither_delays_nor_hastens_it() {
    let mut bucket = One::new(1, 1.0);
    assert_eq!(bucket.take(1, 0).granted, 1);
    let every_tenth = (1..=600).map(|n| n * 100);
    assert_eq!(bucket.passing(every_tenth), 60);
}

#[test]
fn a_cost_above_the_level_takes_nothing() {
    let mut bucket = One::new(5, 1.0);
    assert_eq!(bucket.take(3, 0).granted, 3);
    let denied = bucket.take(5, 0);
    assert_eq!((denied.granted, denied.level), (0, 2.0));
    assert_eq!(bucket.take(2, 0).granted, 2, "the two are still there");
}

#[test]
fn a_burst_across_the_edge_of_a_second_gets_one_capacity() {
    let mut bucket = One::new(100, 100.0);
    let burst = (0..400).map(|n| 960 + n / 5);
    let passed = bucket.passing(burst);
    assert!((100..=108).contains(&passed), "{passed}");
}

#[test]
fn slow_rates_are_exact() {
    for (period, seconds) in [("minute", 60), ("hour", 3600), ("day", 86_400)] {
        let mut bucket = One::new(1, 1.0 / seconds as f64);
        assert_eq!(bucket.take(1, 0).granted, 1);
        let wait = bucket.take(1, 0).wait;
        assert_eq!(wait, Duration::from_secs(seconds), "one a {period}");
        let almost = seconds * 1000 - 1000;
        assert_eq!(bucket.take(1, almost).granted, 0, "one a {period}");
        assert_eq!(bucket.take(1, seconds * 1000).granted, 1, "one a {period}");
    }
}

#[test]
fn who_waits_as_long_as_was_said_passes_and_a_little_earlier_does_not() {
    for refill in [0.1, 0.3, 1.0 / 3.0, 0.7, 1.0, 3.0, 7.0, 33.3, 999.0] {
        let mut bucket = One::new(10, refill);
        assert_eq!(bucket.take(10, 0).granted, 10);
        let wait = bucket.take(7, 0).wait.as_millis() as u64;
        assert_eq!(bucket.take(7, wait - 1).granted, 0, "{refill}/s");
        assert_eq!(bucket.take(7, wait).granted, 7, "{refill}/s");
    }
}

#[test]
fn requests_come_before_extra_and_extra_is_a_part_of_what_is_left() {
    let rule = rule(100, 1.0);
    let mut bucket = Bucket::new(&rule, None, at(0));
    let ask = Ask {
        count: 10,
        extra: 50,
        divisor: 4,
        ..Ask::one(2)
    };
    // 20 for the requests; of the 80 that are left a quarter, as a multiple of the cost.
    let grant = bucket.take(&rule, &ask, at(0));
    assert_eq!((grant.granted, grant.level), (40, 60.0));
    let many = Ask {
        count: 100,
        ..Ask::one(7)
    };
    assert_eq!(bucket.take(&rule, &many, at(0)).granted, 56, "8 of 7 each");
}

#[test]
fn only_a_debt_takes_a_bucket_below_zero_and_no_further_than_its_capacity() {
    let rule = rule(10, 1.0);
    let mut bucket = Bucket::new(&rule, None, at(0));
    let debt = |debt| Ask {
        debt,
        ..Ask::one(1)
    };
    let grant = bucket.take(&rule, &debt(15), at(0));
    assert_eq!((grant.granted, grant.level), (0, 0.0));
    assert_eq!(grant.wait, Duration::from_secs(6), "5 below, and one more");
    let grant = bucket.take(&rule, &debt(1000), at(0));
    assert_eq!(grant.wait, Duration::from_secs(11), "at -10");
}

#[test]
fn a_seed_is_where_a_bucket_begins() {
    let rule = rule(10, 1.0);
    let level = |seed| {
        let ask = Ask::one(1);
        let mut bucket = Bucket::new(&rule, seed, at(0));
        bucket.take(&rule, &ask, at(0)).level
    };
    assert_eq!(level(None), 9.0);
    assert_eq!(level(Some(4.0)), 3.0);
    assert_eq!(level(Some(99.0)), 9.0);
    assert_eq!(level(Some(0.0)), 0.0);
}

#[test]
fn a_lowered_capacity_bites_at_once_and_a_raised_one_gives_no_fresh_burst() {
    let mut bucket = Bucket::new(&rule(100, 1.0), None, at(0));
    assert_eq!(bucket.take(&rule(10, 1.0), &Ask::one(1), at(0)).level, 9.0);
    assert_eq!(bucket.take(&rule(100, 1.0), &Ask::one(1), at(0)).level, 8.0);
}

#[test]
fn time_that_steps_back_counts_as_none() {
    let rule = rule(10, 1.0);
    let mut bucket = Bucket::new(&rule, None, at(5000));
    assert_eq!(bucket.take(&rule, &Ask::one(10), at(5000)).granted, 10);
    assert_eq!(bucket.take(&rule, &Ask::one(1), at(1000)).granted, 0);
}

#[test]
fn a_bucket_knows_when_it_is_full_again() {
    let rule = rule(10, 2.0);
    let mut bucket = Bucket::new(&rule, None, at(0));
    assert_eq!(bucket.full_at(&rule), at(0));
    bucket.take(&rule, &Ask::one(5), at(0));
    assert_eq!(bucket.full_at(&rule), at(2500));
}
