use super::*;

#[test]
fn what_was_missed_is_noticed() {
    let mut version = Version::loaded(Some(16));
    assert_eq!(version.announced(15), Seen::Known);
    assert_eq!(version.announced(16), Seen::Known);
    assert_eq!(version.announced(17), Seen::Next);
    assert_eq!(version.announced(18), Seen::Next);
    assert_eq!(version.announced(20), Seen::Missed);
    assert_eq!(version.announced(21), Seen::Missed, "still");
    assert!(version.is(Some(18)));
    assert_eq!(
        version.announced(19),
        Seen::Next,
        "late, but before any load"
    );
}

#[test]
fn a_poll_is_compared_with_what_is_known() {
    let mut version = Version::loaded(Some(16));
    assert!(version.is(Some(16)));
    for other in [None, Some(15), Some(17)] {
        assert!(!version.is(other), "{other:?}");
    }
    assert!(version.is_beyond(Some(15)));
    assert!(version.is_beyond(None));
    assert!(!version.is_beyond(Some(17)));

    assert!(!version.reached(Some(17)));
    version.announced(17);
    assert!(version.reached(Some(17)));
}

#[test]
fn without_a_number_everything_is_missed() {
    let mut version = Version::loaded(None);
    assert!(version.is(None));
    assert!(!version.reached(Some(1)));
    assert_eq!(version.announced(1), Seen::Missed);
}
