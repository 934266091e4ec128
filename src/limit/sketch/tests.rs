use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// How many of `asked` requests, one a millisecond from `from` on, pass for one key.
fn passed(sketch: &Sketch, id: u64, rule: &Rule, n: u32, asked: u64, from: u64) -> u64 {
    let share = rule.share(n, 1);
    (0..asked)
        .map(|ms| u64::from(sketch.take(id, rule, &share, 1, at(from + ms)).granted))
        .sum()
}

#[test]
fn each_key_gets_its_share_a_second_and_what_was_rejected_does_not_count() {
    let sketch = Sketch::new();
    let rule = Rule::new(1_000, 100.0).unwrap();
    // 10 a second, of 900 asked.
    assert_eq!(passed(&sketch, 7, &rule, 10, 900, 1_000), 10);
    assert_eq!(passed(&sketch, 7, &rule, 10, 900, 2_000), 10);
    // A pause of any length leaves no old count behind.
    assert_eq!(passed(&sketch, 7, &rule, 10, 900, 7_000), 10);
}

#[test]
fn all_keys_of_a_rule_together_get_one_share() {
    let sketch = Sketch::new();
    let rule = Rule::new(1_000, 100.0).unwrap();
    let share = rule.share(10, 1);
    let passed: u32 = (0..100_000)
        .map(|id| {
            sketch
                .take(id, &rule, &share, 1, at(1_000 + id / 100))
                .granted
        })
        .sum();
    assert!((10..=20).contains(&passed), "{passed}");
}

#[test]
fn one_a_minute_is_one_a_second_for_all_keys_together() {
    let sketch = Sketch::new();
    let rule = Rule::new(5, 1.0 / 60.0).unwrap();
    let share = rule.share(20, 1);
    let passed: u32 = (0..60_000)
        .map(|ms| sketch.take(ms, &rule, &share, 1, at(ms)).granted)
        .sum();
    assert!((60..=61).contains(&passed), "{passed}");
}

#[test]
fn a_rejection_names_a_time_to_come_back() {
    let sketch = Sketch::new();
    let rule = Rule::new(10, 1.0).unwrap();
    let share = rule.share(1, 1);
    assert_eq!(sketch.take(1, &rule, &share, 1, at(1_250)).granted, 1);
    let same = sketch.take(1, &rule, &share, 1, at(1_300));
    assert_eq!((same.granted, same.wait), (0, Duration::from_millis(700)));
    let other = sketch.take(2, &rule, &share, 1, at(1_300));
    assert_eq!((other.granted, other.wait), (0, Duration::from_millis(950)));
}

#[test]
fn more_rules_than_places_share_one_bucket_and_take_no_more_memory() {
    let sketch = Sketch::new();
    for n in 1..10_000_u32 {
        let rule = Rule::new(n, 1.0).unwrap();
        sketch.take(u64::from(n), &rule, &rule.share(1, 1), 1, at(1));
    }
    assert!(sketch.overflow.lock().len() <= MAX_RULES + 1);
}
