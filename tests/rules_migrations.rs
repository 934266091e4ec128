//! The tables: made from nothing, adopted from a table that was there, and what their triggers
//! say about changes.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    ANNOUNCED, Config, Gateway, ONE_A_DAY, Postgres, Process, Upstream, eventually, within,
};
use tempfile::TempDir;

/// The table as users have it.
const OLD: &str = "create table rate_limit_rule (
    id bigserial primary key, tenant_id varchar(64) not null, route_id varchar(64) not null,
    capacity int not null check (capacity > 0),
    refill_per_second int not null check (refill_per_second > 0),
    updated_at timestamptz not null default now(), unique (tenant_id, route_id))";

const OLD_INSERT: &str =
    "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) values";

const COLUMNS: &str = "select column_name, data_type, is_nullable, column_default
    from information_schema.columns where table_name = 'rate_limit_rule' order by 1";

#[test]
fn an_empty_database_gets_the_tables_and_a_second_run_changes_nothing() {
    let postgres = Postgres::start();
    let (process, ok) = postgres.run_aforo(&["migrate"]);
    assert!(ok, "{}", process.stderr());
    let said = process.stdout();
    assert!(said.contains("5 migrations applied"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");

    let columns = postgres.sql(COLUMNS);
    for column in [
        "capacity|integer|NO|",
        "concurrency|integer|YES|",
        "on_store_failure|text|NO|'local'::text",
        "period_seconds|integer|NO|1",
        "refill_per_second|integer|NO|",
        "shadow|boolean|NO|false",
        "shards|integer|NO|1",
        "tenant_id|character varying|NO|",
        "updated_at|timestamp with time zone|NO|now()",
    ] {
        assert!(columns.lines().any(|line| line == column), "{columns}");
    }
    assert_eq!(postgres.sql("select count(*) from api_key"), "0");
    assert_eq!(postgres.sql("select n from rule_version"), "1");

    let (process, ok) = postgres.run_aforo(&["migrate"]);
    assert!(ok, "{}", process.stderr());
    let said = process.stdout();
    assert!(
        said.contains("0 migrations applied, 5 were there"),
        "{said}"
    );
    assert_eq!(postgres.sql(COLUMNS), columns);
    assert_eq!(postgres.sql("select n from rule_version"), "1");
}

#[test]
fn several_at_once_take_turns() {
    let postgres = Postgres::start();
    let mut running: Vec<Process> = (0..4)
        .map(|_| {
            let folder = TempDir::new().unwrap();
            let config = postgres.config_in(folder.path());
            let arguments = ["migrate", "-c", config.to_str().unwrap()];
            Process::spawn(&Process::aforo(), &arguments, folder)
        })
        .collect();
    for process in &mut running {
        let status = process.wait_exit(harness::PATIENCE);
        assert!(status.success(), "{}", process.stderr());
    }
    assert_eq!(
        postgres.sql("select count(*) from _sqlx_migrations where success"),
        "5"
    );
}

#[test]
fn a_table_that_users_have_is_adopted_with_its_rows_and_its_reader_goes_on() {
    let postgres = Postgres::start();
    postgres.sql(OLD);
    postgres.sql(&format!(
        "{OLD_INSERT} ('shop-a', 'r', 10, 5), ('shop-b', 'r', 20, 10)"
    ));
    let old_reader = "select id, tenant_id, route_id, capacity, refill_per_second
                      from rate_limit_rule order by id";
    let before = postgres.sql(old_reader);
    let mut reader = postgres.session();
    reader.sql(&format!("prepare old as {old_reader}"));

    postgres.migrate();
    assert_eq!(postgres.sql(old_reader), before);
    assert_eq!(reader.sql("execute old").join("\n"), before);

    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream).postgres(&postgres, "refresh: 1h"));
    let limit = |tenant| gateway.get(tenant, "/x").number("X-RateLimit-Limit");
    assert_eq!([limit("shop-a"), limit("shop-b")], [10, 20]);

    // Its writer knows nothing of the new columns either.
    postgres.sql(&format!("{OLD_INSERT} ('shop-c', 'r', 30, 5)"));
    within(ANNOUNCED, "an old writer's rule is in force", || {
        limit("shop-c") == 30
    });
    assert_eq!(reader.sql("execute old").len(), 3);
}

#[test]
fn a_table_of_the_same_name_and_another_shape_is_left_alone() {
    for (table, said) in [
        (
            "create table rate_limit_rule (tenant text, rate int)",
            "tenant_id",
        ),
        (
            &*OLD.replace("capacity int", "capacity numeric"),
            "capacity must be integer",
        ),
        (
            &*OLD.replace("route_id varchar(64) not null", "route_id varchar(64)"),
            "route_id",
        ),
        (
            &*OLD.replace(", unique (tenant_id, route_id)", ""),
            "not unique",
        ),
        (
            "create view rate_limit_rule as select 1 as tenant_id",
            "no table",
        ),
    ] {
        let postgres = Postgres::start();
        postgres.sql(table);
        let columns = postgres.sql(COLUMNS);
        let (process, ok) = postgres.run_aforo(&["migrate"]);
        assert!(!ok, "{table}");
        let errors = process.stderr();
        assert!(errors.contains(said), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
        assert_eq!(postgres.sql(COLUMNS), columns);
        assert_eq!(postgres.sql("select to_regclass('api_key') is null"), "t");
    }
}

#[test]
fn migrating_needs_a_database_in_the_configuration_and_one_that_answers() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("aforo.yaml");
    let yaml = Config::with_upstream_address("127.0.0.1:1").yaml();
    let yaml = yaml
        .replace("{listen}", "127.0.0.1:1")
        .replace("{admin}", "127.0.0.1:2");
    let migrate = |yaml: &str| {
        std::fs::write(&path, yaml).unwrap();
        let (process, status) = Process::run_aforo(&["migrate", "-c", path.to_str().unwrap()]);
        let errors = process.stderr();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
        (status.code(), errors)
    };

    let (code, errors) = migrate(&yaml);
    assert_eq!(code, Some(1));
    assert!(errors.contains("rules.postgres"), "{errors}");

    let url = format!("postgres://me:hunter2@127.0.0.1:{}/d", harness::free_port());
    let (code, errors) = migrate(&format!(
        "{yaml}rules: {{ postgres: {{ url: \"{url}\" }} }}\n"
    ));
    assert_eq!(code, Some(3));
    assert!(errors.contains("connecting"), "{errors}");
}

#[test]
fn a_statement_announces_the_rules_that_it_changed() {
    let postgres = Postgres::migrated();
    let mut listener = postgres.session();
    listener.sql("listen rule_changed");
    let version = || -> u64 { postgres.sql("select n from rule_version").parse().unwrap() };
    let mut announced = |statement: &str, expected: &[&str]| {
        let before = version();
        postgres.sql(statement);
        let heard = listener.notifications();
        let expected: Vec<String> = expected
            .iter()
            .map(|rows| match *rows {
                "*" => rows.to_string(),
                rows => format!("{{\"version\" : {}, \"rows\" : {rows}}}", before + 1),
            })
            .collect();
        assert_eq!(heard, expected, "{statement}");
        assert_eq!(version(), before + expected.len() as u64, "{statement}");
    };

    announced(
        &format!("{OLD_INSERT} ('a', 'r', 1, 1), ('b', 'r', 1, 1)"),
        &["[[\"a\", \"r\"], [\"b\", \"r\"]]"],
    );
    announced(
        "update rate_limit_rule set capacity = 2 where tenant_id = 'a'",
        &["[[\"a\", \"r\"]]"],
    );
    // Both the name that it had and the one that it has.
    announced(
        "update rate_limit_rule set tenant_id = 'c' where tenant_id = 'a'",
        &["[[\"a\", \"r\"], [\"c\", \"r\"]]"],
    );
    announced(
        "delete from rate_limit_rule where tenant_id = 'nobody'",
        &[],
    );
    announced(
        "delete from rate_limit_rule where tenant_id = 'c'",
        &["[[\"c\", \"r\"]]"],
    );
    announced(
        "copy rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) from stdin;\nd\tr\t1\t1\n\\.\n",
        &["[[\"d\", \"r\"]]"],
    );
    announced(
        &format!("{OLD_INSERT} ('d', 'r', 1, 1) on conflict do nothing"),
        &[],
    );
    announced("truncate rate_limit_rule", &["*"]);
    announced(
        &format!("{OLD_INSERT} ('quote\"', 'back\\slash', 1, 1)"),
        &["[[\"quote\\\"\", \"back\\\\slash\"]]"],
    );

    // A transaction that is rolled back never was.
    announced("begin; delete from rate_limit_rule; rollback", &[]);

    // What a notification cannot hold, and what is too much to load by name.
    let many = |from: u32, to: u32, name: &str| {
        format!(
            "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second)
             select {name} || n, repeat('r', 60), 1, 1 from generate_series({from}, {to}) as n"
        )
    };
    let before = version();
    postgres.sql(&many(1, 100, "''"));
    let heard = listener.notifications();
    assert_eq!(heard.len(), 1);
    assert!(
        heard[0].starts_with('{') && heard[0].contains("\"100\""),
        "{heard:?}"
    );
    postgres.sql(&many(101, 201, "''"));
    assert_eq!(listener.notifications(), ["*"], "101 rules");
    postgres.sql(&many(1, 100, "repeat('é', 61)"));
    assert_eq!(listener.notifications(), ["*"], "100 rules with long names");
    assert_eq!(version(), before + 3);
}

#[test]
fn three_hundred_thousand_rows_in_one_statement_are_one_notification() {
    let postgres = Postgres::migrated();
    let mut listener = postgres.session();
    listener.sql("listen rule_changed");
    postgres.sql(
        "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second)
         select 'tenant-' || n / 3, 'route-' || n % 3, 10, 5 from generate_series(0, 299999) as n",
    );
    assert_eq!(listener.notifications(), ["*"]);
    postgres.sql("update rate_limit_rule set capacity = 11");
    assert_eq!(listener.notifications(), ["*"]);
    postgres.sql("delete from rate_limit_rule");
    assert_eq!(listener.notifications(), ["*"]);
}

#[test]
fn writers_commit_in_the_order_of_their_numbers() {
    let postgres = Postgres::migrated();
    let mut first = postgres.session();
    first.sql(&format!("begin; {OLD_INSERT} ('a', 'r', 1, 1)"));
    // The second has to wait for the first, whose number comes before its own.
    let wait = postgres.sql_error(&format!(
        "set lock_timeout = 100; {OLD_INSERT} ('b', 'r', 1, 1)"
    ));
    assert!(wait.contains("lock timeout"), "{wait}");
    first.sql("commit");
    postgres.sql(&format!("{OLD_INSERT} ('b', 'r', 1, 1)"));
    assert_eq!(postgres.sql("select n from rule_version"), "3");
}

#[test]
fn users_with_the_least_rights_can_follow_and_change_rules() {
    let postgres = Postgres::migrated();
    postgres.sql(
        "create role gateway login; create role operator login;
         grant select on rate_limit_rule, rule_version to gateway;
         grant select, insert, update, delete on rate_limit_rule to operator;
         grant usage on sequence rate_limit_rule_id_seq to operator",
    );
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .default_rule(7, ONE_A_DAY)
        .postgres_url(&postgres.url_as("gateway"), "refresh: 1h");
    let gateway = Gateway::start(&config);
    let limit = || gateway.get("shop-a", "/x").number("X-RateLimit-Limit");
    assert_eq!(limit(), 7);
    eventually("it listens", || postgres.backends().len() == 1);

    // The operator may not touch rule_version; the trigger does.
    postgres.sql(&format!(
        "set role operator; {OLD_INSERT} ('shop-a', 'r', 10, 5)"
    ));
    within(ANNOUNCED, "the operator's rule is in force", || {
        limit() == 10
    });
    let refused = postgres.sql_error("set role operator; update rule_version set n = 0");
    assert!(refused.contains("permission denied"), "{refused}");
}
