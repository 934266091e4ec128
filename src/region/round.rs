//! One round of the writer: from all that the database knows to what changes there.
//!
//! It is pure. Whoever runs it reads the ledger and writes the change in one transaction that
//! excludes every gateway's word, so that nothing happens in between.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::grant::{Claim, grants};
use super::need::{ByRegion, Needs};
use super::target::{Standing, targets, total};
use super::watch::Watch;
use crate::limit::Timestamp;
use crate::rules::ledger::{Asked, Beat, Change, Granted, Grants, Ledger};
use crate::rules::share::FLOOR;

#[cfg(test)]
mod tests;

/// Shares closer than this are the same.
const SAME: f64 = 1e-9;
/// Base shares are written with few digits.
const TOLERANCE: f64 = 1e-6;

/// What is remembered from one round to the next, whoever the writer is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Memory {
    needs: Needs,
    /// Where the shares should be at the end of this period.
    targets: ByRegion,
    /// Those of tenants that have shares of their own.
    tenants: BTreeMap<String, ByRegion>,
}

/// One region, as its gateways make it out. Of one that was forgotten there are none: it holds
/// nothing, and the floor is kept for it, so that it can come back.
struct Region<'l> {
    /// The smallest that any of them is configured with; while it is changed they may differ.
    base: f64,
    /// Whether any of them was heard of within its lease.
    heard: bool,
    gateways: Vec<&'l Beat>,
}

/// All of them, by name.
type Regions<'l> = BTreeMap<&'l str, Region<'l>>;

/// Computes what changes now. `asked` is the demand of all regions, where a period is over and
/// shares are to move.
pub fn round(
    ledger: &Ledger,
    watch: &mut Watch,
    asked: Option<&[Asked]>,
    now: Timestamp,
) -> Change {
    watch.observe(&ledger.gateways, now);
    let gone = gone(&ledger.gateways, watch, now);
    let nothing = Grants::new();
    let current = ledger.grants.get(&ledger.version).unwrap_or(&nothing);
    let regions = regions(ledger, &gone, current, watch, now);
    // What cannot be read any more is learnt anew.
    let mut memory: Memory = serde_json::from_str(&ledger.memory).unwrap_or_default();
    if let Some(asked) = asked {
        memory.learn(asked, &regions, current);
    }
    memory.settle(&regions);

    let writer = Writer {
        ledger,
        watch,
        now,
        regions: &regions,
        current,
    };
    let next = if ledger.has_lost_versions() {
        // Nobody knows what is in force; what each region is sure of is in force soon.
        writer.grants(regions.values().map(|region| region.base))
    } else {
        writer.next(&memory)
    };
    Change {
        grants: (ledger.has_lost_versions() || !same(&next, current)).then_some(next),
        gone: gone
            .iter()
            .map(|gateway| (gateway.region.clone(), gateway.gateway.clone()))
            .collect(),
        // Numbers by name: that always makes a text.
        memory: serde_json::to_string(&memory).unwrap_or_default(),
    }
}

/// Gateways that were silent for their lease, of regions whose others are as many as there should
/// be.
fn gone<'l>(gateways: &'l [Beat], watch: &Watch, now: Timestamp) -> Vec<&'l Beat> {
    let lapsed = gateways.iter().filter(|one| watch.has_lapsed(one, now));
    lapsed
        .filter(|one| {
            let others = gateways.iter().filter(|other| other.region == one.region);
            let there: Vec<&Beat> = others
                .filter(|other| watch.is_established(other, now))
                .collect();
            let expected = there.iter().map(|other| other.instances).max();
            expected.is_some_and(|expected| there.len() >= expected.max(1) as usize)
        })
        .collect()
}

fn regions<'l>(
    ledger: &'l Ledger,
    gone: &[&Beat],
    current: &'l Grants,
    watch: &Watch,
    now: Timestamp,
) -> Regions<'l> {
    let mut regions = Regions::new();
    let there = ledger.gateways.iter().filter(|one| !gone.contains(one));
    for gateway in there {
        let heard = !watch.has_lapsed(gateway, now);
        let region = regions.entry(&gateway.region).or_insert(Region {
            base: gateway.base,
            heard: false,
            gateways: Vec::new(),
        });
        // Of those that are silent nobody knows whether they were configured anew.
        region.base = match (region.heard, heard) {
            (true, false) => region.base,
            (false, true) => gateway.base,
            _ => region.base.min(gateway.base),
        };
        region.heard |= heard;
        region.gateways.push(gateway);
    }
    for (name, granted) in current {
        let bases: f64 = regions.values().map(|region| region.base).sum();
        // Unless others have its base share by their configuration: then it is gone for good.
        if !regions.contains_key(&**name) && bases + granted.base <= 1.0 + TOLERANCE {
            let region = Region {
                base: granted.base,
                heard: false,
                gateways: Vec::new(),
            };
            regions.insert(name, region);
        }
    }
    regions
}

impl Region<'_> {
    /// Nobody is there that could hold anything.
    fn is_forgotten(&self) -> bool {
        self.gateways.is_empty()
    }

    fn floor(&self) -> f64 {
        self.base.min(FLOOR)
    }
}

impl Memory {
    /// Takes in a period's demand, and sets targets for the next one.
    fn learn(&mut self, asked: &[Asked], regions: &Regions<'_>, current: &Grants) {
        let heard: Vec<&str> = regions
            .iter()
            .filter(|(_, region)| region.heard)
            .map(|(name, _)| *name)
            .collect();
        self.needs.learn(asked, &heard);
        let aim = |tenant: Option<&str>| -> ByRegion {
            let standing = |(name, region): (&&str, &Region<'_>)| Standing {
                base: region.base,
                need: match tenant {
                    None => self.needs.of_all(name),
                    Some(tenant) => self.needs.of_tenant(tenant, name),
                },
                share: match current.get(*name) {
                    _ if region.is_forgotten() => region.floor(),
                    Some(granted) => granted.of(tenant),
                    None => region.base,
                },
                heard: region.heard,
            };
            let standings: Vec<Standing> = regions.iter().map(standing).collect();
            let names = regions.keys().map(|name| (*name).to_owned());
            names.zip(targets(&standings)).collect()
        };
        let all = aim(None);
        let tenants = self.needs.tenants();
        self.tenants = tenants
            .map(|tenant| (tenant.to_owned(), aim(Some(tenant))))
            .collect();
        self.targets = all;
    }

    /// A region that is new gets its base share; one that is gone gets nothing.
    fn settle(&mut self, regions: &Regions<'_>) {
        for targets in self.tenants.values_mut().chain([&mut self.targets]) {
            targets.retain(|name, _| regions.contains_key(&**name));
            for (name, region) in regions {
                targets.entry((*name).to_owned()).or_insert(region.base);
            }
        }
    }
}

/// What grants are made of.
struct Writer<'w> {
    ledger: &'w Ledger,
    watch: &'w Watch,
    now: Timestamp,
    regions: &'w Regions<'w>,
    current: &'w Grants,
}

impl Writer<'_> {
    fn next(&self, memory: &Memory) -> Grants {
        let mut next = self.grants(self.move_towards(None, &memory.targets).into_iter());
        for tenant in self.tenants(memory) {
            // Who is not among the busiest any more goes where all others are, and is one of them
            // once that is so everywhere.
            let own = memory.tenants.get(tenant);
            let targets = own.cloned().unwrap_or_else(|| {
                let shares = next.iter();
                shares
                    .map(|(name, granted)| (name.clone(), granted.share))
                    .collect()
            });
            let shares = self.move_towards(Some(tenant), &targets);
            let merged = own.is_none()
                && self.is_as_all_others(tenant)
                && next
                    .values()
                    .zip(&shares)
                    .all(|(all, own)| (all.share - own).abs() < SAME);
            if !merged {
                for (granted, share) in next.values_mut().zip(shares) {
                    granted.tenants.insert(tenant.to_owned(), share);
                }
            }
        }
        next
    }

    /// Grants of these shares, in the regions' order, to every tenant.
    fn grants(&self, shares: impl Iterator<Item = f64>) -> Grants {
        let home = self.home();
        let regions = self.regions.iter().zip(shares);
        regions
            .map(|((name, region), share)| {
                let granted = Granted {
                    base: region.base,
                    home: home == Some(*name),
                    share,
                    tenants: BTreeMap::new(),
                };
                ((*name).to_owned(), granted)
            })
            .collect()
    }

    /// Tenants whose shares may differ from those of all others, somewhere.
    fn tenants<'a>(&'a self, memory: &'a Memory) -> BTreeSet<&'a str> {
        let granted = self.ledger.grants.values().flat_map(BTreeMap::values);
        let of_grants = granted.flat_map(|granted| granted.tenants.keys());
        let of_memory = memory.tenants.keys();
        of_grants.chain(of_memory).map(String::as_str).collect()
    }

    fn is_as_all_others(&self, tenant: &str) -> bool {
        let mut granted = self.ledger.grants.values().flat_map(BTreeMap::values);
        granted.all(|granted| (granted.of(Some(tenant)) - granted.share).abs() < SAME)
    }

    /// What each region is granted next, in their order.
    fn move_towards(&self, tenant: Option<&str>, targets: &ByRegion) -> Vec<f64> {
        let claim = |(name, region): (&&str, &Region<'_>)| Claim {
            granted: self
                .current
                .get(*name)
                .map_or(0.0, |granted| granted.of(tenant)),
            held: self.held(name, region, tenant),
            target: targets.get(*name).copied().unwrap_or(region.base),
        };
        let claims: Vec<Claim> = self.regions.iter().map(claim).collect();
        let bases = self.regions.values().map(|region| region.base);
        grants(&claims, total(bases))
    }

    /// The most that any gateway of a region may have in force.
    fn held(&self, name: &str, region: &Region<'_>, tenant: Option<&str>) -> f64 {
        let of_gateway = |gateway: &&Beat| {
            let in_version = |version: i64| match self.ledger.grants.get(&version) {
                Some(grants) => grants
                    .get(name)
                    .map_or(gateway.base.min(FLOOR), |granted| granted.of(tenant)),
                None if version == 0 => gateway.base.min(FLOOR),
                // Forgotten here, or never known, where the database lost what it had committed.
                None => 1.0,
            };
            let held = in_version(gateway.applied).max(in_version(gateway.pending));
            if self.watch.has_lapsed(gateway, self.now) {
                held.min(gateway.base)
            } else {
                held
            }
        };
        let gateways = region.gateways.iter();
        gateways.map(of_gateway).fold(0.0, f64::max)
    }

    /// Holds what is too small to be split: the region with the largest base share, of equals the
    /// first by name. It is handed over in two steps, or two would hold it for a moment: nobody is
    /// granted it while any gateway of another region may have it in force. From a region that is
    /// silent nobody takes it.
    fn home(&self) -> Option<&str> {
        let there = self.regions.iter().filter(|(_, one)| !one.is_forgotten());
        let mut home: Option<(&str, f64)> = None;
        for (name, region) in there.clone() {
            if home.is_none_or(|(_, base)| region.base > base) {
                home = Some((name, region.base));
            }
        }
        let (home, _) = home?;
        let mut before = there.filter(|(name, _)| **name != home && self.was_home(name));
        match before.next() {
            None => Some(home),
            Some((_, region)) if region.heard => None,
            Some((name, _)) => self.current.get(*name).filter(|it| it.home).map(|_| *name),
        }
    }

    /// Whether a region may hold what is too small to be split.
    fn was_home(&self, name: &str) -> bool {
        let gateways = self.regions.get(name).map(|region| &region.gateways);
        let versions = gateways
            .into_iter()
            .flatten()
            .flat_map(|gateway| [gateway.applied, gateway.pending]);
        let mut granted =
            versions.filter_map(|version| self.ledger.grants.get(&version)?.get(name));
        granted.any(|granted| granted.home)
    }
}

fn same(one: &Grants, other: &Grants) -> bool {
    let close = |one: f64, other: f64| (one - other).abs() < SAME;
    let alike = |one: &Granted, other: &Granted| {
        close(one.base, other.base)
            && one.home == other.home
            && close(one.share, other.share)
            && one.tenants.len() == other.tenants.len()
            && one.tenants.iter().zip(&other.tenants).all(
                |((tenant, share), (other, other_share))| {
                    tenant == other && close(*share, *other_share)
                },
            )
    };
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|((name, granted), (other, of_other))| name == other && alike(granted, of_other))
}
