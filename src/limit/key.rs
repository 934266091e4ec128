//! Whose bucket: the pair of tenant and route.

/// The name of a bucket. How a store spells it is the store's own affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey<'k> {
    /// Who asks.
    pub tenant: &'k str,
    /// The id of the route that is asked for.
    pub route: &'k str,
}
