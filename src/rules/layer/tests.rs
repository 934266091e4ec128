use super::*;
use std::collections::BTreeMap;

fn rule(capacity: u32) -> Rule {
    Rule::new(capacity, 1.0).unwrap()
}

fn capacities(layer: &Layer) -> BTreeMap<(String, String), f64> {
    layer
        .iter()
        .map(|(tenant, route, rule)| ((tenant.to_owned(), route.to_owned()), rule.capacity))
        .collect()
}

/// A table of three routes for each of so many tenants.
fn table(tenants: usize) -> Layer {
    let names: Vec<String> = (0..tenants).map(|n| format!("tenant-{n}")).collect();
    names
        .iter()
        .flat_map(|name| ["a", "b", "c"].map(|route| (name.as_str(), route, rule(7))))
        .collect()
}

#[test]
fn changes_make_the_same_layer_as_building_it_does() {
    let built: Layer = [
        ("t", "b", rule(1)),
        ("t", "a", rule(2)),
        ("u", "a", rule(3)),
        (ANY, "a", rule(4)),
        ("t", "b", rule(5)),
    ]
    .into_iter()
    .collect();
    let changed = Layer::default().with([
        ("t", "b", Some(rule(1))),
        ("t", "a", Some(rule(2))),
        ("u", "a", Some(rule(3))),
        ("v", "a", Some(rule(9))),
        (ANY, "a", Some(rule(4))),
        (ANY, "b", Some(rule(4))),
        ("t", "b", Some(rule(5))),
        ("v", "a", None),
        (ANY, "b", None),
        ("nobody", "a", None),
        ("t", "nothing", None),
    ]);
    assert_eq!(capacities(&built), capacities(&changed));
    assert_eq!(built.len(), 4);
    assert_eq!(changed.len(), 4);
    assert_eq!(built.get("t", "b").unwrap().capacity, 5.0, "the later one");
}

#[test]
fn a_layer_stays_as_it_is_when_another_is_made_of_it() {
    let before = table(100);
    let after = before.with([
        ("tenant-7", "a", Some(rule(70))),
        ("tenant-8", "a", None),
        ("new", "a", Some(rule(1))),
    ]);
    assert_eq!(before.len(), 300);
    assert_eq!(before.get("tenant-7", "a").unwrap().capacity, 7.0);
    assert!(before.get("tenant-8", "a").is_some());
    assert!(before.get("new", "a").is_none());
    assert_eq!(after.len(), 300);
    assert_eq!(after.get("tenant-7", "a").unwrap().capacity, 70.0);
    assert_eq!(after.get("tenant-7", "b").unwrap().capacity, 7.0);
    assert!(after.get("tenant-8", "a").is_none());
}

#[test]
fn one_change_of_a_large_table_copies_one_part_of_it() {
    let before = table(10_000);
    let after = before.with([("tenant-7", "a", Some(rule(70)))]);
    let pairs = before.shards.iter().zip(&after.shards);
    let copied = pairs.filter(|(one, other)| !Arc::ptr_eq(one, other));
    assert_eq!(copied.count(), 1);
}

#[test]
fn a_tenant_without_rules_leaves_nothing_behind() {
    let layer = table(10).with((0..10).flat_map(|n| {
        let name: &str = Box::leak(format!("tenant-{n}").into_boxed_str());
        ["a", "b", "c"].map(|route| (name, route, None))
    }));
    assert!(layer.is_empty());
    assert!(layer.shards.iter().all(|shard| shard.is_empty()));
}
