use proptest::prelude::*;

use super::{Claim, grants};

fn claim(granted: f64, held: f64, target: f64) -> Claim {
    Claim {
        granted,
        held,
        target,
    }
}

#[test]
fn what_shrinks_goes_first_and_what_grows_waits_for_it() {
    let shrinking = [claim(0.7, 0.7, 0.5), claim(0.3, 0.3, 0.5)];
    assert_eq!(grants(&shrinking, 1.0), [0.5, 0.3]);
    let acknowledged = [claim(0.5, 0.5, 0.5), claim(0.3, 0.3, 0.5)];
    let next = grants(&acknowledged, 1.0);
    assert!(
        (next[0] - 0.5).abs() < 1e-9 && (next[1] - 0.5).abs() < 1e-9,
        "{next:?}"
    );
    let in_part = [claim(0.5, 0.6, 0.5), claim(0.3, 0.3, 0.5)];
    let next = grants(&in_part, 1.0);
    assert!((next[1] - 0.4).abs() < 1e-9, "{next:?}");
}

#[test]
fn a_region_may_have_back_what_it_still_holds() {
    let back = [claim(0.5, 0.7, 0.65), claim(0.3, 0.3, 0.35)];
    assert_eq!(grants(&back, 1.0), [0.65, 0.3]);
}

#[test]
fn nobody_grows_while_more_seems_to_be_held_than_there_is() {
    let unsettled = [
        claim(0.6, 0.6, 0.7),
        claim(0.3, 0.5, 0.5),
        claim(0.1, 0.1, 0.05),
    ];
    assert_eq!(grants(&unsettled, 1.0), [0.6, 0.3, 0.05]);
}

#[test]
fn who_grows_shares_what_is_free() {
    let growing = [
        claim(0.4, 0.4, 0.2),
        claim(0.2, 0.2, 0.3),
        claim(0.2, 0.2, 0.5),
    ];
    let next = grants(&growing, 1.0);
    assert!(
        (next[1] - 0.25).abs() < 1e-9 && (next[2] - 0.35).abs() < 1e-9,
        "{next:?}"
    );
}

proptest! {
    #[test]
    fn no_more_is_occupied_than_there_is(
        claims in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64), 1..6),
    ) {
        let most: f64 = claims.iter().map(|one| one.0.max(one.1)).sum::<f64>().max(1.0);
        let claims: Vec<Claim> = claims
            .iter()
            .map(|(granted, held, target)| claim(granted / most, held / most, *target))
            .collect();
        let next = grants(&claims, 1.0);
        let occupied: f64 = next.iter().zip(&claims).map(|(next, one)| next.max(one.held)).sum();
        prop_assert!(occupied <= 1.0 + 1e-9, "{next:?} {claims:?}");
        for (next, one) in next.iter().zip(&claims) {
            let (low, high) = (one.granted.min(one.target), one.granted.max(one.target));
            prop_assert!(*next >= low.min(one.held) - 1e-9 && *next <= high + 1e-9);
        }
    }
}
