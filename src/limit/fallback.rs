//! This gateway's own share of every limit, for requests that the store does not answer in time.
//!
//! A key with an entry has a bucket of its own in its [`account`](super::account); one that found no
//! place is held to the gates of [`sketch`](super::sketch).

use super::bucket::Grant;
use super::clock::Timestamp;
use super::keys::Keys;
use super::rule::Rule;
use super::sketch::Sketch;
use super::table::KeyId;

/// A decision by this gateway's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The decision. Its level is that of the whole bucket, if every gateway had as much left as
    /// this one.
    pub grant: Grant,
    /// Tokens that the store is owed for it.
    pub owed: u32,
}

impl Keys {
    /// Asks this gateway's share for one request.
    pub fn take(&self, id: KeyId, rule: &Rule, cost: u32, now: Timestamp) -> Share {
        let n = self.instances.get();
        let of_account = self.with_new(id, now, |entry| entry.account().take(rule, n, cost, now));
        let (grant, owed) = of_account.unwrap_or_else(|| {
            let share = rule.share(n, cost);
            let sketch = self.sketch.get_or_init(Sketch::new);
            (sketch.take(id.short(), rule, &share, cost, now), 0)
        });
        Share { grant, owed }
    }
}
