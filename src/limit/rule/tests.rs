use super::*;

#[test]
fn a_version_changes_with_each_part_of_a_rule_and_with_nothing_else() {
    let rule = Rule::new(10, 5.0).unwrap();
    assert_eq!(rule.version, Rule::new(10, 5.0).unwrap().version);
    assert_eq!(rule.version, rule.with_shadow(false).version);
    assert_eq!(
        rule.with_shadow(true).version,
        Rule::new(10, 5.0).unwrap().with_shadow(true).version
    );
    let others = [
        Rule::new(11, 5.0).unwrap(),
        Rule::new(10, 5.000_001).unwrap(),
        Rule::new(5, 10.0).unwrap(),
        rule.with_shadow(true),
    ];
    for (place, other) in others.iter().enumerate() {
        assert_ne!(other.version, rule.version, "{other:?}");
        for next in &others[place + 1..] {
            assert_ne!(other.version, next.version, "{other:?} {next:?}");
        }
    }
}

#[test]
fn a_part_scales_capacity_and_refill_and_is_another_version() {
    let rule = Rule::new(200, 100.0).unwrap();
    let part = rule.part(0.7);
    assert!((part.capacity - 140.0).abs() < 1e-9 && (part.refill_per_second - 70.0).abs() < 1e-9);
    assert_ne!(part.version, rule.version);
    assert_eq!(part.version, rule.part(0.7).version);
    assert_ne!(part.version, rule.part(0.3).version);
    assert_eq!(rule.part(1.0), rule, "all of it is the rule itself");
    let none = rule.part(0.0);
    assert_eq!((none.capacity, none.refill_per_second), (0.0, 100.0));
}
