use super::*;

fn at(port: u16) -> Address {
    Address {
        host: "h".to_owned(),
        port,
    }
}

fn primary(port: u16, ranges: &[(u16, u16)]) -> Primary {
    Primary {
        address: at(port),
        ranges: ranges.to_vec(),
        replicas: 0,
    }
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn node(host: Value, port: i64) -> Value {
    Value::Array(vec![
        host,
        Value::Int(port),
        text("id"),
        Value::Array(vec![]),
    ])
}

fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
    let mut parts = vec![Value::Int(first), Value::Int(last)];
    parts.extend(nodes);
    Value::Array(parts)
}

#[test]
fn the_reply_is_read_in_the_order_of_first_slots() {
    let reply = Value::Array(vec![
        range(100, 199, vec![node(text("b"), 2), node(text("c"), 3)]),
        range(300, 300, vec![node(text("b"), 2), node(text("c"), 3)]),
        range(0, 99, vec![node(text(""), 1)]),
        range(400, 500, vec![node(text("?"), 9)]),
        range(200, 299, vec![node(Value::Nil, 4)]),
    ]);
    let primaries = read(&reply, &at(7)).expect("a map");
    let shown: Vec<_> = primaries
        .iter()
        .map(|p| (p.address.to_string(), p.ranges.clone(), p.replicas))
        .collect();
    assert_eq!(
        shown,
        [
            ("h:1".to_owned(), vec![(0, 99)], 0),
            ("b:2".to_owned(), vec![(100, 199), (300, 300)], 1),
            ("h:4".to_owned(), vec![(200, 299)], 0),
        ]
    );
    assert!(primaries[1].holds(300) && !primaries[1].holds(200));
}

#[test]
fn a_reply_that_makes_no_sense_changes_nothing() {
    for reply in [
        Value::Nil,
        Value::Array(vec![]),
        Value::Array(vec![Value::Int(1)]),
        Value::Array(vec![range(0, 99_999, vec![node(text("h"), 1)])]),
        Value::Array(vec![range(0, 9, vec![])]),
        Value::Array(vec![range(0, 9, vec![node(text("?"), 1)])]),
    ] {
        assert_eq!(read(&reply, &at(7)), None, "{reply:?}");
    }
}

/// Numbers after a map in which the numbers' holders had these slots.
fn after(seated: &[Option<Primary>], now: &[Primary]) -> Vec<Option<usize>> {
    let addresses: Vec<_> = seated
        .iter()
        .map(|seat| seat.as_ref().map(|p| p.address.clone()))
        .collect();
    numbers(now, &addresses, |slot| {
        let holds = |seat: &Option<Primary>| seat.as_ref().is_some_and(|p| p.holds(slot));
        seated.iter().position(holds)
    })
}

#[test]
fn the_first_numbers_are_those_of_the_first_slots() {
    let now = [primary(3, &[(0, 9)]), primary(1, &[(10, 19)])];
    assert_eq!(after(&[], &now), [Some(0), Some(1)]);
}

#[test]
fn who_stays_keeps_the_number_whatever_the_slots() {
    let before = [Some(primary(1, &[(0, 9)])), Some(primary(2, &[(10, 19)]))];
    let now = [primary(2, &[(0, 9)]), primary(1, &[(10, 19)])];
    assert_eq!(after(&before, &now), [Some(1), Some(0)]);
}

#[test]
fn a_promoted_replica_takes_the_number_of_its_place() {
    let before = [Some(primary(1, &[(0, 9)])), Some(primary(2, &[(10, 19)]))];
    let now = [primary(1, &[(0, 9)]), primary(5, &[(10, 19)])];
    assert_eq!(after(&before, &now), [Some(0), Some(1)]);
    // Both places at once, with a new node between them.
    let now = [
        primary(6, &[(0, 7)]),
        primary(7, &[(8, 11)]),
        primary(5, &[(12, 19)]),
    ];
    assert_eq!(after(&before, &now), [Some(0), Some(2), Some(1)]);
}

#[test]
fn a_node_that_comes_takes_a_free_number_and_one_that_goes_frees_its_own() {
    let before = [Some(primary(1, &[(0, 9)])), Some(primary(2, &[(10, 19)]))];
    let more = [
        primary(1, &[(0, 6)]),
        primary(9, &[(7, 12)]),
        primary(2, &[(13, 19)]),
    ];
    assert_eq!(after(&before, &more), [Some(0), Some(2), Some(1)]);
    let fewer = [primary(2, &[(0, 19)])];
    assert_eq!(after(&before, &fewer), [Some(1)]);
    // The free one is the next one's.
    let before = [None, Some(primary(2, &[(0, 19)]))];
    let again = [primary(2, &[(0, 9)]), primary(8, &[(10, 19)])];
    assert_eq!(after(&before, &again), [Some(1), Some(0)]);
}

#[test]
fn there_are_no_more_numbers_than_watches() {
    let now: Vec<Primary> = (0..1_100).map(|n| primary(n + 1, &[(n, n)])).collect();
    let numbers = after(&[], &now);
    assert_eq!(numbers.iter().flatten().count(), MAX_NODES);
    assert_eq!(numbers[MAX_NODES - 1], Some(MAX_NODES - 1));
    assert_eq!(numbers[MAX_NODES], None);
}
