//! Calls for buckets that are split into parts: which part is asked, under which rule, and what its
//! answer says of the whole.
//!
//! Calls go round all parts. A part that gave too little is followed by one other before anybody is
//! rejected. The lease, the account and all that clients are told belong to the whole bucket.

use std::sync::Arc;

use super::*;
use crate::limit::bucket::wait_for;
use crate::limit::shard::{self, Turn};

/// One part of a bucket.
#[derive(Clone, Copy)]
pub(super) struct Part {
    number: u32,
    /// How many there are.
    of: u32,
}

impl<S: BucketStore, C: Clock> Core<S, C> {
    /// Into how many parts the bucket of a rule is split.
    fn parts(&self, rule: &Rule, cost: u32) -> u32 {
        if rule.shards > 1 && self.store.has_parts() {
            shard::count(rule.shards, rule.capacity, cost)
        } else {
            1
        }
    }

    /// The node whose watch says whether anybody may wait: where the bucket is split, that of the part
    /// which the next call asks.
    pub(super) fn node_for(
        self: &Arc<Self>,
        key: &BucketKey<'_>,
        id: KeyId,
        rule: &Rule,
        cost: u32,
    ) -> usize {
        match self.parts(rule, cost) {
            1 => self.store.node_of(key),
            parts => {
                let turn = self.turns.peek(id.short());
                self.well(key, turn, parts, None).1
            }
        }
    }

    /// The part whose turn it is, with its node, if that is well and not the part that was asked
    /// `before`; otherwise another one that is, if there is any.
    fn well(
        self: &Arc<Self>,
        key: &BucketKey<'_>,
        turn: Turn,
        parts: u32,
        before: Option<u32>,
    ) -> (u32, usize) {
        let now = self.clock.now();
        let is_well = |node: usize| {
            let (way, opened) = self.watches[node].way(now);
            if opened {
                self.begin_to_probe(node);
            }
            way == Way::Wait
        };
        let of = |part| (part, self.store.node_of_part(key, part));
        let first = of(turn.part(parts));
        if Some(first.0) != before && is_well(first.1) {
            return first;
        }
        let others = (0..parts).filter(|part| *part != first.0 && Some(*part) != before);
        let others: Vec<_> = others.map(of).filter(|(_, node)| is_well(*node)).collect();
        turn.instead(&others).unwrap_or(first)
    }

    /// Hands a call to the store, and notes in `question` which part and node are asked, and in
    /// `errand` the debt that goes along.
    pub(super) fn send(
        self: &Arc<Self>,
        name: &Name,
        question: &mut Question,
        errand: &mut Errand,
    ) -> Call {
        let (key, rule, mut ask) = (name.key(), &question.rule, errand.ask);
        let parts = self.parts(rule, ask.cost);
        if parts == 1 {
            return self.store.take(&key, rule, &ask);
        }
        let before = question.part.filter(|_| errand.second);
        let turn = self.turns.next(question.id.short());
        let (number, node) = self.well(&key, turn, parts, before.map(|part| part.number));
        question.part = Some(Part { number, of: parts });
        question.node = node;
        let of_part = shard::part(rule, parts);
        ask.seed = ask.seed.map(|level| shard::seed(level, parts));
        // A part of a quarter of the whole: of four parts or more, all that is left of one.
        ask.divisor = ask.divisor.div_ceil(parts);
        if errand.second {
            ask.count -= errand.carried / ask.cost.max(1);
            (ask.extra, ask.debt) = (0, 0);
        }
        // What one part cannot carry waits for the next call.
        let most = of_part.capacity.floor() as u32;
        if ask.debt > most {
            let kept = ask.debt - most;
            ask.debt = most;
            let now = self.clock.now();
            self.keys
                .with(question.id, |entry| entry.account().keep_debt(kept, now));
        }
        // Where the call fails, no more than this is owed again.
        errand.ask.debt = ask.debt;
        self.store.take_part(&key, number, &of_part, &ask)
    }

    /// Hands tokens back to the store, and notes in `question` which node they go to.
    pub(super) fn send_back(
        self: &Arc<Self>,
        name: &Name,
        question: &mut Question,
        tokens: u32,
    ) -> Call {
        let (key, rule) = (name.key(), &question.rule);
        match self.parts(rule, question.cost) {
            1 => self.store.give_back(&key, rule, tokens),
            parts => {
                let turn = self.turns.next(question.id.short());
                let (part, node) = self.well(&key, turn, parts, None);
                let of_part = shard::part(rule, parts);
                question.node = node;
                self.store.give_back_part(&key, part, &of_part, tokens)
            }
        }
    }

    /// Makes the answer of a part one of the whole bucket; or asks one other part for what this one
    /// did not have, and gives nothing back yet.
    pub(super) fn put_together(
        self: &Arc<Self>,
        name: &Name,
        question: Question,
        mut errand: Errand,
        grant: Grant,
        back: bool,
    ) -> Option<(Errand, Grant)> {
        let Some(Part { number, of }) = question.part else {
            return Some((errand, grant));
        };
        let now = self.clock.now();
        let Question { id, rule, .. } = question;
        let known = self.keys.with_new(id, now, |entry| {
            entry.heard_part(name, (number, of), grant.level, &rule, now)
        });
        let ask = errand.ask;
        let granted = errand.carried + grant.granted;
        let short = granted < ask.count.saturating_mul(ask.cost);
        if short && !errand.second && errand.purpose == Purpose::Requests {
            errand.carried = granted;
            errand.second = true;
            self.run(name.clone(), question, errand, back);
            return None;
        }
        let level = known.unwrap_or(grant.level * f64::from(of));
        let cost = f64::from(ask.cost);
        // Two parts that were asked had not enough, and what is known of the others is no more than
        // a remainder in each: there is nothing.
        let nothing = short && level < cost * f64::from(of);
        let level = if nothing {
            level.min(cost * 0.999)
        } else {
            level
        };
        let wait = wait_for(cost, level, &rule);
        let whole = Grant {
            granted,
            level: level.min(rule.capacity),
            wait,
        };
        Some((errand, whole))
    }
}
