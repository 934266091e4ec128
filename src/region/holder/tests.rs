use std::sync::Arc;
use std::time::Duration;

use super::{Holder, Word};
use crate::limit::Timestamp;
use crate::rules::ledger::{Granted, Grants};
use crate::rules::share::Lease;

const LEASE: Duration = Duration::from_secs(6);

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

fn word(version: i64, asked: u64) -> Word {
    Word {
        asked: at(asked),
        version,
    }
}

fn holder() -> (Holder, Arc<Lease>) {
    let lease = Arc::new(Lease::default());
    (Holder::new("eu", 0.3, LEASE, Arc::clone(&lease)), lease)
}

#[test]
fn the_lease_lasts_from_when_the_database_was_asked() {
    let (mut holder, lease) = holder();
    assert!(holder.is_new(word(5, 10)));
    holder.in_force(word(5, 10));
    assert_eq!(holder.applied(), 5);
    assert!(!lease.is_over(at(15)));
    assert!(lease.is_over(at(16)));
    holder.confirm(word(5, 14));
    assert!(!lease.is_over(at(19)));
    assert!(lease.is_over(at(20)));
}

#[test]
fn a_word_of_a_version_that_is_not_in_force_makes_nothing_last_longer() {
    let (mut holder, lease) = holder();
    holder.in_force(word(5, 10));
    // A database that has forgotten what it had committed, and one that is ahead of this gateway.
    for version in [0, 4, 6] {
        holder.confirm(word(version, 15));
        assert!(lease.is_over(at(16)), "version {version}");
    }
    assert!(!holder.is_new(word(4, 15)) && holder.is_new(word(6, 15)));
    holder.in_force(word(4, 15));
    assert_eq!(holder.applied(), 5);
    assert!(lease.is_over(at(16)));
}

#[test]
fn without_any_version_there_is_no_lease() {
    let (mut holder, lease) = holder();
    holder.confirm(word(0, 10));
    assert!(lease.is_over(at(10)));
}

#[test]
fn a_region_gets_what_a_version_grants_it_or_nothing_where_it_is_unknown() {
    let (holder, _) = holder();
    let granted = |base, home, share| Granted {
        base,
        home,
        share,
        tenants: [("shop-a".to_owned(), 0.2)].into(),
    };
    let mut grants = Grants::from([("us".to_owned(), granted(0.7, true, 0.6))]);
    assert!(holder.shares(&grants).is_none());
    grants.insert("eu".to_owned(), granted(0.3, false, 0.0));
    let shares = holder.shares(&grants);
    let shares = shares.as_ref();
    assert_eq!(
        shares.map(|shares| shares.share),
        Some(0.05),
        "never below the floor"
    );
    assert_eq!(shares.map(|shares| shares.home.is_none()), Some(true));
    assert_eq!(
        shares.and_then(|shares| shares.tenants.get("shop-a").copied()),
        Some(0.2)
    );
}
