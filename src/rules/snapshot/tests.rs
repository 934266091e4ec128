use super::*;

fn rule(capacity: u32) -> Rule {
    Rule::new(capacity, 1.0).unwrap()
}

#[test]
fn the_most_specific_rule_holds() {
    let set = RuleSet::new(
        rule(1),
        [
            ("a", "r", rule(2)),
            ("a", ANY, rule(3)),
            (ANY, "r", rule(4)),
            ("b", "other", rule(5)),
        ],
    );
    let capacity = |tenant, route| set.find(tenant, route).capacity;
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
    let set = RuleSet::new(rule(1), [("a", ANY, rule(3)), (ANY, "r", rule(4))]);
    assert_eq!(set.find("a", "r").capacity, 3.0);
}

#[test]
fn any_tenant_on_any_route_is_a_default_of_its_own() {
    let set = RuleSet::new(rule(1), [(ANY, ANY, rule(7)), (ANY, "r", rule(4))]);
    assert_eq!(set.find("a", "s").capacity, 7.0);
    assert_eq!(set.find("a", "r").capacity, 4.0);
}

#[test]
fn of_two_rules_for_a_pair_the_later_one_holds_and_one_is_counted() {
    let set = RuleSet::new(rule(1), [("a", "r", rule(2)), ("a", "r", rule(9))]);
    assert_eq!(set.find("a", "r").capacity, 9.0);
    assert_eq!(set.len(), 1);
}

#[test]
fn names_are_compared_as_they_are() {
    let set = RuleSet::new(rule(1), [("a", "r", rule(2))]);
    for tenant in ["A", "a ", "", "*"] {
        assert_eq!(set.find(tenant, "r").capacity, 1.0, "{tenant:?}");
    }
}
