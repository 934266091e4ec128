use proptest::prelude::*;

use super::*;

#[test]
fn as_many_parts_as_hold_fifty_tokens_and_two_requests_each() {
    for (shards, capacity, cost, parts) in [
        (10, 20_000.0, 1, 10),
        (16, 10.0, 1, 1),
        (16, 799.0, 1, 15),
        (16, 800.0, 1, 16),
        (10, 997.0, 1, 10),
        (10, 1_000.0, 100, 5),
        (10, 1_000.0, 600, 1),
        (1, 1e9, 1, 1),
        (0, 1e9, 1, 1),
        (10, 1e9, u32::MAX, 1),
    ] {
        assert_eq!(
            count(shards, capacity, cost),
            parts,
            "{shards} {capacity} {cost}"
        );
    }
}

#[test]
fn who_only_looks_takes_no_turn_and_keys_do_not_take_each_others() {
    let turns = Turns::new(7);
    assert_eq!(turns.peek(1).part(10), turns.next(1).part(10));
    let before = turns.peek(1).part(10);
    for _ in 0..5 {
        turns.peek(1);
        turns.next(2);
    }
    assert_eq!(turns.peek(1).part(10), before);
    assert_eq!((turns.next(3).part(1), turns.next(3).part(0)), (0, 0));
}

#[test]
fn the_calls_of_parts_that_are_away_fall_on_all_others_alike() {
    let turns = Turns::new(u32::MAX - 5_000);
    let others = [3, 4, 5, 6, 7, 8, 9];
    let mut asked = [0_u32; 10];
    for _ in 0..10_000 {
        let turn = turns.next(0);
        let part = turn.part(10);
        let part = if part < 3 {
            turn.instead(&others).expect("another part")
        } else {
            part
        };
        asked[part as usize] += 1;
    }
    assert_eq!(asked[..3], [0; 3]);
    let even = 10_000 / 7;
    for times in &asked[3..] {
        assert!(times.abs_diff(even) < even / 10, "{asked:?}");
    }
    assert_eq!(turns.next(0).instead::<u32>(&[]), None);
}

proptest! {
    #[test]
    fn no_part_is_too_small_and_there_is_no_room_for_more(
        shards in 1_u32..1_000,
        capacity in 1_u32..10_000_000,
        cost in 1_u32..10_000,
    ) {
        let capacity = f64::from(capacity);
        let parts = count(shards, capacity, cost);
        prop_assert!((1..=shards).contains(&parts));
        let smallest = f64::from(50.max(2 * cost));
        if parts > 1 {
            prop_assert!(capacity / f64::from(parts) >= smallest);
        }
        if parts < shards {
            prop_assert!(capacity / f64::from(parts + 1) < smallest);
        }
    }

    #[test]
    fn the_parts_make_up_the_whole(
        parts in 1_u32..1_000,
        capacity in 1_u32..10_000_000,
        refill in 1e-6_f64..1e6,
        level in 0.0_f64..1e7,
    ) {
        let rule = Rule::new(capacity, refill).expect("a rule");
        let one = part(&rule, parts);
        let close = |sum: f64, whole: f64| (sum - whole).abs() <= whole * 1e-12;
        prop_assert!(close(one.capacity * f64::from(parts), rule.capacity));
        prop_assert!(close(one.refill_per_second * f64::from(parts), refill));
        prop_assert!(close(seed(level, parts) * f64::from(parts), level));
        prop_assert_eq!((one.version, one.shadow), (rule.version, rule.shadow));
    }

    #[test]
    fn calls_go_round_evenly_from_wherever_they_begin(
        start in any::<u32>(),
        count in 1_u32..50,
        rounds in 1_u32..20,
    ) {
        // The turn that wraps around may skip parts, once in four thousand million calls.
        prop_assume!(start < u32::MAX - count * rounds - 64);
        let turns = Turns::new(start);
        let mut asked = vec![0_u32; count as usize];
        for _ in 0..count * rounds {
            asked[turns.next(0).part(count) as usize] += 1;
        }
        // The first round may begin, and the last one end, within.
        prop_assert!(asked.iter().all(|times| times.abs_diff(rounds) <= 1), "{asked:?}");
    }
}
