use super::*;

struct Until(u64);

impl Entry for Until {
    fn may_be_forgotten(&self, now: Timestamp) -> bool {
        now.as_nanos() >= self.0
    }
}

fn id(table: &Table<Until>, tenant: &str) -> KeyId {
    table.id(&BucketKey { tenant, route: "r" })
}

fn put(table: &Table<Until>, tenant: &str, until: u64, now: u64) -> bool {
    let now = Timestamp::from_nanos(now);
    let made = table.with_new(id(table, tenant), now, || Until(until), |_| ());
    made.is_some()
}

#[test]
fn an_entry_is_made_once_and_found_again() {
    let table = Table::new(100, Duration::ZERO);
    assert!(put(&table, "a", 7, 0) && put(&table, "a", 8, 0) && put(&table, "b", 9, 0));
    assert_eq!(table.with(id(&table, "a"), |entry| entry.0), Some(7));
    assert_eq!(table.with(id(&table, "c"), |entry| entry.0), None);
    assert_eq!(table.len(), 2);
    let mut all = Vec::new();
    table.for_each(|_, entry| all.push(entry.0));
    all.sort_unstable();
    assert_eq!(all, [7, 9]);
}

#[test]
fn a_full_table_takes_nobody_until_somebody_may_be_forgotten() {
    let table = Table::new(1_000, Duration::from_nanos(10));
    for n in 0..100_000 {
        put(&table, &n.to_string(), 100, 0);
    }
    let full = table.len();
    assert!((1_000..=1_024).contains(&full), "{full}");
    assert!(!put(&table, "late", 200, 99));
    // Its part was searched just now.
    assert!(!put(&table, "late", 200, 100));
    assert!(put(&table, "late", 200, 110));
    assert!(table.len() < full);
}

#[test]
fn keys_are_spread_evenly_over_the_parts() {
    let table = Table::new(1_000_000, Duration::ZERO);
    for n in 0..200_000 {
        put(&table, &n.to_string(), 1, 0);
    }
    let sizes = table.parts.iter().map(|part| part.lock().entries.len());
    let even = 200_000 / table.parts.len();
    // Ten standard deviations and more.
    assert!(sizes.into_iter().all(|size| size.abs_diff(even) < even / 2));
}
