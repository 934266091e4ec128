//! All rules at one moment. It never changes: a new one takes its place as a whole.

use std::collections::HashMap;

use ahash::RandomState;

use crate::limit::Rule;

#[cfg(test)]
mod tests;

/// In a rule's place for a tenant or a route: any.
pub const ANY: &str = "*";

type ByRoute = HashMap<Box<str>, Rule, RandomState>;

/// Rules by tenant and route.
pub struct RuleSet {
    tenants: HashMap<Box<str>, ByRoute, RandomState>,
    /// Rules for any tenant, by route.
    routes: ByRoute,
    /// What holds where nothing else does.
    default: Rule,
    len: usize,
}

impl RuleSet {
    /// A set of `(tenant, route, rule)`, where either name may be [`ANY`]. Of two rules for the
    /// same pair, the later one holds.
    pub fn new<'r>(
        default: Rule,
        rules: impl IntoIterator<Item = (&'r str, &'r str, Rule)>,
    ) -> Self {
        let mut set = Self {
            tenants: HashMap::default(),
            routes: HashMap::default(),
            default,
            len: 0,
        };
        for (tenant, route, rule) in rules {
            let by_route = if tenant == ANY {
                &mut set.routes
            } else {
                set.tenants.entry(tenant.into()).or_default()
            };
            if by_route.insert(route.into(), rule).is_none() {
                set.len += 1;
            }
        }
        set
    }

    /// The most specific rule: that of the tenant on the route, then the tenant's on any route,
    /// then any tenant's on the route, then the default. Allocates nothing.
    ///
    /// Whichever it is, each tenant has a bucket of its own on each route.
    pub fn find(&self, tenant: &str, route: &str) -> &Rule {
        self.tenants
            .get(tenant)
            .and_then(|own| own.get(route).or_else(|| own.get(ANY)))
            .or_else(|| self.routes.get(route))
            .or_else(|| self.routes.get(ANY))
            .unwrap_or(&self.default)
    }

    /// How many rules there are, the default not counted.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the default is the only rule.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
