use super::*;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1_000)
}

#[test]
fn it_settles_at_what_arrives() {
    for (every_micros, tokens, expected) in
        [(1_000, 1, 1_000.0), (100, 5, 50_000.0), (10_000, 1, 100.0)]
    {
        let mut rate = Rate::new(0.0, at(0));
        let mut now = 0;
        while now < 1_000_000 {
            now += every_micros;
            rate.observe(tokens, at(now));
        }
        // Half an arrival later, for it jumps with each.
        let settled = rate.now(at(now + every_micros / 2));
        assert!(
            (settled / expected - 1.0).abs() < 0.01,
            "{settled} for {expected}"
        );
    }
}

#[test]
fn it_falls_when_nothing_arrives() {
    let rate = Rate::new(1_000.0, at(0));
    assert_eq!(rate.now(at(0)), 1_000.0);
    assert!((rate.now(at(100_000)) - 367.9).abs() < 0.1);
    assert!(rate.now(at(1_000_000)) < 0.1);
}

#[test]
fn the_series_is_as_good_as_the_function() {
    for thousandths in 0..2_000 {
        let x = f64::from(thousandths) / 1_000.0;
        assert!((decay(x) - (-x).exp()).abs() < 1.1e-5, "{x}");
    }
}

#[test]
fn a_clock_that_another_thread_read_earlier_does_no_harm() {
    let mut rate = Rate::new(0.0, at(0));
    rate.observe(1, at(1_000));
    rate.observe(1, at(900));
    assert_eq!(rate.last_arrival(), at(1_000));
    assert!(rate.now(at(1_000)) > 19.0);
}
