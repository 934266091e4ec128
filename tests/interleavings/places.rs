//! Calls under way to a node.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};

use super::limit::places::Places;
use super::{check, together, work};

pub fn there_are_never_more_calls_than_places() {
    check(|| {
        let places = Arc::new(Places::new(2));
        let one = places.enter();
        let under_way = Arc::new(AtomicUsize::new(0));
        let threads = [(); 2].map(|()| {
            let (places, under_way) = (Arc::clone(&places), Arc::clone(&under_way));
            work(move || {
                let Some(place) = places.enter() else {
                    return;
                };
                assert_eq!(under_way.fetch_add(1, Ordering::AcqRel), 0);
                under_way.fetch_sub(1, Ordering::AcqRel);
                drop(place);
            })
        });
        together(threads);
        drop(one);
        assert_eq!(places.taken(), 0);
    });
}
