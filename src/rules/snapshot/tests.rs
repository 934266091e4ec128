use super::*;

fn set<const N: usize>(default: Rule, rules: [(&str, &str, Rule); N]) -> RuleSet {
    RuleSet::new(default, rules.into_iter().collect())
}

fn rule(capacity: u32) -> Rule {
    Rule::new(capacity, 1.0).unwrap()
}

#[test]
fn the_most_specific_rule_holds() {
    let set = set(
        rule(1),
        [
            ("a", "r", rule(2)),
            ("a", ANY, rule(3)),
            (ANY, "r", rule(4)),
            ("b", "other", rule(5)),
        ],
    );
    let capacity = |tenant, route| set.find(tenant, route, 1).capacity;
    assert_eq!(capacity("a", "r"), 2.0, "tenant and route");
    assert_eq!(capacity("a", "s"), 3.0, "the tenant on any route");
    assert_eq!(capacity("c", "r"), 4.0, "any tenant on the route");
    assert_eq!(
        capacity("b", "r"),
        4.0,
        "a tenant with rules for other routes"
    );
    assert_eq!(capacity("c", "s"), 1.0, "the default");
    assert_eq!(set.len(), 4);
}

#[test]
fn a_tenants_own_rule_for_any_route_comes_before_any_tenants_for_this_one() {
    let set = set(rule(1), [("a", ANY, rule(3)), (ANY, "r", rule(4))]);
    assert_eq!(set.find("a", "r", 1).capacity, 3.0);
}

#[test]
fn any_tenant_on_any_route_is_a_default_of_its_own() {
    let set = set(rule(1), [(ANY, ANY, rule(7)), (ANY, "r", rule(4))]);
    assert_eq!(set.find("a", "s", 1).capacity, 7.0);
    assert_eq!(set.find("a", "r", 1).capacity, 4.0);
}

#[test]
fn of_two_rules_for_a_pair_the_later_one_holds_and_one_is_counted() {
    let set = set(rule(1), [("a", "r", rule(2)), ("a", "r", rule(9))]);
    assert_eq!(set.find("a", "r", 1).capacity, 9.0);
    assert_eq!(set.len(), 1);
}

#[test]
fn names_are_compared_as_they_are() {
    let set = set(rule(1), [("a", "r", rule(2))]);
    for tenant in ["A", "a ", "", "*"] {
        assert_eq!(set.find(tenant, "r", 1).capacity, 1.0, "{tenant:?}");
    }
}

#[test]
fn the_database_wins_over_the_file_for_the_same_pair_alone() {
    let mut set = set(
        rule(1),
        [
            ("a", "r", rule(2)),
            ("a", "s", rule(3)),
            (ANY, "r", rule(4)),
        ],
    );
    set.database = Arc::new(
        [
            ("a", "r", rule(20)),
            ("b", ANY, rule(30)),
            ("a", ANY, rule(50)),
        ]
        .into_iter()
        .collect(),
    );
    let capacity = |tenant, route| set.find(tenant, route, 1).capacity;
    assert_eq!(capacity("a", "r"), 20.0, "the database's");
    assert_eq!(
        capacity("a", "s"),
        3.0,
        "the file's, which is more specific"
    );
    assert_eq!(capacity("a", "t"), 50.0);
    assert_eq!(capacity("b", "r"), 30.0);
    assert_eq!(capacity("c", "r"), 4.0, "the file's");
    assert_eq!(set.len(), 5);
}

#[test]
fn a_rule_that_could_never_admit_a_request_of_the_route_is_passed_over_on_it() {
    let mut set = set(rule(20), [("a", "r", rule(10))]);
    set.database = Arc::new(
        [("a", "r", rule(2)), ("b", ANY, rule(2))]
            .into_iter()
            .collect(),
    );
    let capacity = |tenant, cost| set.find(tenant, "r", cost).capacity;
    assert_eq!(capacity("a", 2), 2.0);
    assert_eq!(capacity("a", 3), 10.0, "the file's");
    assert_eq!(capacity("b", 2), 2.0);
    assert_eq!(capacity("b", 3), 20.0, "the default");
}
