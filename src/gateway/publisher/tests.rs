use super::*;
use crate::config;
use crate::limit::Rule;
use crate::metrics::METRICS;
use std::sync::Weak;
use std::time::Instant;

fn snapshot(rules: &str) -> Snapshot {
    let yaml = format!(
        "version: 1
listeners: [{{ address: \"127.0.0.1:1\" }}]
upstreams: {{ main: {{ servers: [\"127.0.0.1:1\"] }} }}
routes: [{{ id: r, path: /*, upstream: main, cost: 2 }}]
limits: {{ rules: [{rules}] }}
"
    );
    let config = config::parse("test", &yaml, &|_| None).unwrap();
    Snapshot::build(&config, &METRICS).unwrap()
}

fn layer(capacity: u32) -> Arc<Layer> {
    let rule = Rule::new(capacity, 1.0).unwrap();
    Arc::new([("shop-a", "r", rule)].into_iter().collect())
}

#[test]
fn configuration_and_database_change_apart_from_each_other() {
    let publisher = Publisher::new(snapshot(""), &METRICS).unwrap();
    let current = publisher.current();
    let capacity = |tenant| current.load().rules.find(tenant, "r", 2).capacity;
    assert_eq!(publisher.costs(), [("r".to_owned(), 2)]);

    publisher.publish(layer(5));
    let site = Arc::clone(&current.load().site);
    assert_eq!([capacity("shop-a"), capacity("shop-b")], [5.0, 20.0]);

    let of_file = "{ tenant: \"*\", route: r, capacity: 7, refill_per_second: 1 }";
    publisher.publish_configuration(snapshot(of_file));
    assert_eq!([capacity("shop-a"), capacity("shop-b")], [5.0, 7.0]);
    assert!(!Arc::ptr_eq(&site, &current.load().site));

    publisher.publish(layer(6));
    assert_eq!([capacity("shop-a"), capacity("shop-b")], [6.0, 7.0]);
}

#[test]
fn whoever_holds_an_old_snapshot_is_never_the_last_to_drop_it() {
    let publisher = Publisher::new(snapshot(""), &METRICS).unwrap();
    let held = publisher.current().load_full();
    let watched: Weak<Snapshot> = Arc::downgrade(&held);
    publisher.publish(layer(5));
    assert_eq!(Arc::strong_count(&held), 2, "the publisher keeps it too");
    drop(held);

    let start = Instant::now();
    while watched.strong_count() > 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "never dropped");
        thread::sleep(Duration::from_millis(1));
    }
}
