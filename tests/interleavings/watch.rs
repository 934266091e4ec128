//! The watch over a node: gate and breaker together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aforo::limit::Grant;

use super::limit::breaker::{Next, State};
use super::limit::watch::{Complaints, Watch, Way};
use super::{BUDGET, at, check, together, work};

fn watch() -> Arc<Watch> {
    Arc::new(Watch::new(0, BUDGET, 5, 4))
}

pub fn a_stall_that_lasts_opens_it_once() {
    check(|| {
        let watch = watch();
        watch.sent(at(1));
        let opened = Arc::new(AtomicUsize::new(0));
        let threads = [(); 2].map(|()| {
            let (watch, opened) = (Arc::clone(&watch), Arc::clone(&opened));
            work(move || {
                let (way, has_opened) = watch.way(at(200));
                assert_ne!(way, Way::Wait);
                opened.fetch_add(usize::from(has_opened), Ordering::Relaxed);
            })
        });
        together(threads);
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        assert_eq!(watch.way(at(200)), (Way::Away, false));
    });
}

pub fn who_finds_it_closed_finds_it_on_the_way_back() {
    check(|| {
        let watch = watch();
        // Never answered.
        watch.sent(at(1));
        assert_eq!(watch.way(at(200)), (Way::Away, true));
        let good = Ok(Grant {
            granted: 1,
            level: 1.0,
            wait: Duration::ZERO,
        });
        let probe = move |watch: &Watch| watch.probed(Some(&good), Duration::ZERO, at(300));
        assert_eq!(probe(&watch), Next::Again);
        assert_eq!(probe(&watch), Next::Again);
        let (last, asks) = (Arc::clone(&watch), Arc::clone(&watch));
        together([
            work(move || assert_eq!(probe(&last), Next::Done)),
            work(move || {
                let (way, opened) = asks.way(at(301));
                assert!(!opened, "by the silence from before it closed");
                assert_ne!(way, Way::Send);
                assert!(way == Way::Away || asks.is_on_the_way_back(at(301)));
            }),
        ]);
        assert_eq!(watch.state(), State::Closed);
        assert_eq!(watch.way(at(301)), (Way::Wait, false));
    });
}

pub fn one_of_several_complaints_is_said() {
    check(|| {
        let complaints = Arc::new(Complaints::default());
        for ms in [1, 60_001] {
            let said = Arc::new(AtomicUsize::new(0));
            let threads = [(); 2].map(|()| {
                let (complaints, said) = (Arc::clone(&complaints), Arc::clone(&said));
                work(move || {
                    said.fetch_add(usize::from(complaints.may_speak(at(ms))), Ordering::Relaxed);
                })
            });
            together(threads);
            assert_eq!(said.load(Ordering::Relaxed), 1);
        }
    });
}
