//! Where the shares of one limit should be: the base-guarantee rule.
//!
//! Each region first gets what it needs up to its base share, whatever the others ask for: an
//! attack in one region takes nothing that another one needs of its own. What is idle then goes to
//! those who need more, in proportion to what they lack, and what is still left to all by their
//! base shares. (In the spirit of FAIR_SHARE of YouTube's Doorman; shares in proportion to demand
//! alone would let an attack take another region's tokens.)

use crate::rules::share::FLOOR;

#[cfg(test)]
mod tests;

/// The most that a share moves at once.
const STEP: f64 = 0.2;
/// Moves of every region below this are not worth the unrest.
const HYSTERESIS: f64 = 0.02;

/// One region, as far as one limit is concerned. All numbers are parts of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Its base share.
    pub base: f64,
    /// What it needs; may be more than 1.
    pub need: f64,
    /// What it has.
    pub share: f64,
    /// Whether anything was heard of it lately.
    pub heard: bool,
}

/// What there is to share: the base shares of all regions, at most the whole limit. A region that
/// nobody has heard of yet has the rest.
pub fn total(bases: impl Iterator<Item = f64>) -> f64 {
    bases.sum::<f64>().min(1.0)
}

/// Where the shares should be one period from now, at most a step from where they are.
pub fn targets(regions: &[Standing]) -> Vec<f64> {
    let ideal = ideal(regions);
    let moves = || {
        let pairs = ideal.iter().zip(regions);
        pairs.map(|(target, region)| target - region.share)
    };
    let longest = moves().fold(0.0, |longest: f64, one| longest.max(one.abs()));
    if longest <= HYSTERESIS {
        return regions.iter().map(|region| region.share).collect();
    }
    // All of them by the same part, so that their sum stays what it is.
    let part = (STEP / longest).min(1.0);
    let steps = moves().zip(regions);
    steps
        .map(|(whole, region)| region.share + part * whole)
        .collect()
}

/// Where the shares should be in the end.
pub fn ideal(regions: &[Standing]) -> Vec<f64> {
    let sum: f64 = regions.iter().map(|region| region.base).sum();
    // Base shares that sum to more than there is are a mistake of the configurations.
    let fit = 1.0 / sum.max(1.0);
    let base = |region: &Standing| region.base * fit;
    let guaranteed = |region: &Standing| {
        if region.heard {
            let floor = FLOOR.min(base(region));
            region.need.min(base(region)).max(floor)
        } else {
            // Nobody knows what it needs, nor takes from what it may be using.
            region.share.min(base(region))
        }
    };
    let lacks = |region: &Standing| {
        if region.heard {
            (region.need - guaranteed(region)).max(0.0)
        } else {
            0.0
        }
    };
    let idle = total(regions.iter().map(base)) - regions.iter().map(guaranteed).sum::<f64>();
    let idle = idle.max(0.0);
    let lacking: f64 = regions.iter().map(lacks).sum();
    let lent = if lacking > idle { idle / lacking } else { 1.0 };
    let surplus = (idle - lacking).max(0.0);
    let heard = regions.iter().filter(|region| region.heard);
    let heard_bases: f64 = heard.map(base).sum();
    regions
        .iter()
        .map(|region| {
            let of_surplus = if region.heard && heard_bases > 0.0 {
                surplus * base(region) / heard_bases
            } else {
                0.0
            };
            guaranteed(region) + lent * lacks(region) + of_surplus
        })
        .collect()
}
