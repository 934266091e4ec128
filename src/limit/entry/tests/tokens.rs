//! No token is made, whatever happens in which order.

use proptest::prelude::*;

use super::*;
use crate::limit::bucket::Bucket;

#[derive(Clone, Copy, Debug)]
enum Step {
    Request { cost: u32, patient: bool },
    Answer { which: usize, lost: bool },
    Keep,
    Poll,
    Rule(bool),
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        8 => (1_u32..4, any::<bool>()).prop_map(|(cost, patient)| Step::Request { cost, patient }),
        8 => (0_usize..8, proptest::bool::weighted(0.1)).prop_map(|(which, lost)| Step::Answer { which, lost }),
        1 => Just(Step::Keep),
        2 => Just(Step::Poll),
        1 => any::<bool>().prop_map(Step::Rule),
    ];
    proptest::collection::vec((step, 0_u64..6), 1..400)
}

proptest! {
    /// One gateway against one real bucket, in any order of calls and answers: each token that is
    /// spent was taken from the bucket before, none is spent twice, and no more is held than may
    /// be. Lost answers lose tokens, and never make any.
    #[test]
    fn no_token_is_made(steps in steps(), capacity in 50_u32..2_000, refill in 10_u32..2_000) {
        let rules = [rule(capacity, f64::from(refill)), rule(capacity, f64::from(refill) + 1.0)];
        let mut current = 0;
        let mut bucket = Bucket::new(&rules[0], None, at(0));
        let mut entry = Entry::new(at(0));
        entry.begin_lease(name(), &terms(&rules[0]), 500.0, at(0));
        let mut calls: Vec<(Errand, usize)> = Vec::new();
        let mut waiting: Vec<(u32, Answered)> = Vec::new();
        let (mut taken, mut spent, mut back) = (0_u64, 0_u64, 0_u64);
        let mut ms = 0;
        for (step, pause) in steps {
            ms += pause;
            let now = at(ms);
            let rule = &rules[current];
            match step {
                Step::Request { cost, patient } => {
                    let terms = Terms { cost, ..terms(rule) };
                    let mut paid = false;
                    if let Some(spend) = entry.spend(&terms, now) {
                        calls.extend(spend.refill.map(|errand| (errand, current)));
                        back += u64::from(spend.died);
                        paid = spend.level.is_some();
                        spent += if paid { u64::from(cost) } else { 0 };
                    }
                    if !paid {
                        let answered = match entry.join(&terms, name, now) {
                            Join::Denied(_) => None,
                            Join::Call(errand, answered) => {
                                calls.push((errand, current));
                                Some(answered)
                            }
                            Join::Wait(answered) => Some(answered),
                        };
                        waiting.extend(answered.filter(|_| patient).map(|answered| (cost, answered)));
                    }
                }
                Step::Answer { which, lost } => {
                    if calls.is_empty() {
                        continue;
                    }
                    let (errand, under) = calls.swap_remove(which % calls.len());
                    let rule = &rules[under];
                    let grant = bucket.take(rule, &Ask { seed: None, ..errand.ask }, now);
                    taken += u64::from(grant.granted);
                    if lost {
                        entry.failed(errand, false, now);
                        back += u64::from(grant.granted);
                    } else {
                        let terms = Terms { cost: errand.ask.cost, ..terms(rule) };
                        let after = entry.answered(errand, &grant, &terms, (now, true), now);
                        back += u64::from(after.give_back);
                        calls.extend(after.next.map(|errand| (errand, under)));
                    }
                }
                Step::Keep => back += u64::from(entry.keep(1, 50, now).give_back),
                Step::Poll => {
                    if let Polled::Call(errand, ..) = entry.poll(1, 1, 50, now) {
                        calls.push((errand, current));
                    }
                }
                Step::Rule(which) => current = usize::from(which),
            }
            waiting.retain_mut(|(cost, answered)| match answered.try_recv() {
                Ok(Ok(grant)) => {
                    assert!(grant.granted == 0 || grant.granted == *cost);
                    spent += u64::from(grant.granted);
                    false
                }
                Ok(Err(_)) => false,
                Err(_) => true,
            });
            let held = u64::from(entry.lease().map_or(0, Lease::held));
            prop_assert_eq!(taken, spent + back + held);
            let most = rules.iter().map(|rule| terms(rule).most_held()).max();
            prop_assert!(held <= u64::from(most.unwrap_or(0)));
            prop_assert!(entry.direct <= CALLS);
        }
    }
}
