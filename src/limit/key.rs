//! Whose bucket: the pair of tenant and route.

/// The name of a bucket. How a store spells it is the store's own affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey<'k> {
    /// Who asks.
    pub tenant: &'k str,
    /// The id of the route that is asked for.
    pub route: &'k str,
}

/// A bucket's name that outlives its request. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Name {
    text: std::sync::Arc<str>,
    /// Where the route begins.
    route_at: usize,
}

impl Name {
    /// The name of `key`.
    pub fn of(key: &BucketKey<'_>) -> Self {
        Self {
            text: [key.tenant, key.route].concat().into(),
            route_at: key.tenant.len(),
        }
    }

    /// The key that is named.
    pub fn key(&self) -> BucketKey<'_> {
        let (tenant, route) = self.text.split_at(self.route_at);
        BucketKey { tenant, route }
    }
}
