//! Arrivals at moments that are fixed beforehand.
//!
//! A client that waits for an answer before it asks again goes easy on whoever is slow, and leaves
//! out of its record what others would have waited meanwhile (coordinated omission). Here what is
//! due is sent when it is due, and latency counts from that moment.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Moments since the beginning, in nanoseconds, of arrivals by chance at this rate.
pub fn moments(random: &mut fastrand::Rng, per_second: f64, time: Duration) -> Vec<u64> {
    let end = time.as_secs_f64();
    let mut at = 0.0;
    let mut moments = Vec::with_capacity((per_second * end * 1.05) as usize);
    loop {
        at -= (1.0 - random.f64()).ln() / per_second;
        if at >= end {
            return moments;
        }
        moments.push((at * 1e9) as u64);
    }
}

/// Hands out the arrivals that are due, until all are. Blocks; wants a thread of its own, which
/// sleeps for as long as the system lets it sleep shortest, some 50 µs.
pub fn run(moments: &[u64], began: Instant, mut due: impl FnMut(Range<usize>)) {
    let mut next = 0;
    while next < moments.len() {
        let now = began.elapsed().as_nanos() as u64;
        let until = next + moments[next..].partition_point(|at| *at <= now);
        if until > next {
            due(next..until);
            next = until;
        }
        if let Some(at) = moments.get(next) {
            let now = began.elapsed().as_nanos() as u64;
            std::thread::sleep(Duration::from_nanos(at.saturating_sub(now)));
        }
    }
}
