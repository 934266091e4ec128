use std::collections::BTreeMap;
use std::time::Duration;

use super::overview;
use crate::region::model::asked;
use crate::rules::ledger::{Beat, Granted};
use crate::rules::postgres::region::overview::{Overview, Seen};

fn seen(region: &str, applied: i64, ago: u64) -> Seen {
    Seen {
        beat: Beat {
            region: region.to_owned(),
            gateway: "host/1".to_owned(),
            base: 0.3,
            lease: Duration::from_secs(360),
            instances: 1,
            applied,
            pending: 7,
            beat: 1,
        },
        ago: Duration::from_secs(ago),
    }
}

#[test]
fn shares_gateways_and_tenants_are_shown_and_what_is_wrong_with_them() {
    let granted = |base, home, share, of_a| Granted {
        base,
        home,
        share,
        tenants: BTreeMap::from([("a\n".to_owned(), of_a)]),
    };
    let text = overview(&Overview {
        version: 7,
        grants: BTreeMap::from([
            ("eu".to_owned(), granted(0.7, true, 0.35, 0.1)),
            ("us".to_owned(), granted(0.4, false, 0.65, 0.9)),
        ]),
        gateways: vec![seen("eu", 7, 3), seen("us", 6, 400), seen("ap", 0, 1)],
        asked: asked("a\n", &[("eu", 0.1), ("us", 0.2)]),
    });
    for line in [
        "version 7",
        "eu                     70.0   35.0         1  3.0 s ago",
        "us                     40.0   65.0         1  400.0 s ago, 1 silent for more than their lease, 1 at an older version",
        "ap                     30.0      -         1  1.0 s ago, 1 at an older version",
        "the base shares sum to 110.0 %",
        "home: eu; a limit of fewer than 3 requests",
        "a\\n                       300.0 tokens/s  eu 10.0, us 90.0",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
}

#[test]
fn without_regions_it_says_so() {
    let text = overview(&Overview {
        version: 0,
        grants: BTreeMap::new(),
        gateways: Vec::new(),
        asked: Vec::new(),
    });
    assert_eq!(text, "no region was heard of yet\n");
}
