use std::collections::HashSet;

use super::*;

fn id_of(given: &[&str]) -> String {
    let mut request = RequestHeader::build("GET", b"/", None).unwrap();
    for id in given {
        request.append_header(REQUEST_ID, *id).unwrap();
    }
    request_id(&request).to_str().unwrap().to_owned()
}

#[test]
fn a_clients_request_id_is_passed_on() {
    assert_eq!(id_of(&["abc-123"]), "abc-123");
    assert_eq!(id_of(&[&"x".repeat(128)]), "x".repeat(128));
}

#[test]
fn an_id_that_is_missing_or_unfit_for_a_log_is_replaced() {
    for given in [&[][..], &[""], &["a b"], &[&"x".repeat(129)], &["a", "b"]] {
        let id = id_of(given);
        assert_eq!(id.len(), 32, "{given:?}");
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
}

#[test]
fn new_ids_are_all_different() {
    let ids: HashSet<String> = (0..1000).map(|_| id_of(&[])).collect();
    assert_eq!(ids.len(), 1000);
}
