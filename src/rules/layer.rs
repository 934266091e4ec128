//! The rules of one source, by tenant and route.
//!
//! A layer never changes; [`Layer::with`] makes the next one, which shares with it all that did
//! not change: of 300,000 rules, a changed one costs about a thousandth of the table. Which of two
//! sources wins and what `*` means to a request is the business of
//! [`snapshot`](super::snapshot).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahash::RandomState;

use crate::limit::Rule;

#[cfg(test)]
mod tests;

/// In a rule's place for a tenant or a route: any.
pub const ANY: &str = "*";

/// Parts that are copied or shared each as a whole. The more there are, the less a change copies,
/// and the longer the list of parts that it copies besides.
const SHARDS: usize = 1024;

/// The rules of one source.
#[derive(Clone)]
pub struct Layer {
    shards: Box<[Arc<Shard>]>,
    /// Rules for any tenant.
    any: Own,
    hasher: RandomState,
    len: usize,
}

type Shard = HashMap<Box<str>, Own, RandomState>;

/// The rules of one tenant, in the order of their routes: a list takes a fraction of the memory
/// of a map, and most tenants have a few rules.
#[derive(Clone, Default)]
pub struct Own(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    route: Arc<str>,
    rule: Rule,
}

/// A change of one rule: tenant, route, and what holds from now on, if anything.
pub type Change<'c> = (&'c str, &'c str, Option<Rule>);

impl Default for Layer {
    fn default() -> Self {
        let hasher = RandomState::new();
        let empty = Arc::new(Shard::with_hasher(hasher.clone()));
        Self {
            shards: (0..SHARDS).map(|_| Arc::clone(&empty)).collect(),
            any: Own::default(),
            hasher,
            len: 0,
        }
    }
}

impl Layer {
    /// The rules of a tenant, or those for [`ANY`]. Allocates nothing.
    pub fn of(&self, tenant: &str) -> &Own {
        static NONE: Own = Own(Vec::new());
        if tenant == ANY {
            return &self.any;
        }
        if self.len == 0 {
            return &NONE;
        }
        let shard = &self.shards[shard_of(&self.hasher, tenant)];
        shard.get(tenant).unwrap_or(&NONE)
    }

    /// The rule of exactly this pair.
    pub fn get(&self, tenant: &str, route: &str) -> Option<&Rule> {
        self.of(tenant).on(route)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Every rule with its tenant and route, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Rule)> {
        let tenants = self.shards.iter().flat_map(|shard| shard.iter());
        tenants
            .map(|(tenant, own)| (&**tenant, own))
            .chain([(ANY, &self.any)])
            .flat_map(|(tenant, own)| {
                let rules = own.0.iter();
                rules.map(move |entry| (tenant, &*entry.route, &entry.rule))
            })
    }

    /// The layer with some rules changed. Of two changes of the same rule, the later one holds.
    #[must_use]
    pub fn with<'c>(&self, changes: impl IntoIterator<Item = Change<'c>>) -> Self {
        let mut next = self.clone();
        for (tenant, route, rule) in changes {
            next.change(tenant, route, rule);
        }
        next
    }

    fn change(&mut self, tenant: &str, route: &str, rule: Option<Rule>) {
        let difference = if tenant == ANY {
            self.any.change(route, rule)
        } else {
            let shard = Arc::make_mut(&mut self.shards[shard_of(&self.hasher, tenant)]);
            match (shard.get_mut(tenant), rule) {
                (Some(own), rule) => {
                    let difference = own.change(route, rule);
                    if own.0.is_empty() {
                        shard.remove(tenant);
                    }
                    difference
                }
                (None, Some(_)) => {
                    let own = shard.entry(tenant.into()).or_default();
                    own.change(route, rule)
                }
                (None, None) => 0,
            }
        };
        self.len = self.len.saturating_add_signed(difference);
    }
}

impl Own {
    /// The rule on a route, or that on [`ANY`].
    pub fn on(&self, route: &str) -> Option<&Rule> {
        let place = self.find(route).ok()?;
        Some(&self.0[place].rule)
    }

    fn find(&self, route: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| (*entry.route).cmp(route))
    }

    /// Changes one rule, and says how many more rules there are now.
    fn change(&mut self, route: &str, rule: Option<Rule>) -> isize {
        match (self.find(route), rule) {
            (Ok(place), Some(rule)) => {
                self.0[place].rule = rule;
                0
            }
            (Ok(place), None) => {
                self.0.remove(place);
                -1
            }
            (Err(place), Some(rule)) => {
                let route = route.into();
                self.0.insert(place, Entry { route, rule });
                1
            }
            (Err(_), None) => 0,
        }
    }
}

/// Makes a layer of many rules.
pub struct Builder {
    shards: Vec<Shard>,
    any: Own,
    hasher: RandomState,
    /// Names of routes that were met: thousands of rules share each.
    routes: HashSet<Arc<str>, RandomState>,
}

impl Default for Builder {
    fn default() -> Self {
        let hasher = RandomState::new();
        Self {
            shards: (0..SHARDS)
                .map(|_| Shard::with_hasher(hasher.clone()))
                .collect(),
            any: Own::default(),
            routes: HashSet::default(),
            hasher,
        }
    }
}

impl Builder {
    /// Adds a rule. Of two for the same pair, the later one holds.
    pub fn insert(&mut self, tenant: &str, route: &str, rule: Rule) {
        let route = match self.routes.get(route) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = route.into();
                self.routes.insert(Arc::clone(&new));
                new
            }
        };
        let entry = Entry { route, rule };
        if tenant == ANY {
            return self.any.0.push(entry);
        }
        let shard = &mut self.shards[shard_of(&self.hasher, tenant)];
        match shard.get_mut(tenant) {
            Some(own) => own.0.push(entry),
            None => {
                shard.insert(tenant.into(), Own(vec![entry]));
            }
        }
    }

    /// The layer of what was added.
    pub fn build(mut self) -> Layer {
        let mut len = self.any.settle();
        let shards = self.shards.into_iter().map(|mut shard| {
            len += shard.values_mut().map(Own::settle).sum::<usize>();
            shard.shrink_to_fit();
            Arc::new(shard)
        });
        Layer {
            shards: shards.collect(),
            any: self.any,
            hasher: self.hasher,
            len,
        }
    }
}

impl<'r> FromIterator<(&'r str, &'r str, Rule)> for Layer {
    fn from_iter<I: IntoIterator<Item = (&'r str, &'r str, Rule)>>(rules: I) -> Self {
        let mut builder = Builder::default();
        for (tenant, route, rule) in rules {
            builder.insert(tenant, route, rule);
        }
        builder.build()
    }
}

impl Own {
    /// Orders what was pushed, keeps the last of each route, and says how many are left.
    fn settle(&mut self) -> usize {
        // Of equal ones the last comes first, and that is the one which is kept.
        self.0.reverse();
        self.0.sort_by(|one, other| one.route.cmp(&other.route));
        self.0.dedup_by(|next, kept| next.route == kept.route);
        self.0.shrink_to_fit();
        self.0.len()
    }
}

/// Which part a tenant's rules are in. The map inside uses the low bits of the same hash.
fn shard_of(hasher: &RandomState, tenant: &str) -> usize {
    (hasher.hash_one(tenant) >> 32) as usize % SHARDS
}
