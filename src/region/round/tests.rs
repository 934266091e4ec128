use std::time::Duration;

use proptest::prelude::*;

use super::super::model::{Database, Gateway, PERIOD, TICK, asked};
use super::super::need::Needs;
use super::super::target::{Standing, ideal};
use crate::rules::ledger::Asked;
use crate::rules::share::FLOOR;

const MINUTE: Duration = Duration::from_secs(60);

/// Gateways of some regions, two in each, and the database.
struct World {
    database: Database,
    gateways: Vec<Gateway>,
    now: Duration,
    started: u64,
}

impl World {
    fn new(bases: &[(&str, f64)]) -> Self {
        let mut world = Self {
            database: Database::default(),
            gateways: Vec::new(),
            now: Duration::from_secs(1),
            started: 0,
        };
        for (region, base) in bases {
            for _ in 0..2 {
                let gateway = world.start(region, *base);
                world.gateways.push(gateway);
            }
        }
        world
    }

    fn start(&mut self, region: &str, base: f64) -> Gateway {
        self.started += 1;
        let ahead = MINUTE * (self.started * 7 % 11) as u32;
        Gateway::start(region, base, &format!("g{}", self.started), 2, ahead)
    }

    /// A time in which everybody is well. The writer is the first of `gateways`.
    fn periods(&mut self, periods: u32, gateways: &[usize], demand: &[Asked]) {
        for _ in 0..periods {
            for tick in 0..PERIOD.as_millis() / TICK.as_millis() {
                for place in gateways {
                    self.gateways[*place].tick(&mut self.database, self.now);
                }
                let demand = (tick == 0).then_some(demand);
                self.gateways[gateways[0]].write(&mut self.database, demand, self.now);
                for place in gateways {
                    self.gateways[*place].tick(&mut self.database, self.now);
                }
                self.now += TICK;
                self.check();
            }
        }
    }

    /// The largest share of a tenant's limit that a gateway of the region has in force.
    fn share(&self, region: &str, tenant: &str) -> f64 {
        let own = self.gateways.iter().filter(|one| one.region == region);
        own.map(|one| one.share(tenant, self.now))
            .fold(0.0, f64::max)
    }

    fn regions(&self) -> Vec<String> {
        let mut names: Vec<String> = self.gateways.iter().map(|g| g.region.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What must be so at every moment.
    #[track_caller]
    fn check(&self) {
        for tenant in ["a", "b", "anybody"] {
            let shares = self.regions().into_iter().map(|region| {
                let share = self.share(&region, tenant);
                assert!(share >= FLOOR - 1e-9, "{region} has {share} of {tenant}'s");
                share
            });
            let sum: f64 = shares.sum();
            assert!(sum <= 1.0 + 1e-9, "{tenant}'s sum to {sum}");
        }
        // Those too small to move, and those too small to be split.
        for capacity in [19.0, 4.0, 2.0, 1.0] {
            let sum: f64 = self.regions().iter().map(|r| self.part(r, capacity)).sum();
            assert!(sum <= 1.0 + 1e-9, "parts of {capacity} sum to {sum}");
        }
    }

    /// The largest part of a limit of so many tokens that a gateway of the region has in force.
    fn part(&self, region: &str, capacity: f64) -> f64 {
        let own = self.gateways.iter().filter(|one| one.region == region);
        own.map(|one| one.part("anybody", capacity, self.now))
            .fold(0.0, f64::max)
    }
}

const BASES: [(&str, f64); 2] = [("eu", 0.7), ("us", 0.3)];

#[test]
fn a_first_region_gets_its_base_share_and_the_second_what_was_kept_for_it() {
    let mut world = World::new(&BASES);
    world.periods(2, &[0, 1], &asked("a", &[("eu", 3.0)]));
    assert!((world.share("eu", "a") - 0.7).abs() < 1e-9);
    assert!(
        (world.share("us", "a") - FLOOR).abs() < 1e-9,
        "not heard yet"
    );
    let database = &mut world.database;
    world.gateways[2].tick(database, world.now);
    world.gateways[2].write(database, None, world.now);
    world.gateways[2].tick(database, world.now);
    assert!((world.share("us", "a") - 0.3).abs() < 1e-9, "at once");
    world.check();
}

#[test]
fn a_swing_is_followed_within_seven_periods_and_a_tenant_that_goes_is_one_of_all_again() {
    let mut world = World::new(&BASES);
    let everybody = [0, 1, 2, 3];
    world.periods(10, &everybody, &asked("a", &[("eu", 0.7), ("us", 0.3)]));
    assert!((world.share("eu", "a") - 0.7).abs() <= 0.05);
    let swung = asked("a", &[("eu", 0.1), ("us", 0.9)]);
    world.periods(7, &everybody, &swung);
    assert!(
        (world.share("us", "a") - 0.89).abs() <= 0.05,
        "{}",
        world.share("us", "a")
    );
    assert_eq!(world.gateways[0].shares.tenants.len(), 1);

    world.periods(12, &everybody, &asked("b", &[("eu", 0.5), ("us", 0.5)]));
    let tenants = &world.gateways[0].shares.tenants;
    assert!(
        !tenants.contains_key("a") && tenants.contains_key("b"),
        "{tenants:?}"
    );
}

#[test]
fn tenants_have_shares_of_their_own() {
    let mut world = World::new(&[("eu", 0.5), ("us", 0.5)]);
    let mut demand = asked("a", &[("eu", 1.0)]);
    demand.extend(asked("b", &[("us", 1.0)]));
    world.periods(10, &[0, 1, 2, 3], &demand);
    for (region, tenant) in [("eu", "a"), ("us", "b")] {
        let share = world.share(region, tenant);
        assert!(share >= 0.9, "{region} has {share} of {tenant}'s");
    }
    assert!((world.share("eu", "anybody") - 0.5).abs() <= 0.05);
}

#[test]
fn a_region_that_is_cut_off_falls_to_its_base_share_and_keeps_that() {
    let mut world = World::new(&BASES);
    let demand = asked("a", &[("eu", 0.05), ("us", 2.0)]);
    world.periods(10, &[0, 1, 2, 3], &demand);
    assert!(world.share("us", "a") > 0.85);
    // The larger part of what is lent is not taken back, for whoever borrowed it cannot be told.
    let all = asked("a", &[("eu", 2.0)]);
    world.periods(2, &[0, 1], &all);
    assert!(
        world.share("us", "a") > 0.85,
        "its lease lasts three periods"
    );
    assert!(
        world.share("eu", "a") < 0.15,
        "what is not free is not given"
    );
    world.periods(10, &[0, 1], &all);
    assert!((world.share("us", "a") - 0.3).abs() < 1e-9);
    assert!((world.share("eu", "a") - 0.7).abs() <= 0.02);
    // And back again, at once in what it has in force.
    world.periods(8, &[0, 1, 2, 3], &demand);
    assert!(world.share("us", "a") > 0.85);
}

#[test]
fn a_gateway_that_is_gone_is_forgotten_once_another_stands_in_for_it() {
    let mut world = World::new(&BASES);
    let demand = asked("a", &[("eu", 0.05), ("us", 2.0)]);
    world.periods(10, &[0, 1, 2, 3], &demand);
    // One of us is gone; who knows whether it only is cut off.
    world.gateways.remove(3);
    world.periods(10, &[0, 1, 2], &asked("a", &[("eu", 2.0)]));
    assert_eq!(world.database.ledger.gateways.len(), 4);
    assert!(
        world.share("eu", "a") <= 0.7 + 1e-9,
        "its base share is kept"
    );
    let another = world.start("us", 0.3);
    world.gateways.push(another);
    world.periods(10, &[0, 1, 2, 3], &asked("a", &[("eu", 2.0)]));
    assert_eq!(world.database.ledger.gateways.len(), 4);
    assert!(world.share("eu", "a") > 0.9, "{}", world.share("eu", "a"));
}

#[test]
fn what_is_too_small_to_be_split_moves_home_and_is_nowhere_meanwhile() {
    let mut world = World::new(&[("ap", 0.2), ("eu", 0.5), ("us", 0.3)]);
    world.periods(1, &[0, 1, 4, 5], &[]);
    assert!((world.part("us", 1.0) - 0.5).abs() < 1e-9, "us is home");
    // One gateway of us does not hear that eu is here, which is larger.
    world.periods(1, &[0, 1, 2, 3, 4], &[]);
    assert!((world.part("us", 1.0) - 0.5).abs() < 1e-9);
    assert_eq!(world.part("eu", 1.0), 0.0);
    world.periods(1, &[0, 1, 2, 3, 4, 5], &[]);
    assert_eq!(world.part("us", 1.0), 0.0);
    assert!((world.part("eu", 1.0) - 1.0).abs() < 1e-9, "eu is home");
    // Silent as a whole, it stays so.
    world.periods(10, &[0, 1, 4, 5], &[]);
    assert_eq!(world.part("us", 1.0), 0.0);
    assert!((world.part("eu", 1.0) - 1.0).abs() < 1e-9);
}

#[test]
fn a_region_that_was_forgotten_leaves_its_part_to_the_others_and_may_come_back() {
    let mut world = World::new(&BASES);
    let demand = asked("a", &[("eu", 2.0), ("us", 0.5)]);
    world.periods(10, &[0, 1, 2, 3], &demand);
    assert!((world.share("us", "a") - 0.3).abs() < 1e-9);
    let us = world.gateways.split_off(2);
    world.database.forget("us");
    world.periods(10, &[0, 1], &demand);
    assert!((world.share("eu", "a") - (1.0 - FLOOR)).abs() < 1e-9);
    drop(us);
    for _ in 0..2 {
        let gateway = world.start("us", 0.3);
        world.gateways.push(gateway);
    }
    world.periods(7, &[0, 1, 2, 3], &demand);
    assert!((world.share("us", "a") - 0.3).abs() < 1e-9);
}

#[test]
fn a_region_whose_base_share_others_have_by_now_is_gone_once_it_is_forgotten() {
    let mut world = World::new(&BASES);
    world.periods(2, &[0, 1, 2, 3], &[]);
    world.gateways.clear();
    world.database.forget("us");
    world.database.forget("eu");
    for _ in 0..2 {
        let gateway = world.start("eu", 1.0);
        world.gateways.push(gateway);
    }
    world.periods(10, &[0, 1], &asked("a", &[("eu", 2.0)]));
    assert!((world.share("eu", "a") - 1.0).abs() < 1e-9);
}

#[test]
fn a_database_that_forgot_versions_begins_anew_with_the_base_shares() {
    let mut world = World::new(&BASES);
    let everybody = [0, 1, 2, 3];
    world.periods(6, &everybody, &asked("a", &[("eu", 0.6), ("us", 0.3)]));
    let replica = world.database.ledger.clone();
    world.periods(6, &everybody, &asked("a", &[("eu", 0.1), ("us", 2.0)]));
    let (lost, share) = (world.database.ledger.version, world.share("us", "a"));
    assert!(share > 0.85);
    world.database.ledger = replica;
    for gateway in &mut world.gateways {
        gateway.tick(&mut world.database, world.now);
    }
    world.gateways[3].write(&mut world.database, None, world.now);
    assert!(world.database.ledger.version > lost);
    for place in everybody {
        world.gateways[place].tick(&mut world.database, world.now);
    }
    assert!((world.share("eu", "a") - 0.7).abs() < 1e-9);
    assert!((world.share("us", "a") - 0.3).abs() < 1e-9);
    let demand = asked("a", &[("eu", 2.0), ("us", 2.0)]);
    world.periods(10, &everybody, &demand);
    assert!((world.share("eu", "a") - 0.7).abs() <= 0.02);
}

#[test]
fn a_word_that_comes_after_a_later_one_does_not_hide_what_is_in_force() {
    fn tick(world: &mut World, gateways: &[usize]) {
        for place in gateways {
            world.gateways[*place].tick(&mut world.database, world.now);
        }
    }
    fn write(world: &mut World, demand: Option<&[Asked]>) {
        world.gateways[0].write(&mut world.database, demand, world.now);
    }
    let mut world = World::new(&BASES);
    let everybody = [0, 1, 2, 3];
    world.periods(10, &everybody, &asked("a", &[("eu", 0.7), ("us", 0.3)]));
    // Us grows: eu has given up a part, and us is granted it.
    write(&mut world, Some(&asked("a", &[("us", 2.0)])));
    tick(&mut world, &everybody);
    write(&mut world, None);
    world.gateways[2].ask_in_vain();
    world.gateways[2].ask(&mut world.database, world.now);
    world.gateways[2].hear(&world.database);
    let share = world.share("us", "a");
    assert!(share > 0.45, "{share}");
    // It is to go back, and what was stuck since before us grew arrives: us has it in force still.
    write(&mut world, Some(&asked("a", &[("eu", 2.0)])));
    world.gateways[2].arrive_late(&mut world.database);
    for _ in 0..3 {
        tick(&mut world, &[0, 1, 3]);
        write(&mut world, None);
        world.check();
    }
    assert!((world.share("us", "a") - share).abs() < 1e-9);
    tick(&mut world, &everybody);
    world.check();
}

#[test]
fn old_versions_do_not_pile_up() {
    let mut world = World::new(&BASES);
    for period in 0..30 {
        let part = f64::from(period % 2);
        let demand = asked("a", &[("eu", part), ("us", 1.0 - part)]);
        world.periods(1, &[0, 1, 2, 3], &demand);
    }
    assert!(world.database.ledger.version > 20);
    assert!(world.database.ledger.grants.len() <= 2);
}

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
