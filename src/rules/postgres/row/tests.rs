use super::*;

const GOOD: Row<'_> = Row {
    tenant: "shop-a",
    route: "create-order",
    capacity: Some(10),
    refill: Some(5),
    period: Some(1),
    shards: Some(1),
    shadow: Some(false),
    on_store_failure: Some("local"),
    concurrency: None,
};

#[test]
fn the_rate_is_the_refill_by_the_period() {
    for (refill, period, rate) in [
        (5, 1, 5.0),
        (1, 60, 1.0 / 60.0),
        (1, 3_600, 1.0 / 3_600.0),
        (1, 86_400, 1.0 / 86_400.0),
        (2, 3, 2.0 / 3.0),
    ] {
        let row = Row {
            refill: Some(refill),
            period: Some(period),
            ..GOOD
        };
        let rule = row.check().unwrap().rule;
        assert_eq!(rule, Rule::new(10, rate).unwrap());
    }
}

#[test]
fn a_row_may_be_for_any_tenant_on_any_route_and_in_shadow() {
    let row = Row {
        tenant: "*",
        route: "*",
        shadow: Some(true),
        ..GOOD
    };
    let good = row.check().unwrap();
    assert!(good.rule.shadow);
    assert_eq!(good.unsupported, None);
}

#[test]
fn whatever_is_no_rule_is_named_by_its_column() {
    let long = "x".repeat(65);
    let bad = [
        ("tenant_id", Row { tenant: "", ..GOOD }),
        (
            "tenant_id",
            Row {
                tenant: "a b",
                ..GOOD
            },
        ),
        (
            "tenant_id",
            Row {
                tenant: "a\n",
                ..GOOD
            },
        ),
        (
            "tenant_id",
            Row {
                tenant: "é",
                ..GOOD
            },
        ),
        (
            "tenant_id",
            Row {
                tenant: &long,
                ..GOOD
            },
        ),
        ("route_id", Row { route: "", ..GOOD }),
        (
            "capacity",
            Row {
                capacity: Some(0),
                ..GOOD
            },
        ),
        (
            "capacity",
            Row {
                capacity: Some(-5),
                ..GOOD
            },
        ),
        (
            "capacity",
            Row {
                capacity: None,
                ..GOOD
            },
        ),
        (
            "refill_per_second",
            Row {
                refill: Some(0),
                ..GOOD
            },
        ),
        (
            "refill_per_second",
            Row {
                refill: Some(i32::MIN),
                ..GOOD
            },
        ),
        (
            "refill_per_second",
            Row {
                refill: None,
                ..GOOD
            },
        ),
        (
            "refill_per_second",
            Row {
                refill: Some(i32::MAX),
                ..GOOD
            },
        ),
        (
            "period_seconds",
            Row {
                period: Some(0),
                ..GOOD
            },
        ),
        (
            "period_seconds",
            Row {
                period: Some(i32::MAX),
                ..GOOD
            },
        ),
        (
            "period_seconds",
            Row {
                period: None,
                ..GOOD
            },
        ),
        (
            "shards",
            Row {
                shards: Some(0),
                ..GOOD
            },
        ),
        (
            "shards",
            Row {
                shards: None,
                ..GOOD
            },
        ),
        (
            "shadow",
            Row {
                shadow: None,
                ..GOOD
            },
        ),
        (
            "on_store_failure",
            Row {
                on_store_failure: Some("maybe"),
                ..GOOD
            },
        ),
        (
            "on_store_failure",
            Row {
                on_store_failure: None,
                ..GOOD
            },
        ),
        (
            "concurrency",
            Row {
                concurrency: Some(0),
                ..GOOD
            },
        ),
    ];
    for (column, mut row) in bad {
        // Slow as it is, that is a rate; here it is to be one that is too slow.
        if row.period == Some(i32::MAX) {
            row.refill = Some(1);
        }
        let wrong = row.check().unwrap_err();
        assert!(wrong.contains(column), "{row:?}: {wrong}");
    }
}

#[test]
fn what_does_not_exist_yet_is_named_and_the_rest_is_a_rule() {
    let row = Row {
        shards: Some(4),
        concurrency: Some(3),
        ..GOOD
    };
    let good = row.check().unwrap();
    assert_eq!(good.rule, Rule::new(10, 5.0).unwrap().with_shards(4));
    let named = good.unsupported.unwrap();
    assert!(named.contains("concurrency = 3"), "{named}");
}

#[test]
fn what_happens_without_the_store_is_a_part_of_the_rule() {
    for (name, expected) in [
        ("local", OnStoreFailure::Local),
        ("open", OnStoreFailure::Open),
        ("closed", OnStoreFailure::Closed),
    ] {
        let row = Row {
            on_store_failure: Some(name),
            ..GOOD
        };
        assert_eq!(row.check().unwrap().rule.on_store_failure, expected);
    }
}
