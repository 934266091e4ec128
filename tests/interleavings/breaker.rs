//! The circuit breaker: who opens it, who probes, who closes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::limit::breaker::{Breaker, Change, Next, Reason, State};
use super::{at, check, together, work};

fn breaker(failures: u32) -> Arc<Breaker> {
    Arc::new(Breaker::new(failures))
}

pub fn of_several_failures_one_opens_it() {
    check(|| {
        let breaker = breaker(3);
        let opened = Arc::new(AtomicUsize::new(0));
        let threads = [(); 3].map(|()| {
            let (breaker, opened) = (Arc::clone(&breaker), Arc::clone(&opened));
            work(move || {
                let change = breaker.failed();
                assert!(matches!(change, None | Some(Change::Opened(_))));
                opened.fetch_add(usize::from(change.is_some()), Ordering::Relaxed);
            })
        });
        together(threads);
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        assert_eq!(breaker.state(), State::Open);
    });
}

pub fn there_is_one_probe_at_a_time_and_three_close_it() {
    check(|| {
        let breaker = breaker(1);
        let under_way = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let threads = [(); 2].map(|()| {
            let (breaker, under_way) = (Arc::clone(&breaker), Arc::clone(&under_way));
            work(move || {
                // As the limiter does: whoever opens it probes until it closes.
                let Some(Change::Opened(_)) = breaker.failed() else {
                    return;
                };
                for probe in 1.. {
                    let other = under_way.swap(true, Ordering::AcqRel);
                    assert!(!other, "two probes under way");
                    under_way.store(false, Ordering::Release);
                    let (change, next) = breaker.probed(true);
                    if next == Next::Done {
                        assert_eq!((probe, change), (3, Some(Change::Closed)));
                        return;
                    }
                }
            })
        });
        together(threads);
        // Nobody is left with a breaker that is open and that no one probes.
        assert_eq!(breaker.state(), State::Closed);
    });
}

pub fn no_late_call_is_lost_within_a_window() {
    check(|| {
        let breaker = breaker(5);
        for _ in 0..18 {
            assert_eq!(breaker.lost(at(1)), None);
        }
        let opened = Arc::new(AtomicUsize::new(0));
        let threads = [(); 2].map(|()| {
            let (breaker, opened) = (Arc::clone(&breaker), Arc::clone(&opened));
            work(move || {
                if let Some(change) = breaker.lost(at(600)) {
                    assert!(matches!(
                        change,
                        Change::Opened(Reason::Slow { calls: 20, .. })
                    ));
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        together(threads);
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    });
}

pub fn a_new_window_is_not_ended_by_who_saw_the_old_one() {
    check(|| {
        let breaker = breaker(5);
        breaker.lost(at(1));
        for _ in 1..20 {
            breaker.answered(false, at(1));
        }
        // The window is over. A good call ends it while late ones begin the next: the first of them,
        // or where that found the good one in its way, the second.
        let (good, late) = (Arc::clone(&breaker), Arc::clone(&breaker));
        together([
            work(move || assert_eq!(good.answered(false, at(1_100)), None)),
            work(move || {
                assert_eq!(late.lost(at(1_100)), None);
                assert_eq!(late.lost(at(1_100)), None);
            }),
        ]);
        let later = at(1_100) + Duration::from_millis(500);
        let changes = (0..19).filter_map(|_| breaker.lost(later));
        assert_eq!(changes.count(), 1, "the window is forgotten");
    });
}
