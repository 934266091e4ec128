//! How far shares may go towards their targets now: shrinking ones at once, growing ones only into
//! what is free.
//!
//! What was granted may be in force from that moment on, and what is in force somewhere is taken
//! until it is known not to be any more. Of a region the larger of both is *occupied*; that all
//! regions together never occupy more than there is, is what keeps the limit.

#[cfg(test)]
mod tests;

/// One region, as far as one limit is concerned. All numbers are parts of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// What it was granted last.
    pub granted: f64,
    /// The most that any of its gateways may have in force.
    pub held: f64,
    /// Where it should be.
    pub target: f64,
}

/// Differences that are due to rounding alone.
const NOTHING: f64 = 1e-9;

/// What each region is granted next, of `total`.
pub fn grants(claims: &[Claim], total: f64) -> Vec<f64> {
    let occupied = |claim: &Claim| {
        // What shrinks is granted no longer, but may be in force still.
        claim.granted.min(claim.target).max(claim.held)
    };
    let free = total - claims.iter().map(occupied).sum::<f64>();
    // Somebody seems to hold what was given away: it is silent for longer than this writer knows.
    // Until that is settled nobody gets more, not even what it seems to hold.
    let settled = free >= -NOTHING;
    let wants = |claim: &Claim| (claim.target - occupied(claim)).max(0.0);
    let wanted: f64 = claims.iter().map(wants).sum();
    let part = if wanted > NOTHING {
        (free / wanted).clamp(0.0, 1.0)
    } else {
        0.0
    };
    claims
        .iter()
        .map(|claim| {
            let most = if settled {
                occupied(claim) + part * wants(claim)
            } else {
                claim.granted
            };
            let next = claim.target.min(most);
            if (next - claim.granted).abs() < NOTHING {
                claim.granted
            } else {
                next
            }
        })
        .collect()
}
