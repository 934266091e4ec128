use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn it_rises_at_once_and_falls_after_half_a_minute_to_the_most_that_were_heard_of() {
    let n = Instances::new(2);
    assert_eq!(n.get(), 2);
    n.heard(1, at(0));
    assert_eq!(n.get(), 2, "never below what it began with");
    n.heard(5, at(2));
    assert_eq!(n.get(), 5);
    for second in (4..34).step_by(2) {
        n.heard(if second == 10 { 4 } else { 3 }, at(second));
        assert_eq!(n.get(), 5, "{second}");
    }
    n.heard(3, at(34));
    assert_eq!(n.get(), 4);
    for second in (36..=66).step_by(2) {
        n.heard(1, at(second));
    }
    assert_eq!(n.get(), 2);
}

#[test]
fn it_stays_while_nothing_is_heard_and_for_half_a_minute_afterwards() {
    let n = Instances::new(1);
    n.heard(3, at(0));
    for second in (2..28).step_by(2) {
        n.heard(2, at(second));
    }
    n.missed();
    for second in (30..58).step_by(2) {
        n.heard(2, at(second));
        assert_eq!(n.get(), 3, "{second}");
    }
    n.heard(2, at(60));
    assert_eq!(n.get(), 2);
}

#[test]
fn none_at_all_is_one() {
    assert_eq!(Instances::new(0).get(), 1);
}

proptest! {
    #[test]
    fn it_is_never_below_what_was_just_heard_nor_below_its_least(
        least in 1_u32..5, heard in proptest::collection::vec(proptest::option::of(0_u32..30), 1..100)
    ) {
        let n = Instances::new(least);
        let mut before = n.get();
        for (turn, count) in heard.into_iter().enumerate() {
            match count {
                Some(count) => n.heard(count, at(turn as u64 * 2)),
                None => n.missed(),
            }
            prop_assert!(n.get() >= count.unwrap_or(0).max(least));
            if count.is_none() {
                prop_assert_eq!(n.get(), before);
            }
            before = n.get();
        }
    }
}
