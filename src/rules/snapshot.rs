//! All rules at one moment: those of the file, and above them those of the database. It never
//! changes: a new one takes its place as a whole, and shares with it what is the same.

use std::sync::Arc;

use super::layer::{ANY, Layer};
use super::share::Regional;
use crate::limit::Rule;

#[cfg(test)]
mod tests;

/// The rules of every source.
#[derive(Clone)]
pub struct RuleSet {
    /// What holds where nothing else does.
    pub default: Rule,
    /// The rules of the file.
    pub file: Arc<Layer>,
    /// Those of the database. They win over the file's for the same tenant and route.
    pub database: Arc<Layer>,
    /// What this region holds of each; all of it where there are no others.
    pub region: Option<Arc<Regional>>,
}

impl RuleSet {
    /// The rules of the file alone.
    pub fn new(default: Rule, file: Layer) -> Self {
        Self {
            default,
            file: Arc::new(file),
            database: Arc::default(),
            region: None,
        }
    }

    /// The most specific rule: that of the tenant on the route, then the tenant's on any route,
    /// then any tenant's on the route, then the default. Allocates nothing.
    ///
    /// A rule that could never admit a request of `cost` tokens, which is what one on this route
    /// takes, is passed over. Whichever rule it is, each tenant has a bucket of its own on each
    /// route.
    pub fn find(&self, tenant: &str, route: &str, cost: u32) -> &Rule {
        self.of(tenant, route, cost)
            .or_else(|| self.of(ANY, route, cost))
            .unwrap_or(&self.default)
    }

    fn of(&self, tenant: &str, route: &str, cost: u32) -> Option<&Rule> {
        let layers = [self.database.of(tenant), self.file.of(tenant)];
        [route, ANY]
            .into_iter()
            .flat_map(|route| layers.map(|own| own.on(route)))
            .flatten()
            .find(|rule| fits(rule, cost))
    }

    /// How many rules there are, the default not counted. One that another source wins over does
    /// not count either.
    pub fn len(&self) -> usize {
        let overruled = self
            .file
            .iter()
            .filter(|(tenant, route, _)| self.database.get(tenant, route).is_some());
        self.file.len() + self.database.len() - overruled.count()
    }

    /// Whether the default is the only rule.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty() && self.database.is_empty()
    }
}

/// Whether a full bucket holds what one request takes.
pub fn fits(rule: &Rule, cost: u32) -> bool {
    rule.capacity >= f64::from(cost)
}
