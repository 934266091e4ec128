use proptest::prelude::*;

use super::{Standing, ideal, targets, total};
use crate::rules::share::FLOOR;

fn standing(base: f64, need: f64, share: f64) -> Standing {
    Standing {
        base,
        need,
        share,
        heard: true,
    }
}

fn close(shares: &[f64], expected: &[f64]) -> bool {
    shares.len() == expected.len()
        && shares
            .iter()
            .zip(expected)
            .all(|(one, other)| (one - other).abs() < 1e-9)
}

#[test]
fn each_gets_what_it_needs_up_to_its_base_then_what_is_idle() {
    let shares =
        |one: f64, other: f64| ideal(&[standing(0.7, one, 0.7), standing(0.3, other, 0.3)]);
    assert!(
        close(&shares(2.0, 2.0), &[0.7, 0.3]),
        "both want more than there is"
    );
    assert!(
        close(&shares(0.2, 2.0), &[0.2, 0.8]),
        "the idle rest is lent"
    );
    assert!(close(&shares(2.0, 0.1), &[0.9, 0.1]));
    assert!(
        close(&shares(0.0, 2.0), &[FLOOR, 1.0 - FLOOR]),
        "never below the floor"
    );
    assert!(close(
        &shares(0.0, 0.0),
        &[FLOOR + 0.9 * 0.7, FLOOR + 0.9 * 0.3]
    ));
    assert!(
        close(&shares(0.2, 0.4), &[0.2 + 0.4 * 0.7, 0.4 + 0.4 * 0.3]),
        "surplus by base"
    );
}

#[test]
fn the_idle_rest_goes_by_what_is_lacking() {
    let regions = [
        standing(0.6, 0.1, 0.6),
        standing(0.2, 0.5, 0.2),
        standing(0.2, 1.7, 0.2),
    ];
    assert!(close(
        &ideal(&regions),
        &[0.1, 0.2 + 0.5 / 6.0, 0.2 + 2.5 / 6.0]
    ));
}

#[test]
fn a_region_that_is_not_heard_of_is_frozen_at_most_at_its_base() {
    let mut regions = [standing(0.5, 2.0, 0.9), standing(0.5, 2.0, 0.1)];
    regions[0].heard = false;
    assert!(close(&ideal(&regions), &[0.5, 0.5]));
    regions[0].share = 0.2;
    assert!(close(&ideal(&regions), &[0.2, 0.8]));
}

#[test]
fn shares_move_by_at_most_twenty_points_and_not_for_two() {
    let regions = [standing(0.5, 0.05, 0.5), standing(0.5, 2.0, 0.5)];
    assert!(close(&targets(&regions), &[0.3, 0.7]));
    let regions = [standing(0.5, 0.05, 0.06), standing(0.5, 2.0, 0.94)];
    assert!(close(&targets(&regions), &[0.06, 0.94]));
    let regions = [standing(0.5, 0.05, 0.08), standing(0.5, 2.0, 0.92)];
    assert!(close(&targets(&regions), &[0.05, 0.95]));
}

#[test]
fn base_shares_that_sum_to_less_keep_the_rest_for_a_region_that_is_not_here_yet() {
    let regions = [standing(0.5, 3.0, 0.5), standing(0.2, 0.0, 0.2)];
    assert!(close(&ideal(&regions), &[0.65, 0.05]));
    assert!((total([0.5, 0.2].into_iter()) - 0.7).abs() < 1e-9);
}

proptest! {
    #[test]
    fn targets_sum_to_what_there_is_and_none_is_below_the_floor(
        weights in prop::collection::vec((1.0..6.0f64, 0.0..3.0f64, 0.0..1.0f64, prop::bool::weighted(0.8)), 1..6),
    ) {
        let sum: f64 = weights.iter().map(|one| one.0).sum();
        let shares: f64 = weights.iter().map(|one| one.2 + 0.1).sum();
        let room = 1.0 - FLOOR * weights.len() as f64;
        let regions: Vec<Standing> = weights
            .iter()
            .map(|(base, need, share, heard)| Standing {
                base: FLOOR + room * base / sum,
                need: *need,
                share: FLOOR + room * (share + 0.1) / shares,
                heard: *heard,
            })
            .collect();
        for shares in [targets(&regions), ideal(&regions)] {
            let sum: f64 = shares.iter().sum();
            prop_assert!(sum <= 1.0 + 1e-9, "{shares:?}");
            prop_assert!(shares.iter().all(|share| *share >= FLOOR - 1e-9), "{shares:?}");
        }
        for (share, region) in ideal(&regions).iter().zip(&regions) {
            if region.heard {
                prop_assert!(*share >= region.need.min(region.base) - 1e-9);
            } else {
                prop_assert!(*share <= region.base + 1e-9);
            }
        }
    }
}
