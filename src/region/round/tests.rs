use std::time::Duration;

use super::super::model::{Database, Gateway, PERIOD, TICK, asked};
use crate::rules::ledger::Asked;
use crate::rules::share::FLOOR;

mod orders;

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
