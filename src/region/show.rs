//! What `aforo regions` prints: who holds which share, and who was heard of when.

use std::fmt::Write;

use crate::rules::ledger::Grants;
use crate::rules::postgres::region::overview::{Overview, Seen};

#[cfg(test)]
mod tests;

/// Tenants that are named.
const NAMED: usize = 20;

/// All regions, for people.
#[must_use]
pub fn overview(overview: &Overview) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_overview(overview, &mut text);
    text
}

fn write_overview(overview: &Overview, text: &mut String) -> std::fmt::Result {
    let mut names: Vec<&str> = overview
        .gateways
        .iter()
        .map(|seen| seen.beat.region.as_str())
        .chain(overview.grants.keys().map(String::as_str))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return writeln!(text, "no region was heard of yet");
    }
    writeln!(
        text,
        "version {}, shares in % of each limit",
        overview.version
    )?;
    writeln!(
        text,
        "{:<20} {:>6} {:>6} {:>9}  heard of",
        "region", "base", "share", "gateways"
    )?;
    for name in &names {
        let granted = overview.grants.get(*name);
        let gateways: Vec<&Seen> = overview
            .gateways
            .iter()
            .filter(|seen| seen.beat.region == *name)
            .collect();
        let base = gateways.first().map(|seen| seen.beat.base);
        let base = granted.map(|granted| granted.base).or(base);
        writeln!(
            text,
            "{name:<20} {:>6} {:>6} {:>9}  {}",
            percent(base),
            percent(granted.map(|granted| granted.share)),
            gateways.len(),
            heard(&gateways, overview.version)
        )?;
    }
    let bases: f64 = overview.grants.values().map(|granted| granted.base).sum();
    if bases > 1.0 + 1e-6 {
        writeln!(
            text,
            "the base shares sum to {:.1} %: they may sum to 100 % at most",
            bases * 100.0
        )?;
    }
    if let Some((home, smallest)) = home(&overview.grants) {
        writeln!(
            text,
            "home: {home}; a limit of fewer than {:.0} requests is held there for the regions whose base \
             share of it is less than one",
            (1.0 / smallest).ceil()
        )?;
    }
    write_tenants(overview, &names, text)
}

/// When each gateway of a region was heard of, in short.
fn heard(gateways: &[&Seen], version: i64) -> String {
    let silent = gateways.iter().filter(|seen| seen.ago >= seen.beat.lease);
    let behind = gateways.iter().filter(|seen| seen.beat.applied < version);
    let last = gateways.iter().map(|seen| seen.ago).min();
    let mut text = match last {
        None => return "forgotten: no gateway".to_owned(),
        Some(ago) => format!("{:.1} s ago", ago.as_secs_f64()),
    };
    let silent = silent.count();
    if silent > 0 {
        text.push_str(&format!(", {silent} silent for more than their lease"));
    }
    let behind = behind.count();
    if behind > 0 {
        text.push_str(&format!(", {behind} at an older version"));
    }
    text
}

fn write_tenants(overview: &Overview, names: &[&str], text: &mut String) -> std::fmt::Result {
    let mut demand: Vec<(&str, f64)> = Vec::new();
    let Some(granted) = overview.grants.values().next() else {
        return Ok(());
    };
    for tenant in granted.tenants.keys() {
        let asked = overview.asked.iter().filter(|one| one.tenant == *tenant);
        demand.push((tenant, asked.map(|one| one.demand).sum()));
    }
    demand.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    if demand.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "tenants with shares of their own, busiest first: {}",
        demand.len()
    )?;
    for (tenant, tokens) in demand.iter().take(NAMED) {
        let shares: Vec<String> = names
            .iter()
            .filter_map(|name| Some((name, overview.grants.get(*name)?.of(Some(tenant)))))
            .map(|(name, share)| format!("{name} {}", percent(Some(share))))
            .collect();
        // Names come from whoever sends requests.
        writeln!(
            text,
            "  {:<20} {tokens:>10.1} tokens/s  {}",
            tenant.escape_debug().to_string(),
            shares.join(", ")
        )?;
    }
    Ok(())
}

/// The home region and the smallest base share there is.
fn home(grants: &Grants) -> Option<(&str, f64)> {
    let (home, _) = grants.iter().find(|(_, granted)| granted.home)?;
    let bases = grants.values().map(|granted| granted.base);
    let smallest = bases.fold(1.0, f64::min);
    (grants.len() > 1).then_some((home.as_str(), smallest))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0))
}
