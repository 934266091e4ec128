//! What holds of shares whatever happens, and in whichever order.

use proptest::prelude::*;

use super::*;
use crate::region::need::Needs;
use crate::region::target::{Standing, ideal};

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Ask(usize),
    AskInVain(usize),
    ArriveLate(usize),
    Hear(usize),
    Lose(usize),
    Tick(usize),
    Write(usize),
    Rebalance(usize, u8, u8, bool),
    Replace(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let gateway = 0usize..6;
    prop_oneof![
        4 => (1u64..6_000).prop_map(Step::Pass),
        1 => (6_000u64..60_000).prop_map(Step::Pass),
        4 => gateway.clone().prop_map(Step::Ask),
        1 => gateway.clone().prop_map(Step::AskInVain),
        1 => gateway.clone().prop_map(Step::ArriveLate),
        4 => gateway.clone().prop_map(Step::Hear),
        1 => gateway.clone().prop_map(Step::Lose),
        6 => gateway.clone().prop_map(Step::Tick),
        3 => gateway.clone().prop_map(Step::Write),
        4 => (gateway.clone(), 0u8..40, 0u8..40, any::<bool>())
            .prop_map(|(g, one, other, a)| Step::Rebalance(g, one, other, a)),
        1 => gateway.prop_map(Step::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever arrives, is late or is lost, whoever writes, whoever ends and is replaced, and
    /// however long everybody stands still: no share is below the floor, and all sum to at most 1.
    #[test]
    fn shares_sum_to_at_most_one_in_every_interleaving(
        three in any::<bool>(),
        // The others come later, one by one.
        alone in any::<bool>(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let bases: &[(&str, f64)] = if three {
            &[("ap", 0.2), ("eu", 0.5), ("us", 0.3)]
        } else {
            &BASES
        };
        let mut world = World::new(bases);
        let there = if alone { 2 } else { world.gateways.len() };
        let there: Vec<usize> = (0..there).collect();
        world.periods(1, &there, &asked("a", &[("eu", 0.2), ("us", 1.0)]));
        for step in steps {
            let now = world.now;
            let n = world.gateways.len();
            let database = &mut world.database;
            let gateways = &mut world.gateways;
            match step {
                Step::Pass(ms) => world.now += Duration::from_millis(ms),
                Step::Ask(g) => gateways[g % n].ask(database, now),
                Step::AskInVain(g) => gateways[g % n].ask_in_vain(),
                Step::ArriveLate(g) => gateways[g % n].arrive_late(database),
                Step::Hear(g) => gateways[g % n].hear(database),
                Step::Lose(g) => gateways[g % n].lose(),
                Step::Tick(g) => gateways[g % n].tick(database, now),
                Step::Write(g) => gateways[g % n].write(database, None, now),
                Step::Rebalance(g, eu, us, a) => {
                    let parts = [("eu", f64::from(eu) / 20.0), ("us", f64::from(us) / 20.0)];
                    let demand = asked(if a { "a" } else { "b" }, &parts);
                    gateways[g % n].write(database, Some(&demand), now);
                }
                Step::Replace(g) => {
                    let (region, base) = (gateways[g % n].region.clone(), gateways[g % n].base);
                    world.gateways[g % n] = world.start(&region, base);
                }
            }
            world.check();
        }
    }

    /// From wherever shares and remembered demand are, seven periods of steady demand bring the
    /// shares to within 5 points of where they belong.
    #[test]
    fn shares_converge_within_seven_periods(
        base in 0.1..0.9f64,
        before in (0.0..20.0f64, 0.0..20.0f64),
        after in (0.0..3.0f64, 0.0..3.0f64),
    ) {
        let mut world = World::new(&[("eu", base), ("us", 1.0 - base)]);
        let all = [0, 1, 2, 3];
        world.periods(12, &all, &asked("a", &[("eu", before.0), ("us", before.1)]));
        let demand = asked("a", &[("eu", after.0), ("us", after.1)]);
        world.periods(7, &all, &demand);

        let mut needs = Needs::default();
        needs.learn(&demand, &["eu", "us"]);
        let standing = |region: &str, base: f64| Standing {
            base,
            need: needs.of_tenant("a", region),
            share: world.share(region, "a"),
            heard: true,
        };
        let ideal = ideal(&[standing("eu", base), standing("us", 1.0 - base)]);
        for (region, ideal) in ["eu", "us"].iter().zip(ideal) {
            for tenant in ["a", "anybody"] {
                let share = world.share(region, tenant);
                prop_assert!((share - ideal).abs() <= 0.05, "{region}: {share}, not {ideal}");
            }
        }
    }

    /// An attack of twenty times the limit in one region leaves the other at least 99 % of what it
    /// needs, up to its base share, from its first period on.
    #[test]
    fn an_attack_takes_nothing_that_another_region_needs_of_its_own(
        base in 0.1..0.9f64,
        need in 0.02..1.0f64,
    ) {
        let mut world = World::new(&[("eu", base), ("us", 1.0 - base)]);
        let all = [0, 1, 2, 3];
        world.periods(12, &all, &asked("a", &[("eu", need), ("us", 0.1)]));
        for _ in 0..12 {
            world.periods(1, &all, &asked("a", &[("eu", need), ("us", 20.0)]));
            let share = world.share("eu", "a");
            prop_assert!(share >= 0.99 * need.min(base), "{share} of {need}, base {base}");
        }
    }
}
