//! Regions without a network: gateways as they are, the database as a value, and messages that the
//! test delivers, delays or loses. Every gateway's clock is minutes away from the others'.

use std::sync::Arc;
use std::time::Duration;

use super::holder::{Holder, Word};
use super::round::round;
use super::watch::Watch;
use crate::limit::Timestamp;
use crate::rules::ledger::{Asked, Beat, Change, Ledger};
use crate::rules::share::{Lease, Shares, lease_of};

/// The time between two computations of the shares.
pub const PERIOD: Duration = Duration::from_millis(8_000);
/// The time between two signs of life.
pub const TICK: Duration = Duration::from_millis(1_000);

/// The database.
#[derive(Default)]
pub struct Database {
    pub ledger: Ledger,
}

impl Database {
    /// A sign of life; gives the last version. One that comes after a later one changes nothing.
    pub fn beat(&mut self, beat: &Beat) -> i64 {
        let version = self.ledger.version;
        let mut row = Beat {
            pending: version,
            ..beat.clone()
        };
        let same = |one: &&mut Beat| one.region == beat.region && one.gateway == beat.gateway;
        match self.ledger.gateways.iter_mut().find(same) {
            Some(before) if before.beat >= row.beat => {}
            Some(before) => {
                row.applied = row.applied.max(before.applied);
                *before = row;
            }
            None => self.ledger.gateways.push(row),
        }
        version
    }

    /// Forgets all gateways of a region.
    pub fn forget(&mut self, region: &str) {
        self.ledger.gateways.retain(|one| one.region != region);
    }

    pub fn write(&mut self, change: Change) {
        let ledger = &mut self.ledger;
        if let Some(grants) = change.grants {
            ledger.version = ledger.last_known() + 1;
            ledger.grants.insert(ledger.version, grants);
        }
        ledger.gateways.retain(|one| {
            !change
                .gone
                .contains(&(one.region.clone(), one.gateway.clone()))
        });
        ledger.memory = change.memory;
        let in_use = |version: &i64| {
            let mut gateways = ledger.gateways.iter();
            *version == ledger.version
                || gateways.any(|one| one.applied == *version || one.pending == *version)
        };
        ledger.grants.retain(|version, _| in_use(version));
    }
}

/// A gateway.
pub struct Gateway {
    pub region: String,
    pub base: f64,
    name: String,
    instances: u32,
    /// How far its clock is ahead.
    ahead: Duration,
    pub holder: Holder,
    lease: Arc<Lease>,
    pub shares: Shares,
    watch: Watch,
    words: i64,
    /// An answer of the database's that is on its way.
    mail: Option<Word>,
    /// A sign of life that is stuck on its way.
    stuck: Option<Beat>,
}

impl Gateway {
    pub fn start(region: &str, base: f64, name: &str, instances: u32, ahead: Duration) -> Self {
        let lease = Arc::<Lease>::default();
        Self {
            region: region.to_owned(),
            base,
            name: name.to_owned(),
            instances,
            ahead,
            holder: Holder::new(region, base, lease_of(PERIOD), Arc::clone(&lease)),
            lease,
            shares: Shares::unheard(base),
            watch: Watch::default(),
            words: 0,
            mail: None,
            stuck: None,
        }
    }

    fn clock(&self, now: Duration) -> Timestamp {
        Timestamp::default() + self.ahead + now
    }

    fn sign_of_life(&mut self) -> Beat {
        self.words += 1;
        Beat {
            region: self.region.clone(),
            gateway: self.name.clone(),
            base: self.base,
            lease: lease_of(PERIOD),
            instances: self.instances,
            applied: self.holder.applied(),
            pending: 0,
            beat: self.words,
        }
    }

    /// Asks the database; the answer is on its way.
    pub fn ask(&mut self, database: &mut Database, now: Duration) {
        if self.mail.is_none() {
            let asked = self.clock(now);
            let version = database.beat(&self.sign_of_life());
            self.mail = Some(Word { asked, version });
        }
    }

    /// Asks, and the question gets stuck: nobody waits for its answer any more. Who asks anew has given
    /// up on the answer before.
    pub fn ask_in_vain(&mut self) {
        self.mail = None;
        self.stuck = Some(self.sign_of_life());
    }

    /// What was stuck arrives.
    pub fn arrive_late(&mut self, database: &mut Database) {
        if let Some(beat) = self.stuck.take() {
            database.beat(&beat);
        }
    }

    /// The answer is lost.
    pub fn lose(&mut self) {
        self.mail = None;
    }

    /// The answer arrives; the grants are read if they have to be.
    pub fn hear(&mut self, database: &Database) {
        let Some(word) = self.mail.take() else { return };
        if !self.holder.is_new(word) {
            return self.holder.confirm(word);
        }
        let grants = database.ledger.grants.get(&word.version);
        if let Some(shares) = grants.and_then(|grants| self.holder.shares(grants)) {
            self.shares = shares;
            self.holder.in_force(word);
        }
    }

    /// Asks, hears, and says at once what is in force now.
    pub fn tick(&mut self, database: &mut Database, now: Duration) {
        for _ in 0..2 {
            self.ask(database, now);
            self.hear(database);
        }
    }

    /// Is the writer for once.
    pub fn write(&mut self, database: &mut Database, asked: Option<&[Asked]>, now: Duration) {
        let now = self.clock(now);
        let change = round(&database.ledger, &mut self.watch, asked, now);
        database.write(change);
    }

    /// The share in force of a large limit.
    pub fn share(&self, tenant: &str, now: Duration) -> f64 {
        self.part(tenant, 1e6, now)
    }

    /// The part in force of a limit of so many tokens.
    pub fn part(&self, tenant: &str, capacity: f64, now: Duration) -> f64 {
        let lapsed = self.lease.is_over(self.clock(now));
        self.shares.part(tenant, capacity, 1, lapsed)
    }
}

/// Demand of one pair, as a part of its limit, in each region.
pub fn asked(tenant: &str, parts: &[(&str, f64)]) -> Vec<Asked> {
    let asked = parts.iter().map(|(region, part)| Asked {
        region: (*region).to_owned(),
        tenant: tenant.to_owned(),
        route: "r".to_owned(),
        demand: part * 1_000.0,
        refill: 1_000.0,
    });
    asked.collect()
}
