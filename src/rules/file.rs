//! The rules of the configuration file.

use super::layer::Layer;
use super::snapshot::RuleSet;
use crate::config;
use crate::limit::{OnStoreFailure, Rule, RuleError};

/// The rules of a file that was validated.
///
/// # Errors
///
/// Where it was not.
pub fn rules(limits: &config::Limits) -> Result<RuleSet, RuleError> {
    let rule = |limits: &config::RuleLimits| Rule::new(limits.capacity, limits.refill_per_second);
    let default = rule(&limits.default_rule)?;
    let rules = limits.rules.iter().map(|of_file| {
        let rule = rule(&of_file.limits)?
            .with_shards(of_file.shards)
            .with_shadow(of_file.shadow)
            .with_on_store_failure(match of_file.on_store_failure {
                config::OnStoreFailure::Local => OnStoreFailure::Local,
                config::OnStoreFailure::Open => OnStoreFailure::Open,
                config::OnStoreFailure::Closed => OnStoreFailure::Closed,
            });
        Ok((of_file.tenant.as_str(), of_file.route.as_str(), rule))
    });
    let layer = rules.collect::<Result<Layer, RuleError>>()?;
    Ok(RuleSet::new(default, layer))
}
