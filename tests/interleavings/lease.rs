//! Tokens of one hot key, while its request gives up, its answer comes, and its keeper looks.
//!
//! An entry is locked whenever it is worked on, so what is tried here are the orders of these
//! pieces, with the limiter's own in between. The channel of an answer is tokio's, and to loom each
//! of its calls is one piece.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aforo::limit::entry::{Entry, Join};
use aforo::limit::key::Name;
use aforo::limit::lease::Terms;
use aforo::limit::{BucketKey, Grant, Rule, Timestamp};

use super::sync::Mutex;
use super::{at, check, together, work};

const BATCH: u32 = 50;

fn terms(rule: &Rule) -> Terms<'_> {
    Terms {
        rule,
        instances: 1,
        batch: BATCH,
        cost: 1,
    }
}

fn name() -> Name {
    Name::of(&BucketKey {
        tenant: "t",
        route: "r",
    })
}

fn grant(granted: u32) -> Grant {
    Grant {
        granted,
        level: 1_000.0,
        wait: Duration::ZERO,
    }
}

/// Where tokens have gone.
#[derive(Default)]
struct Gone(AtomicU32);

impl Gone {
    fn add(&self, tokens: u32) {
        self.0.fetch_add(tokens, Ordering::Relaxed);
    }

    /// All that are gone, and what is still held.
    fn with_held(&self, entry: &Mutex<Entry>) -> u32 {
        let held = entry.lock().clear().map_or(0, |(_, _, tokens)| tokens);
        self.0.load(Ordering::Relaxed) + held
    }
}

fn hot(rule: &Rule) -> Entry {
    let mut entry = Entry::new(at(0));
    entry.begin_lease(name(), &terms(rule), 1_000.0, at(0));
    entry
}

/// What the keeper of a lease does.
fn keep(entry: &Mutex<Entry>, gone: &Gone, now: Timestamp) {
    let kept = entry.lock().keep(1, BATCH, now);
    gone.add(kept.give_back + kept.paid);
}

pub fn an_answer_that_meets_its_deadline_loses_no_token() {
    check(|| {
        let rule = Rule::new(4_000, 2_000.0).unwrap();
        let mut entry = hot(&rule);
        let Join::Call(errand, mut answered) = entry.join(&terms(&rule), name, at(0)) else {
            panic!("no call");
        };
        let asked = 1 + errand.ask.extra;
        assert_eq!(asked, 1 + BATCH);
        let entry = Arc::new(Mutex::new(entry));
        let gone = Arc::new(Gone::default());

        let (of_answer, of_request, of_keeper) =
            (Arc::clone(&entry), Arc::clone(&entry), Arc::clone(&entry));
        let (gone_back, paid, kept) = (Arc::clone(&gone), Arc::clone(&gone), Arc::clone(&gone));
        together([
            work(move || {
                let sent = (at(0), true);
                let mut entry = of_answer.lock();
                let after = entry.answered(errand, &grant(asked), &terms(&rule), sent, at(5));
                gone_back.add(after.give_back + after.paid);
            }),
            // As the limiter does after the budget: it decides by the share, and only then looks
            // whether the answer has come meanwhile.
            work(move || {
                let (_, owed) = of_request.lock().account().take(&rule, 1, 1, at(5));
                assert_eq!(owed, 1);
                answered.close();
                if let Ok(Ok(grant)) = answered.try_recv() {
                    let after = of_request
                        .lock()
                        .too_late(grant.granted, &terms(&rule), at(5));
                    paid.add(after.give_back + after.paid);
                }
            }),
            work(move || keep(&of_keeper, &kept, at(300))),
        ]);
        assert_eq!(gone.with_held(&entry), asked);
    });
}

pub fn requests_and_the_keeper_share_what_is_held() {
    check(|| {
        let rule = Rule::new(4_000, 2_000.0).unwrap();
        let mut entry = hot(&rule);
        let Join::Call(errand, _answered) = entry.join(&terms(&rule), name, at(0)) else {
            panic!("no call");
        };
        // Three are held: two requests and what the keeper finds.
        entry.answered(errand, &grant(4), &terms(&rule), (at(0), true), at(1));
        let entry = Arc::new(Mutex::new(entry));
        let gone = Arc::new(Gone::default());
        let request = |ms| {
            let (entry, gone) = (Arc::clone(&entry), Arc::clone(&gone));
            work(move || {
                // None where the keeper has ended the lease.
                let spend = entry.lock().spend(&terms(&rule), at(ms));
                gone.add(spend.map_or(0, |spend| u32::from(spend.level.is_some()) + spend.died));
            })
        };
        let (of_keeper, kept) = (Arc::clone(&entry), Arc::clone(&gone));
        together([
            request(2),
            request(3),
            work(move || keep(&of_keeper, &kept, at(300))),
        ]);
        assert_eq!(gone.with_held(&entry), 3);
    });
}
