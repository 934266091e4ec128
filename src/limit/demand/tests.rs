use std::time::Duration;

use super::{BUSIEST, Demand, Demanded};
use crate::limit::{BucketKey, Clock, ManualClock};

const SECOND: Duration = Duration::from_secs(1);

fn key<'k>(tenant: &'k str, route: &'k str) -> BucketKey<'k> {
    BucketKey { tenant, route }
}

fn of<'d>(demand: &'d [Demanded], tenant: &str, route: &str) -> Option<&'d Demanded> {
    let mut all = demand.iter();
    all.find(|one| &*one.tenant == tenant && &*one.route == route)
}

#[test]
fn rates_are_over_the_time_since_the_last_reading() {
    let clock = ManualClock::default();
    let demand = Demand::new(clock.now());
    for _ in 0..30 {
        demand.asked(&key("a", "r"), 100.0, 1);
        demand.asked(&key("a", "s"), 5.0, 4);
    }
    clock.advance(3 * SECOND);
    let read = demand.read(clock.now());
    assert_eq!(read.len(), 2);
    let slow = of(&read, "a", "r").unwrap();
    assert_eq!(
        (slow.tokens_per_second, slow.refill_per_second),
        (10.0, 100.0)
    );
    let heavy = of(&read, "a", "s").unwrap();
    assert_eq!(
        (heavy.tokens_per_second, heavy.refill_per_second),
        (40.0, 5.0)
    );
    assert_eq!(&*read[0].route, "s", "the busiest comes first");

    clock.advance(SECOND);
    assert_eq!(demand.read(clock.now()), [], "nobody has asked since");
}

#[test]
fn threads_count_together() {
    let clock = ManualClock::default();
    let demand = Demand::new(clock.now());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    demand.asked(&key("a", "r"), 1.0, 1);
                }
            });
        }
    });
    clock.advance(SECOND);
    let read = demand.read(clock.now());
    assert_eq!(of(&read, "a", "r").unwrap().tokens_per_second, 16_000.0);
}

#[test]
fn a_limit_that_changes_is_told_as_it_is() {
    let clock = ManualClock::default();
    let demand = Demand::new(clock.now());
    demand.asked(&key("a", "r"), 1.0, 1);
    demand.asked(&key("a", "r"), 2.0, 1);
    clock.advance(SECOND);
    let read = demand.read(clock.now());
    assert_eq!(of(&read, "a", "r").unwrap().refill_per_second, 2.0);
}

#[test]
fn a_flood_of_invented_names_does_not_hide_the_busy() {
    let clock = ManualClock::default();
    let demand = Demand::new(clock.now());
    for _ in 0..100 {
        demand.asked(&key("known", "r"), 1.0, 1);
    }
    clock.advance(SECOND);
    demand.read(clock.now());

    for name in 0..100_000 {
        demand.asked(&key(&format!("invented-{name}"), "r"), 1.0, 1);
    }
    for _ in 0..5_000 {
        demand.asked(&key("known", "r"), 1.0, 1);
        demand.asked(&key("new", "r"), 1.0, 1);
    }
    clock.advance(SECOND);
    let read = demand.read(clock.now());
    assert!(read.len() <= BUSIEST);
    assert_eq!(&*read[0].tenant, "known");
    assert_eq!(read[0].tokens_per_second, 5_000.0, "its place was kept");
    let new = of(&read, "new", "r").unwrap();
    assert!(new.tokens_per_second > 4_000.0, "{new:?}");
}
