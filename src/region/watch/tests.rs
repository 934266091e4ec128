use std::time::Duration;

use super::Watch;
use crate::limit::Timestamp;
use crate::rules::ledger::Beat;

fn beat(gateway: &str, beat: i64) -> Beat {
    Beat {
        region: "eu".to_owned(),
        gateway: gateway.to_owned(),
        base: 0.5,
        lease: Duration::from_secs(30),
        instances: 1,
        applied: 0,
        pending: 0,
        beat,
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

#[test]
fn a_lease_runs_out_after_it_was_last_seen_anew() {
    let mut watch = Watch::default();
    let gateway = beat("g", 1);
    assert!(!watch.has_lapsed(&gateway, at(100)), "never seen");
    watch.observe(std::slice::from_ref(&gateway), at(100));
    assert!(
        !watch.has_lapsed(&gateway, at(130)),
        "clocks differ a little"
    );
    assert!(watch.has_lapsed(&gateway, at(131)));
    watch.observe(std::slice::from_ref(&gateway), at(131));
    assert!(
        watch.has_lapsed(&gateway, at(131)),
        "it was silent all the time"
    );
    watch.observe(&[beat("g", 7)], at(140));
    assert!(!watch.has_lapsed(&gateway, at(165)));
}

#[test]
fn a_gateway_is_established_after_a_lease_of_beating() {
    let mut watch = Watch::default();
    watch.observe(&[beat("g", 1)], at(100));
    assert!(!watch.is_established(&beat("g", 1), at(100)));
    watch.observe(&[beat("g", 2)], at(129));
    assert!(!watch.is_established(&beat("g", 2), at(129)));
    assert!(watch.is_established(&beat("g", 2), at(130)));
    assert!(!watch.is_established(&beat("g", 2), at(140)), "silent");
    watch.observe(&[], at(141));
    watch.observe(&[beat("g", 3)], at(142));
    assert!(
        !watch.is_established(&beat("g", 3), at(142)),
        "it is there anew"
    );
}
