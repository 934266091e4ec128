//! Rules in PostgreSQL, changed while gateways run. Where notifications are what a test is about,
//! polls are an hour away.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    ANNOUNCED, Config, Gateway, Load, ONE_A_DAY, Postgres, Process, Upstream, eventually,
    free_port, within,
};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NEVER_POLLED: &str = "refresh: 1h";

/// The statement that makes a rule, or changes it.
fn put(tenant: &str, route: &str, capacity: u32, refill: u32) -> String {
    format!(
        "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, period_seconds)
         values ('{tenant}', '{route}', {capacity}, {refill}, 86400)
         on conflict (tenant_id, route_id) do update
         set capacity = excluded.capacity, refill_per_second = excluded.refill_per_second"
    )
}

/// A gateway whose own default is 7, with rules from there.
fn config(upstream: &Upstream, postgres: &Postgres, keys: &str) -> Config {
    Config::new(upstream)
        .default_rule(7, ONE_A_DAY)
        .postgres(postgres, keys)
}

fn limit(gateway: &Gateway, tenant: &str) -> u64 {
    gateway.get(tenant, "/x").number("X-RateLimit-Limit")
}

/// Waits until the tenant has the limit, as a change that was announced makes it.
#[track_caller]
fn announced(gateway: &Gateway, tenant: &str, capacity: u64) {
    within(ANNOUNCED, "the change is in force", || {
        limit(gateway, tenant) == capacity
    });
}

/// Waits until the tenant has the limit, however long that takes.
#[track_caller]
fn in_force(gateway: &Gateway, tenant: &str, capacity: u64) {
    eventually("the change is in force", || {
        limit(gateway, tenant) == capacity
    });
}

#[track_caller]
fn said(gateway: &Gateway, words: &[&str]) {
    let has = |line: &str| words.iter().all(|word| line.contains(word));
    eventually(&format!("the log says {words:?}"), || {
        gateway.log().lines().any(has)
    });
}

fn count_of(gateway: &Gateway, words: &[&str]) -> usize {
    let log = gateway.log();
    let has = |line: &&str| words.iter().all(|word| line.contains(word));
    log.lines().filter(has).count()
}

// Changes.

#[test]
fn what_is_written_with_psql_is_in_force_within_a_second() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "r", 10, 1));
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    assert_eq!(
        limit(&gateway, "shop-a"),
        10,
        "what was there is loaded before it listens"
    );
    assert_eq!(limit(&gateway, "shop-b"), 7);

    postgres.sql(&put("shop-b", "r", 20, 1));
    announced(&gateway, "shop-b", 20);
    postgres.sql("update rate_limit_rule set capacity = 30 where tenant_id = 'shop-b'");
    announced(&gateway, "shop-b", 30);
    postgres.sql("update rate_limit_rule set tenant_id = 'shop-c' where tenant_id = 'shop-b'");
    announced(&gateway, "shop-c", 30);
    assert_eq!(limit(&gateway, "shop-b"), 7);
    postgres.sql("delete from rate_limit_rule where tenant_id = 'shop-c'");
    announced(&gateway, "shop-c", 7);
    assert_eq!(limit(&gateway, "shop-a"), 10);

    // Two in one transaction, and neither before its end.
    let mut session = postgres.session();
    session.sql(&format!(
        "begin; {}; {}",
        put("shop-b", "r", 40, 1),
        put("*", "*", 50, 1)
    ));
    assert_eq!(limit(&gateway, "shop-b"), 7);
    session.sql("commit");
    announced(&gateway, "shop-b", 40);
    announced(&gateway, "shop-z", 50);
}

#[test]
fn many_at_once_and_truncate_are_in_force_too() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    postgres.sql(
        "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second)
         select 'shop-' || n, 'r', 1000 + n, 1 from generate_series(1, 5000) as n",
    );
    in_force(&gateway, "shop-5000", 6_000);
    assert_eq!(limit(&gateway, "shop-1"), 1_001);
    assert_eq!(gateway.metric("aforo_rules"), 5_000.0);
    postgres.sql("update rate_limit_rule set capacity = capacity + 1000");
    in_force(&gateway, "shop-5000", 7_000);
    postgres.sql(
        "copy rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) from stdin;\nby-copy\tr\t44\t1\n\\.\n",
    );
    announced(&gateway, "by-copy", 44);
    postgres.sql("truncate rate_limit_rule");
    in_force(&gateway, "shop-5000", 7);
    assert_eq!(gateway.metric("aforo_rules"), 0.0);
}

#[test]
fn a_raised_limit_frees_who_was_being_rejected_and_a_lowered_one_bites_at_once() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "r", 2, 1));
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    let status = || gateway.get("shop-a", "/x").status;
    assert_eq!([status(), status(), status()], [200, 200, 429]);

    // One a day becomes a thousand a second.
    postgres.sql(
        "update rate_limit_rule set capacity = 1000, refill_per_second = 1000, period_seconds = 1",
    );
    within(ANNOUNCED, "it is freed", || status() == 200);
    announced(&gateway, "shop-a", 1_000);

    postgres.sql(
        "update rate_limit_rule set capacity = 3, refill_per_second = 1, period_seconds = 86400",
    );
    announced(&gateway, "shop-a", 3);
    let left = gateway.get("shop-a", "/x").number("X-RateLimit-Remaining");
    assert!(left <= 2, "{left} are left of 3");
    for _ in 0..left {
        assert_eq!(status(), 200);
    }
    assert_eq!(status(), 429);
}

#[test]
fn a_thousand_changes_under_load_lose_nothing_and_fail_nothing() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    let load = Load::start(&gateway, 3, "/x", |n| format!("shop-{}", n % 1_000));
    let changes: Vec<String> = (0..1_000)
        .map(|n| put(&format!("shop-{n}"), "r", 1_000 + n, 1))
        .collect();
    postgres.sql(&changes.join(";\n"));
    announced(&gateway, "shop-999", 1_999);
    load.wait_for(100);
    load.stop().assert_only(&[200, 429]);

    let mut client = gateway.connect();
    for n in 0..1_000 {
        let response = client.get(&format!("shop-{n}"), "/x").unwrap();
        assert_eq!(response.number("X-RateLimit-Limit"), 1_000 + n);
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.get("aforo_rules"), 1_000.0);
    assert_eq!(
        metrics.get("aforo_rules_reload_total{result=\"error\"}"),
        0.0
    );
    // Each was loaded by its name, none by loading all.
    assert_eq!(count_of(&gateway, &["rules loaded from PostgreSQL"]), 1);
}

#[test]
fn two_gateways_follow_one_database() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateways = [(); 2].map(|()| Gateway::start(&config(&upstream, &postgres, NEVER_POLLED)));
    postgres.sql(&put("shop-a", "r", 20, 1));
    for gateway in &gateways {
        announced(gateway, "shop-a", 20);
    }
    postgres.sql("delete from rate_limit_rule");
    for gateway in &gateways {
        announced(gateway, "shop-a", 7);
    }
}

// What is missed.

#[test]
fn a_change_while_the_listener_is_gone_is_found_after_it_is_back() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    for n in 0..5 {
        // In one transaction, so that nobody can hear of the change.
        postgres.sql(&format!(
            "begin; select pg_terminate_backend(pid) from pg_stat_activity
             where application_name = 'aforo'; {}; commit",
            put("shop-a", "r", 100 + n, 1)
        ));
        in_force(&gateway, "shop-a", u64::from(100 + n));
    }
    // And it listens again.
    postgres.sql(&put("shop-a", "r", 200, 1));
    announced(&gateway, "shop-a", 200);
    said(&gateway, &["the last good rules stay in force"]);
    said(&gateway, &["is back"]);
}

#[test]
fn a_change_that_nobody_announces_is_found_by_the_poll() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, "refresh: 200ms"));
    // What the triggers do, without the notification.
    postgres.sql(&format!(
        "begin; alter table rate_limit_rule disable trigger user; {};
         update rule_version set n = n + 1;
         alter table rate_limit_rule enable trigger user; commit",
        put("shop-a", "r", 20, 1)
    ));
    in_force(&gateway, "shop-a", 20);
    said(&gateway, &["was not announced"]);
}

#[test]
fn a_missed_change_is_noticed_by_the_next_one_that_is_announced() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    postgres.sql(&format!(
        "begin; alter table rate_limit_rule disable trigger user; {};
         update rule_version set n = n + 1;
         alter table rate_limit_rule enable trigger user; commit",
        put("shop-a", "r", 20, 1)
    ));
    postgres.sql(&put("shop-b", "r", 30, 1));
    announced(&gateway, "shop-b", 30);
    in_force(&gateway, "shop-a", 20);
}

#[test]
fn a_transaction_that_began_before_a_poll_and_commits_after_it_is_seen() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, "refresh: 50ms"));
    let mut late = postgres.session();
    late.sql(&format!(
        "begin; set local session_replication_role = replica; {};
         set local session_replication_role = origin; update rule_version set n = n + 1",
        put("shop-a", "r", 20, 1)
    ));
    // Polls come and go meanwhile.
    let polls = || {
        let calls = "select sum(xact_commit) from pg_stat_database where datname = 'aforo'";
        postgres.sql(calls).parse::<u64>().unwrap()
    };
    let before = polls();
    eventually("it polls", || polls() > before + 20);
    assert_eq!(limit(&gateway, "shop-a"), 7);
    late.sql("commit");
    in_force(&gateway, "shop-a", 20);
}

#[test]
fn a_listener_that_dies_without_a_word_is_noticed() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, "refresh: 500ms"));
    let backends = postgres.backends();
    let [backend] = backends[..] else {
        panic!("one connection, not {backends:?}");
    };
    // Its socket stays open, and nothing answers.
    harness::send_signal(backend, "STOP");
    postgres.sql(&put("shop-a", "r", 20, 1));
    in_force(&gateway, "shop-a", 20);
    said(&gateway, &["no answer within"]);
    harness::send_signal(backend, "CONT");
}

// Without the database.

#[test]
fn the_database_is_killed_and_comes_back() {
    let (upstream, mut postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "r", 10, 1));
    let gateway = Gateway::start(&config(&upstream, &postgres, "refresh: 200ms"));
    let load = Load::start(&gateway, 2, "/x", |n| format!("shop-{n}"));

    postgres.kill();
    said(
        &gateway,
        &["PostgreSQL at", "the last good rules stay in force"],
    );
    assert_eq!(limit(&gateway, "shop-a"), 10);
    let age = || gateway.metric("aforo_rules_age_seconds");
    let errors = || gateway.metric("aforo_rules_reload_total{result=\"error\"}");
    eventually("the age grows", || age() > 1.0);
    eventually("it tries again and again", || errors() > 3.0);
    assert_eq!(limit(&gateway, "shop-a"), 10);

    postgres.restart();
    postgres.sql(&put("shop-a", "r", 20, 1));
    in_force(&gateway, "shop-a", 20);
    eventually("the age is small again", || age() < 1.0);
    load.wait_for(50);
    load.stop().assert_only(&[200]);
    assert_eq!(
        count_of(&gateway, &["the last good rules stay"]),
        1,
        "one line"
    );
    assert!(!gateway.log().contains("hunter2"));
}

#[test]
fn a_start_without_it_goes_on_with_the_file_and_loads_when_it_comes() {
    let (upstream, mut postgres) = (Upstream::start(), Postgres::absent());
    let config = config(&upstream, &postgres, "refresh: 1h").rule("shop-b", "r", 9, ONE_A_DAY);
    let gateway = Gateway::start(&config);
    said(&gateway, &["starting with the rules of the file alone"]);
    assert_eq!(limit(&gateway, "shop-b"), 9);

    // A server without the tables is not enough.
    postgres.restart();
    said(&gateway, &["aforo migrate"]);
    assert_eq!(limit(&gateway, "shop-b"), 9);
    postgres.migrate();
    postgres.sql(&put("shop-a", "r", 20, 1));
    in_force(&gateway, "shop-a", 20);
    assert_eq!(limit(&gateway, "shop-b"), 9);
}

#[test]
fn a_start_waits_a_moment_for_a_database_that_hangs() {
    let upstream = Upstream::start();
    // It takes connections, and says nothing.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me:hunter2@{}/d", hanging.local_addr().unwrap());
    let config = Config::new(&upstream)
        .default_rule(7, ONE_A_DAY)
        .postgres_url(&url, NEVER_POLLED);
    let start = Instant::now();
    let gateway = Gateway::start(&config);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    said(&gateway, &["no rules within 2 s"]);
    assert_eq!(limit(&gateway, "shop-a"), 7);
    assert!(!gateway.log().contains("hunter2"));
}

/// Waits until the file holds this text.
#[track_caller]
fn saved(path: &Path, text: &str) {
    eventually("the rules are saved", || {
        fs::read_to_string(path).is_ok_and(|saved| saved.contains(text))
    });
}

#[test]
fn a_start_without_it_goes_on_with_what_was_saved() {
    let (upstream, mut postgres) = (Upstream::start(), Postgres::migrated());
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rules.json");
    let keys = format!("refresh: 1h, snapshot: {}", path.display());
    let config = config(&upstream, &postgres, &keys);
    postgres.sql(&put("shop-a", "r", 20, 1));
    {
        let gateway = Gateway::start(&config);
        saved(&path, "[\"shop-a\",\"r\",20,");
        postgres.sql(&put("shop-a", "r", 21, 1));
        announced(&gateway, "shop-a", 21);
        saved(&path, "[\"shop-a\",\"r\",21,");
    }

    postgres.kill();
    let gateway = Gateway::start(&config);
    said(&gateway, &["starting with the rules that were saved"]);
    assert_eq!(limit(&gateway, "shop-a"), 21);
    assert_eq!(
        gateway.get("shop-a", "/x").number("X-RateLimit-Remaining"),
        19
    );
    assert_eq!(gateway.metric("aforo_rules"), 1.0);
    postgres.restart();
    postgres.sql(&put("shop-a", "r", 22, 1));
    in_force(&gateway, "shop-a", 22);
    drop(gateway);

    // A broken one is said, and is no reason not to start.
    postgres.kill();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    let gateway = Gateway::start(&config);
    said(&gateway, &["rules.json", "broken"]);
    said(&gateway, &["starting with the rules of the file alone"]);
    assert_eq!(limit(&gateway, "shop-a"), 7);
}

// Rows.

#[test]
fn a_bad_row_is_named_and_its_last_good_version_stays() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&format!(
        "{}; {}",
        put("good", "r", 10, 1),
        put("spoilt", "r", 20, 1)
    ));
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    postgres.sql(
        "alter table rate_limit_rule drop constraint rate_limit_rule_capacity_check;
         alter table rate_limit_rule drop constraint rate_limit_rule_refill_per_second_check;
         alter table rate_limit_rule alter capacity drop not null",
    );
    postgres.sql("update rate_limit_rule set capacity = 0 where tenant_id = 'spoilt'");
    said(
        &gateway,
        &[
            "spoilt",
            "capacity must be at least 1, not 0",
            "last good version",
        ],
    );
    postgres.sql(
        "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) values
         ('null', 'r', null, 1), ('negative', 'r', 5, -1), ('with space', 'r', 5, 1)",
    );
    said(&gateway, &["\"null\"", "capacity"]);
    said(&gateway, &["\"negative\"", "refill_per_second"]);
    said(&gateway, &["\"with space\"", "tenant_id"]);
    postgres.sql(&put("good", "r", 11, 1));
    announced(&gateway, "good", 11);
    assert_eq!(limit(&gateway, "spoilt"), 20);
    assert_eq!(
        [limit(&gateway, "null"), limit(&gateway, "negative")],
        [7, 7]
    );

    // Loading everything again changes nothing about that, and names nothing again.
    postgres.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'aforo'",
    );
    said(&gateway, &["is back"]);
    assert_eq!(
        [limit(&gateway, "spoilt"), limit(&gateway, "good")],
        [20, 11]
    );
    assert_eq!(count_of(&gateway, &["\"null\"", "capacity"]), 1);

    postgres.sql("update rate_limit_rule set capacity = 30 where tenant_id = 'spoilt'");
    announced(&gateway, "spoilt", 30);
    postgres.sql("delete from rate_limit_rule where tenant_id = 'spoilt'");
    announced(&gateway, "spoilt", 7);
}

#[test]
fn a_row_below_the_cost_of_its_route_is_skipped_there_and_named() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "*", 3, 1));
    let config = config(&upstream, &postgres, NEVER_POLLED)
        .route("id: heavy, path: /heavy, cost: 5")
        .route("id: light, path: /light");
    let gateway = Gateway::start(&config);
    said(&gateway, &["shop-a", "capacity 3", "cost 5", "heavy"]);
    let limit = |path| gateway.get("shop-a", path).number("X-RateLimit-Limit");
    assert_eq!([limit("/heavy"), limit("/light")], [7, 3]);

    postgres.sql(&put("shop-a", "heavy", 4, 1));
    eventually("it is counted", || gateway.metric("aforo_rules") == 2.0);
    assert_eq!(limit("/heavy"), 7);
    postgres.sql(&put("shop-a", "heavy", 6, 1));
    within(ANNOUNCED, "it is in force", || limit("/heavy") == 6);
}

#[test]
fn a_row_for_a_route_of_somebody_else_is_kept_and_counted() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "elsewhere", 30, 1));
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    assert_eq!(gateway.metric("aforo_rules"), 1.0);
    assert_eq!(limit(&gateway, "shop-a"), 7);
    // A reload that brings the route finds its rule.
    let with_route = config(&upstream, &postgres, NEVER_POLLED).route("id: elsewhere, path: /*");
    gateway.reload_with(&with_route);
    assert_eq!(limit(&gateway, "shop-a"), 30);
}

#[test]
fn what_does_not_exist_yet_is_named_and_the_rest_of_the_row_is_in_force() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    postgres.sql(
        "insert into rate_limit_rule
         (tenant_id, route_id, capacity, refill_per_second, shards, concurrency)
         values ('shop-a', 'r', 20, 1, 4, 3)",
    );
    announced(&gateway, "shop-a", 20);
    said(&gateway, &["shop-a", "not supported yet", "concurrency"]);
}

#[test]
fn a_shadow_row_decides_and_counts_and_never_rejects() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "r", 1, 1));
    postgres.sql("update rate_limit_rule set shadow = true");
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    for _ in 0..4 {
        assert_eq!(gateway.get("shop-a", "/x").status, 200);
    }
    let response = gateway.get("shop-a", "/x");
    assert_eq!(response.number("X-RateLimit-Remaining"), 0);
    assert_eq!(response.header("Retry-After"), None);
    let counted = "aforo_requests_total{route=\"r\",outcome=\"shadow_limited\"}";
    eventually("they are counted", || gateway.metric(counted) == 4.0);

    postgres.sql("update rate_limit_rule set shadow = false");
    within(ANNOUNCED, "it is enforced", || {
        gateway.get("shop-a", "/x").status == 429
    });
}

#[test]
fn slow_rates_are_exact() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    for (tenant, period) in [("minute", 60), ("hour", 3_600), ("day", 86_400)] {
        postgres.sql(&format!(
            "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second, period_seconds)
             values ('{tenant}', 'r', 1, 1, {period})"
        ));
        within(ANNOUNCED, "the rule is in force", || {
            gateway.get("other", "/x");
            gateway.metric("aforo_rules") > 0.0 && limit(&gateway, tenant) == 1
        });
        let since = Instant::now();
        // Whatever the rule before has left, it is one at most.
        let response = loop {
            let response = gateway.get(tenant, "/x");
            if response.status == 429 {
                break response;
            }
        };
        let wait = response.number("Retry-After");
        assert!(wait <= period, "{tenant}: {wait}");
        harness::assert_counts_down(wait, period, since - ANNOUNCED);
    }
}

// Beside the file.

#[test]
fn the_database_wins_over_the_file_and_a_reload_leaves_it_alone() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("both", "r", 20, 1));
    let of_file = |capacity| {
        config(&upstream, &postgres, NEVER_POLLED)
            .rule("both", "r", capacity, ONE_A_DAY)
            .rule("file", "r", capacity, ONE_A_DAY)
    };
    let gateway = Gateway::start(&of_file(10));
    assert_eq!([limit(&gateway, "both"), limit(&gateway, "file")], [20, 10]);
    assert_eq!(gateway.metric("aforo_rules"), 2.0);

    gateway.reload_with(&of_file(11));
    assert_eq!([limit(&gateway, "both"), limit(&gateway, "file")], [20, 11]);
    postgres.sql(&put("both", "r", 21, 1));
    announced(&gateway, "both", 21);
    postgres.sql("delete from rate_limit_rule");
    announced(&gateway, "both", 11);
    assert_eq!(gateway.metric("aforo_rules"), 2.0);
}

#[test]
fn a_change_of_the_database_needs_a_restart_and_is_named() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    postgres.sql(&put("shop-a", "r", 20, 1));
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    gateway.reload_with(&Config::new(&upstream).default_rule(7, ONE_A_DAY));
    said(&gateway, &["rules.postgres", "restart"]);
    postgres.sql(&put("shop-a", "r", 30, 1));
    announced(&gateway, "shop-a", 30);
}

// What is shown.

#[test]
fn metrics_tell_of_the_rules() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let gateway = Gateway::start(&config(&upstream, &postgres, NEVER_POLLED));
    let metrics = gateway.metrics();
    assert_eq!(metrics.get("aforo_rules"), 0.0);
    assert_eq!(metrics.get("aforo_rules_reload_total{result=\"ok\"}"), 1.0);
    assert_eq!(
        metrics.get("aforo_rules_reload_total{result=\"error\"}"),
        0.0
    );
    assert!(metrics.get("aforo_rules_age_seconds") < 60.0);

    postgres.sql(&put("shop-a", "r", 20, 1));
    announced(&gateway, "shop-a", 20);
    assert_eq!(gateway.metric("aforo_rules"), 1.0);
    assert_eq!(
        gateway.metric("aforo_rules_reload_total{result=\"ok\"}"),
        2.0
    );
}

#[test]
fn check_says_what_is_there() {
    let postgres = Postgres::start();
    let asked = || {
        let (process, ok) = postgres.run_aforo(&["check", "--connect"]);
        assert!(ok, "{}", process.stderr());
        let said = process.stdout();
        assert!(!said.contains("hunter2"), "{said}");
        said
    };
    let summary = asked();
    for word in [
        "PostgreSQL 1",
        "aforo as postgres",
        "no table",
        "5 migrations missing",
    ] {
        assert!(summary.contains(word), "{summary}");
    }
    postgres.migrate();
    postgres.sql(&put("shop-a", "r", 20, 1));
    let summary = asked();
    for word in ["rate_limit_rule with 1 rules", "no migrations missing"] {
        assert!(summary.contains(word), "{summary}");
    }
}

#[test]
fn check_without_an_answer_is_one_line_without_a_password() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("aforo.yaml");
    let port = free_port();
    let config = Config::with_upstream_address("127.0.0.1:1").postgres_url(
        &format!("postgres://me:hunter2@127.0.0.1:{port}/d"),
        NEVER_POLLED,
    );
    let yaml = config.yaml().replace("{listen}", "127.0.0.1:1");
    fs::write(&path, yaml.replace("{admin}", "127.0.0.1:2")).unwrap();
    let path = path.to_str().unwrap();

    let (process, status) = Process::run_aforo(&["check", "-c", path]);
    assert!(status.success());
    let summary = process.stdout();
    assert!(
        summary.contains(&format!("127.0.0.1:{port}/d as me")),
        "{summary}"
    );
    assert!(!summary.contains("hunter2"));

    let (process, status) = Process::run_aforo(&["check", "--connect", "-c", path]);
    assert_eq!(status.code(), Some(3));
    let errors = process.stderr();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.contains("rules.postgres.url") && !errors.contains("hunter2"),
        "{errors}"
    );
}
