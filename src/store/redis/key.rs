//! How a bucket is named in Redis: `rl:{TENANT}:ROUTE`.
//!
//! The braces are a hash tag, so that one tenant's buckets share a slot of a cluster. Other
//! gateways read and write the same keys, and spell ordinary names as they are.

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::limit::BucketKey;

/// What would end a hash tag, meet the separator or break a line: encoded, so that no two pairs of
/// names share a key. Bytes outside of ASCII are always encoded.
const RESERVED: &AsciiSet = &CONTROLS.add(b' ').add(b'{').add(b'}').add(b':').add(b'%');

/// The key of a bucket.
pub fn bucket_key(key: &BucketKey<'_>) -> String {
    let mut name = String::with_capacity(6 + key.tenant.len() + key.route.len());
    name.push_str("rl:{");
    name.extend(percent_encode(key.tenant.as_bytes(), RESERVED));
    name.push_str("}:");
    name.extend(percent_encode(key.route.as_bytes(), RESERVED));
    name
}

/// The key of sub-bucket `shard` of a hot bucket: `rl:TENANT:ROUTE:i`. Without a hash tag, so that
/// the sub-buckets spread over the slots of a cluster. No bucket of another name is called that:
/// neither name holds a `:` of its own, nor braces.
pub fn shard_key(key: &BucketKey<'_>, shard: u32) -> String {
    let mut name = String::with_capacity(8 + key.tenant.len() + key.route.len());
    name.push_str("rl:");
    name.extend(percent_encode(key.tenant.as_bytes(), RESERVED));
    name.push(':');
    name.extend(percent_encode(key.route.as_bytes(), RESERVED));
    name.push(':');
    name.push_str(&shard.to_string());
    name
}

/// The key that a node is probed with; nobody's bucket.
pub(super) fn probe_key(node: usize) -> String {
    format!("rl:aforo:probe:{{{node}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tenant: &str, route: &str) -> String {
        bucket_key(&BucketKey { tenant, route })
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        assert_eq!(name("shop-a", "create-order"), "rl:{shop-a}:create-order");
        assert_eq!(name("dGVu/YW50+Q==", "r"), "rl:{dGVu/YW50+Q==}:r");
    }

    #[test]
    fn what_could_steer_a_slot_or_meet_another_key_is_encoded() {
        assert_eq!(name("{x}", "r"), "rl:{%7Bx%7D}:r");
        assert_eq!(name("a:b", "c:d"), "rl:{a%3Ab}:c%3Ad");
        assert_eq!(name("50%", "r"), "rl:{50%25}:r");
        assert_eq!(name("a b\n", "é\u{7f}"), "rl:{a%20b%0A}:%C3%A9%7F");
    }

    #[test]
    fn shards_of_a_bucket_lie_apart_and_meet_no_other_key() {
        let key = BucketKey {
            tenant: "{x}",
            route: "a:b",
        };
        assert_eq!(shard_key(&key, 7), "rl:%7Bx%7D:a%3Ab:7");
        let hot = BucketKey {
            tenant: "shop-a",
            route: "create-order",
        };
        let slots: std::collections::HashSet<u16> = (0..10)
            .map(|shard| super::super::slots::slot_of(&shard_key(&hot, shard)))
            .collect();
        assert_eq!(slots.len(), 10);
        // Neither the keys of gateways nor those of probes, whose tenants would have to be `aforo`
        // with a third part.
        let own = BucketKey {
            tenant: "aforo",
            route: "probe",
        };
        assert_ne!(shard_key(&own, 0), probe_key(0));
    }

    #[test]
    fn no_two_pairs_share_a_key() {
        let names = [
            "a", "a:", ":a", "a}", "{a", "a%3A", "%", "%25", "é", "a:b", "b",
        ];
        let mut seen = std::collections::HashMap::new();
        for tenant in names {
            for route in names {
                let other = seen.insert(name(tenant, route), (tenant, route));
                assert_eq!(other, None, "{tenant:?} on {route:?}");
            }
        }
    }
}
