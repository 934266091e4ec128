//! One measurement, in a process of its own, so that no other's memory is counted along.

use std::hint::black_box;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use aforo::limit::{BucketKey, BucketStore, Limiter, MonotonicClock, Rule, Settings, Source};
use aforo::store::MemoryStore;
use tokio::runtime::Builder;

use crate::at_once::AtOnce;
use crate::measure::cpu_time;

/// The word that makes a process one of these.
pub const COMMAND: &str = "measure";
/// The keys among which more threads than one are measured.
pub const OF_THREADS: usize = 100_000;

/// Decisions of each thread.
const DECISIONS: usize = 3_000_000;
/// Keys that are asked for all the time, where some are hot.
const HOT: usize = 100;
/// So that a key is not the neighbour of the one before: a prime that divides no number of keys.
const STRIDE: usize = 7_919;
/// Room for a million keys, though they spread unevenly over the table's parts.
const ROOM: usize = 1_100_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each key in turn; its bucket lives in this process.
    Memory,
    /// Each key in turn; its bucket lives in a store elsewhere, which answers at once.
    Store,
    /// A hundred hot keys among so many, by their leases.
    Lease,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Store, Self::Lease];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Store => "store",
            Self::Lease => "lease",
        }
    }

    /// What `name` names.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub kind: Kind,
    pub keys: usize,
    pub threads: usize,
    /// Keys that found a place.
    pub held: usize,
    /// By how much the process grew by them, in bytes.
    pub grown: usize,
    /// The whole process, in bytes.
    pub resident: usize,
    /// What one decision takes of a core, in nanoseconds.
    pub cpu_nanos: f64,
    /// Decisions a second, of all threads.
    pub per_second: f64,
}

/// Measures in another process.
pub fn measure(kind: Kind, keys: usize, threads: usize) -> Measured {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            COMMAND,
            kind.name(),
            &keys.to_string(),
            &threads.to_string(),
        ])
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [held, grown, resident, cpu_nanos, per_second] = numbers[..] else {
        panic!("{} of {keys} keys said {text:?} {errors}", kind.name());
    };
    let measured = Measured {
        kind,
        keys,
        threads,
        held: held as usize,
        grown: grown as usize,
        resident: resident as usize,
        cpu_nanos,
        per_second,
    };
    println!("{measured:?}");
    measured
}

/// Measures in this process, and prints the numbers.
pub fn run(kind: Kind, keys: usize, threads: usize) {
    match kind {
        Kind::Memory => of(
            kind,
            MemoryStore::new(MonotonicClock::new(), ROOM),
            keys,
            threads,
        ),
        Kind::Store | Kind::Lease => of(kind, AtOnce::Full, keys, threads),
    }
}

fn of<S: BucketStore>(kind: Kind, store: S, keys: usize, threads: usize) {
    let settings = Settings {
        instances: 20,
        max_local_buckets: ROOM,
        ..Settings::default()
    };
    let limiter = Limiter::new(store, MonotonicClock::new(), settings);
    // Never empty, and too small for leases: no more than one request may be ahead of the store.
    let cold = Rule::new(500, 100.0).unwrap();
    // Never full again, so that none is forgotten.
    let slow = Rule::new(1_000_000, 1e-3).unwrap();
    let hot = Rule::new(i32::MAX as u32, 1e9).unwrap();
    let (filled_by, asked, source) = match kind {
        Kind::Memory => (slow, slow, Source::Memory),
        Kind::Store => (cold, cold, Source::Store),
        Kind::Lease => (cold, hot, Source::Lease),
    };

    let before = resident();
    let decide = |n: usize, rule: Rule| {
        let limiter = &limiter;
        async move {
            let mut name = Name::default();
            let key = BucketKey {
                tenant: name.of(n),
                route: "create-order",
            };
            black_box(limiter.decide(&key, &rule, 1).await)
        }
    };
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        for n in 0..keys {
            decide(n, filled_by).await;
        }
    });
    let (held, filled) = (limiter.local_buckets(), resident());

    let walked = match kind {
        Kind::Lease => HOT.min(keys),
        Kind::Memory | Kind::Store => keys,
    };
    let barrier = Barrier::new(threads);
    let took: Vec<(Duration, Duration)> = std::thread::scope(|scope| {
        let decide = &decide;
        let barrier = &barrier;
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    runtime().block_on(async {
                        let mut at = thread * walked / threads;
                        let mut last = source;
                        // Until the hot keys are known for it.
                        for n in 0..walked.min(HOT) * 30 {
                            last = decide(n % walked, asked).await.source;
                        }
                        assert_eq!(last, source);
                        barrier.wait();
                        let (start, computed) = (Instant::now(), cpu_time());
                        for _ in 0..DECISIONS {
                            at = (at + STRIDE) % walked;
                            decide(at, asked).await;
                        }
                        (start.elapsed(), cpu_time() - computed)
                    })
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let decisions = (DECISIONS * threads) as f64;
    let slowest = took.iter().map(|(elapsed, _)| *elapsed).max();
    let computed: Duration = took.iter().map(|(_, computed)| *computed).sum();
    println!(
        "{held} {} {filled} {} {}",
        filled.saturating_sub(before),
        computed.as_nanos() as f64 / decisions,
        decisions / slowest.unwrap_or_default().as_secs_f64()
    );
}

/// A tenant's name, written without allocating: `tenant-0123456`.
struct Name([u8; 14]);

impl Default for Name {
    fn default() -> Self {
        Self(*b"tenant-0000000")
    }
}

impl Name {
    fn of(&mut self, mut n: usize) -> &str {
        for digit in self.0[7..].iter_mut().rev() {
            *digit = b'0' + (n % 10) as u8;
            n /= 10;
        }
        std::str::from_utf8(&self.0).unwrap()
    }
}

/// Memory of this process that is in use, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<usize>().unwrap() * 1024
}
