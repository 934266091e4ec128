//! Rules and the numbers in them.

use super::*;

#[test]
fn numbers_of_rules_are_named_with_their_row() {
    for value in [
        "0",
        "-5",
        "null",
        "~",
        "",
        "2147483648",
        "1.5",
        "20.0",
        ".nan",
        ".inf",
        "-.inf",
        "340282366920938463463374607431768211455",
    ] {
        let rule = format!(
            "limits: {{ rules: [{{ tenant: t, route: r, capacity: {value}, refill_per_second: 1 }}] }}"
        );
        let shown = match value {
            "~" | "" => "null",
            "340282366920938463463374607431768211455" => "170141183460469231731687303715884105727",
            value => value,
        };
        assert_eq!(
            problems(&[&rule]),
            [format!(
                "limits.rules[0].capacity: of tenant `t` on route `r` must be a whole number from 1 to 2147483647, not {shown}"
            )]
        );
    }
    for value in [
        "0",
        "-1",
        "-0.5",
        "null",
        ".nan",
        ".inf",
        "-.inf",
        "1e-10",
        "1000000001",
    ] {
        let rule =
            format!("limits: {{ default_rule: {{ capacity: 1, refill_per_second: {value} }} }}");
        assert_eq!(
            problems(&[&rule]),
            [format!(
                "limits.default_rule.refill_per_second: must be a number from 1e-9 to 1e9, not {value}"
            )]
        );
    }
    each_is_accepted(&[
        "limits: { default_rule: { capacity: 2147483647, refill_per_second: 1e9 } }",
        "limits: { default_rule: { capacity: 1, refill_per_second: 1e-9 } }",
        "limits: { default_rule: { capacity: 1, refill_per_second: 0.5 } }",
    ]);
}

#[test]
fn rules() {
    let rule = |rule: &str| {
        format!("limits: {{ rules: [{{ {rule}, capacity: 5, refill_per_second: 1 }}] }}")
    };
    let long = "x".repeat(65);
    for (who, expected) in [
        ("tenant: \"\", route: r", "limits.rules[0].tenant: must not be empty".to_owned()),
        ("tenant: a b, route: r", "limits.rules[0].tenant: `a b` may hold visible ASCII characters only, and no space".to_owned()),
        (&format!("tenant: {long}, route: r"), format!("limits.rules[0].tenant: `{long}` has 65 characters, at most 64 are allowed")),
        ("tenant: t, route: x", "limits.rules[0].route: no route has the id `x`, there is `r`; `*` is every route".to_owned()),
        ("tenant: \"*\", route: \"*\"", "limits.rules[0]: for every tenant on every route there is limits.default_rule, write it there".to_owned()),
        ("tenant: t, route: r, shards: 0", "limits.rules[0].shards: must be at least 1, not 0".to_owned()),
    ] {
        assert_eq!(problems(&[&rule(who)]), [expected]);
    }
    for who in [
        "tenant: t, route: r",
        "tenant: t, route: \"*\"",
        "tenant: \"*\", route: r",
        "tenant: t, route: r, shadow: true, shards: 1, on_store_failure: local",
        "tenant: t, route: r, on_store_failure: open",
        "tenant: t, route: r, on_store_failure: closed",
    ] {
        assert_eq!(problems(&[&rule(who)]), Vec::<String>::new(), "{who}");
    }
    each_is_refused(&[
        (
            "limits: { rules: [{ tenant: t, route: r, capacity: 1, refill_per_second: 1 }, { tenant: t, route: \"*\", capacity: 1, refill_per_second: 1 }, { tenant: t, route: r, capacity: 2, refill_per_second: 1 }] }",
            "limits.rules[2]: tenant `t` on route `r` already has limits.rules[0], keep one of them",
        ),
        (
            "limits: { headers: [draft, draft] }",
            "limits.headers[1]: is here twice, each family is named once",
        ),
        (
            "limits: { max_local_buckets: 0 }",
            "limits.max_local_buckets: must be at least 1, not 0",
        ),
    ]);
    let config = read(&with(&[
        "limits: { headers: [draft], mode: shadow, prefetch: { batch: 0 } }",
    ]))
    .expect("right");
    assert!(config.limits.headers.draft && !config.limits.headers.x_ratelimit);
    assert_eq!(config.limits.prefetch_batch, 0);
    let config = read(&with(&["limits: { headers: [] }"])).expect("right");
    assert!(!config.limits.headers.draft && !config.limits.headers.x_ratelimit);
}

#[test]
fn a_bucket_holds_what_one_request_costs() {
    let routes = "routes: [{ id: cheap, path: /c, upstream: a }, { id: dear, path: /d, upstream: a, cost: 30 }, { id: dearest, path: /e, upstream: a, cost: 40 }]";
    let least = |path: &str, whom: &str, capacity: u32, cost: u32, route: &str| {
        format!(
            "{path}.capacity: {whom}is {capacity}, less than the cost {cost} of one request on route `{route}`, so that it would admit none; it must be at least {cost}"
        )
    };
    let rule = |tenant: &str, route: &str, capacity: u32| {
        format!(
            "{{ tenant: \"{tenant}\", route: \"{route}\", capacity: {capacity}, refill_per_second: 1 }}"
        )
    };
    let default =
        |capacity: u32| format!("default_rule: {{ capacity: {capacity}, refill_per_second: 1 }}");
    let limits = |default: &str, rules: &[String]| {
        format!("limits: {{ {default}, rules: [{}] }}", rules.join(", "))
    };
    for (limits, expected) in [
        // The default rule, also where it is not written.
        ("limits: {}".to_owned(), vec![least("limits.default_rule", "", 20, 40, "dearest")]),
        (limits(&default(39), &[]), vec![least("limits.default_rule", "", 39, 40, "dearest")]),
        (limits(&default(40), &[]), vec![]),
        // It does not decide where every tenant has a rule.
        (limits(&default(1), &[rule("*", "dear", 30), rule("*", "dearest", 40)]), vec![]),
        (limits(&default(1), &[rule("*", "dearest", 40), rule("t", "dear", 30)]), vec![least("limits.default_rule", "", 1, 30, "dear")]),
        // A rule for one route.
        (limits(&default(40), &[rule("t", "dear", 29)]), vec![least("limits.rules[0]", "of tenant `t` on route `dear` ", 29, 30, "dear")]),
        (limits(&default(40), &[rule("*", "dear", 29)]), vec![least("limits.rules[0]", "of tenant `*` on route `dear` ", 29, 30, "dear")]),
        (limits(&default(40), &[rule("t", "cheap", 1)]), vec![]),
        // A tenant's rule for every route, except where it has another.
        (limits(&default(40), &[rule("t", "*", 30)]), vec![least("limits.rules[0]", "of tenant `t` on route `*` ", 30, 40, "dearest")]),
        (limits(&default(40), &[rule("t", "*", 30), rule("t", "dearest", 40)]), vec![]),
        (limits(&default(40), &[rule("t", "*", 30), rule("u", "dearest", 40), rule("*", "dearest", 40)]), vec![least("limits.rules[0]", "of tenant `t` on route `*` ", 30, 40, "dearest")]),
        // A capacity that is wrong in itself is said once.
        (limits(&default(40), &[rule("t", "dear", 0)]), vec!["limits.rules[0].capacity: of tenant `t` on route `dear` must be a whole number from 1 to 2147483647, not 0".to_owned()]),
    ] {
        assert_eq!(problems(&[routes, &limits]), expected, "{limits}");
    }
}

#[test]
fn numbers_that_nobody_means_are_refused() {
    each_is_refused(&[
        (
            "server: { threads: 100000 }",
            "server.threads: must be at most 1024; the default is the number of cores",
        ),
        (
            "upstreams: { a: { servers: [127.0.0.1:1], retries: 40 } }",
            "upstreams.a.retries: must be from 0 to 10",
        ),
    ]);
}
