use super::super::model::asked;
use super::{Needs, TENANTS};
use crate::rules::ledger::Asked;

const REGIONS: [&str; 2] = ["eu", "us"];

fn learnt(periods: &[Vec<Asked>]) -> Needs {
    let mut needs = Needs::default();
    for period in periods {
        needs.learn(period, &REGIONS);
    }
    needs
}

#[track_caller]
fn about(number: f64, expected: f64) {
    assert!((number - expected).abs() < 1e-9, "{number}, not {expected}");
}

#[test]
fn demand_is_smoothed_and_has_room_to_grow() {
    let needs = learnt(&[
        asked("a", &[("eu", 0.4)]),
        asked("a", &[("eu", 0.8), ("us", 0.2)]),
    ]);
    about(needs.of_tenant("a", "eu"), 1.1 * 0.6);
    about(needs.of_tenant("a", "us"), 1.1 * 0.1);
    about(needs.of_all("eu"), 1.1 * 0.6);
    about(needs.of_tenant("nobody", "eu"), 0.0);
}

#[test]
fn an_attack_counts_for_two_limits() {
    let needs = learnt(&[asked("a", &[("eu", 20.0)])]);
    about(needs.of_tenant("a", "eu"), 2.2);
    about(needs.of_all("eu"), 2.2);
}

#[test]
fn nothing_is_learnt_of_a_region_that_is_not_heard_of() {
    let mut needs = learnt(&[asked("a", &[("eu", 0.4), ("us", 0.6)])]);
    needs.learn(&asked("a", &[("eu", 0.4)]), &["eu"]);
    about(needs.of_tenant("a", "us"), 1.1 * 0.6);
}

#[test]
fn of_all_limits_each_counts_as_it_is_large() {
    let mut demand = asked("a", &[("eu", 1.0)]);
    demand.extend(asked("b", &[("us", 1.0)]));
    demand[1].refill = 3_000.0;
    demand[1].demand = 3_000.0;
    let needs = learnt(&[demand]);
    about(needs.of_all("eu"), 1.1 * 0.25);
    about(needs.of_all("us"), 1.1 * 0.75);
    about(needs.of_tenant("b", "us"), 1.1);
}

#[test]
fn of_a_tenants_routes_the_one_counts_that_lacks_most() {
    let mut demand = asked("a", &[("eu", 0.9), ("us", 0.1)]);
    demand[1].route = "other".to_owned();
    demand[1].refill = 100.0;
    let needs = learnt(&[demand]);
    about(needs.of_tenant("a", "eu"), 1.1 * 0.9);
    about(needs.of_tenant("a", "us"), 1.1);
}

#[test]
fn the_busiest_hundred_tenants_have_needs_of_their_own_and_keep_them_for_a_while() {
    let period = |factor: f64| -> Vec<Asked> {
        let mut demand = Vec::new();
        for tenant in 0..TENANTS + 50 {
            let part = (tenant + 1) as f64 / 1_000.0;
            demand.extend(asked(&format!("t{tenant}"), &[("eu", part)]));
        }
        demand[49].demand *= factor;
        demand
    };
    let needs = learnt(&[period(1.0)]);
    assert_eq!(needs.tenants().count(), TENANTS);
    assert!(needs.tenants().all(|tenant| tenant != "t49"), "the 101st");
    assert!(needs.tenants().any(|tenant| tenant == "t50"));
    let needs = learnt(&[period(1.0), period(1.2)]);
    assert!(
        needs.tenants().any(|tenant| tenant == "t50"),
        "a little less"
    );
    let needs = learnt(&[period(1.0), period(10.0)]);
    assert!(needs.tenants().any(|tenant| tenant == "t49"));
    assert_eq!(needs.tenants().count(), TENANTS);
}
