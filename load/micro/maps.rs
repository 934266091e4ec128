//! The table of keys beside maps that might hold the same entries: each does what a decision from a
//! lease does to it, on one key that all threads want and on many that they seldom share.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use aforo::limit::entry::{Entry, Join};
use aforo::limit::key::Name;
use aforo::limit::lease::Terms;
use aforo::limit::table::{KeyId, Table};
use aforo::limit::{BucketKey, Grant, Rule, Timestamp};
use criterion::Criterion;
use parking_lot::Mutex;

use crate::decisions::{next, on_cpu};

/// The group. Names in it are `map, threads, keys`.
pub const MAPS: &str = "map";
/// The maps, in the order in which they are reported.
pub const NAMES: [&str; 4] = ["table", "dashmap", "papaya", "scc"];
/// What they are asked for: threads and keys.
pub const LOADS: [(usize, usize); 4] = [(1, 1), (1, 100_000), (2, 1), (2, 100_000)];

/// The name of one measurement.
pub fn name(map: &str, (threads, keys): (usize, usize)) -> String {
    format!("{map}, {threads} threads, {keys} keys")
}

/// All maps under all loads.
pub fn maps(criterion: &mut Criterion) {
    let rule = Rule::new(i32::MAX as u32, 1e9).unwrap();
    let terms = Terms {
        rule: &rule,
        instances: 20,
        batch: 10_000_000,
        cost: 1,
    };
    for load in LOADS {
        let table = Table::new(1_000_000, Duration::from_millis(500));
        measure(criterion, "table", &table, &terms, load);
        let dashmap = dashmap::DashMap::<_, _, Build>::default();
        measure(criterion, "dashmap", &dashmap, &terms, load);
        let papaya = papaya::HashMap::<_, _, Build>::default();
        measure(criterion, "papaya", &papaya, &terms, load);
        let scc = scc::HashMap::<_, _, Build>::default();
        measure(criterion, "scc", &scc, &terms, load);
    }
}

fn measure<M: Map>(
    criterion: &mut Criterion,
    map_name: &str,
    map: &M,
    terms: &Terms<'_>,
    load: (usize, usize),
) {
    let now = Timestamp::from_nanos(1_000_000_000);
    let (threads, keys) = load;
    // Any table names keys alike.
    let namer = Table::<Entry>::new(1, Duration::ZERO);
    let ids: Vec<KeyId> = (0..keys)
        .map(|n| {
            let tenant = format!("tenant-{n:06}");
            let key = BucketKey {
                tenant: &tenant,
                route: "create-order",
            };
            let id = namer.id(&key);
            map.put(id, leased(Name::of(&key), terms, now), now);
            id
        })
        .collect();
    let walk = |thread: usize, times: u64| {
        let mut at = thread * keys / threads;
        let mut paid = true;
        let took = on_cpu(times, || {
            at = next(at, keys);
            paid &= map.with(ids[at], |entry| spend(entry, terms, now));
        });
        assert!(paid, "{map_name} lost a key, or a lease was empty");
        took
    };
    let mut group = criterion.benchmark_group(MAPS);
    group.bench_function(name(map_name, load), |bencher| {
        bencher.iter_custom(|times| match threads {
            1 => walk(0, times),
            _ => at_once(threads, |thread| {
                walk(thread, times);
            }),
        });
    });
    group.finish();
}

/// How long so many threads took that began together, the slowest of them.
fn at_once(threads: usize, what: impl Fn(usize) + Sync) -> Duration {
    let (barrier, what) = (&Barrier::new(threads), &what);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    what(thread);
                    start.elapsed()
                })
            })
            .collect();
        let took = running.into_iter().map(|thread| thread.join().unwrap());
        took.max().unwrap_or_default()
    })
}

/// An entry that holds a lease.
pub fn leased(name: Name, terms: &Terms<'_>, now: Timestamp) -> Entry {
    let mut entry = Entry::new(now);
    entry.begin_lease(name.clone(), terms, 1e6, now);
    let join = entry.join(terms, || name, now);
    if let Join::Call(errand, answered) = join {
        let granted = errand.ask.cost + errand.ask.extra;
        entry.answered(errand, &grant(granted, terms), terms, (now, true), now);
        drop(answered);
    }
    entry
}

/// Takes one request out of it; now and then that makes a call, which is answered at once.
pub fn spend(entry: &mut Entry, terms: &Terms<'_>, now: Timestamp) -> bool {
    let Some(spend) = entry.spend(terms, now) else {
        return false;
    };
    if let Some(errand) = spend.refill {
        let granted = grant(errand.ask.extra, terms);
        entry.answered(errand, &granted, terms, (now, true), now);
    }
    spend.level.is_some()
}

fn grant(granted: u32, terms: &Terms<'_>) -> Grant {
    Grant {
        granted,
        level: terms.rule.capacity - f64::from(granted),
        wait: Duration::ZERO,
    }
}

/// What a table of keys must do.
trait Map: Sync {
    fn put(&self, id: KeyId, entry: Entry, now: Timestamp);
    /// False where there is no such key.
    fn with(&self, id: KeyId, work: impl FnOnce(&mut Entry) -> bool) -> bool;
}

impl Map for Table<Entry> {
    fn put(&self, id: KeyId, entry: Entry, now: Timestamp) {
        self.with_new(id, now, || entry, |_| ());
    }

    fn with(&self, id: KeyId, work: impl FnOnce(&mut Entry) -> bool) -> bool {
        Table::with(self, id, work).unwrap_or_default()
    }
}

impl Map for dashmap::DashMap<KeyId, Entry, Build> {
    fn put(&self, id: KeyId, entry: Entry, _: Timestamp) {
        self.insert(id, entry);
    }

    fn with(&self, id: KeyId, work: impl FnOnce(&mut Entry) -> bool) -> bool {
        self.get_mut(&id).is_some_and(|mut entry| work(&mut entry))
    }
}

/// Its readers never lock, but see an entry that nobody changes: what changes needs a lock of its
/// own.
impl Map for papaya::HashMap<KeyId, Mutex<Entry>, Build> {
    fn put(&self, id: KeyId, entry: Entry, _: Timestamp) {
        self.pin().insert(id, Mutex::new(entry));
    }

    fn with(&self, id: KeyId, work: impl FnOnce(&mut Entry) -> bool) -> bool {
        let entries = self.pin();
        let entry = entries.get(&id);
        entry.is_some_and(|entry| work(&mut entry.lock()))
    }
}

impl Map for scc::HashMap<KeyId, Entry, Build> {
    fn put(&self, id: KeyId, entry: Entry, _: Timestamp) {
        let _ = self.insert_sync(id, entry);
    }

    fn with(&self, id: KeyId, work: impl FnOnce(&mut Entry) -> bool) -> bool {
        self.update_sync(&id, |_, entry| work(entry))
            .unwrap_or_default()
    }
}

type Build = BuildHasherDefault<Hashed>;

/// A key's hash is a hash already, for all maps.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a KeyId hashes as one number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
