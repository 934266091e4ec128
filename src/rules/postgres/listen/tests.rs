use super::*;

#[test]
fn a_notification_names_the_rules_or_means_any() {
    assert_eq!(
        Changed::parse(
            "{\"version\" : 17, \"rows\" : [[\"shop-a\", \"r\"], \n [\"*\", \"s \\\"x\\\"\"]]}"
        ),
        Changed::Rules {
            version: 17,
            pairs: vec![
                ("shop-a".to_owned(), "r".to_owned()),
                ("*".to_owned(), "s \"x\"".to_owned())
            ],
        }
    );
    for any in ["*", "", "shop-a", "{\"version\": 1}", "[[\"a\", \"b\"]]"] {
        assert_eq!(Changed::parse(any), Changed::Any, "{any}");
    }
}
