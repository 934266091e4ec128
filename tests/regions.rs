//! Several regions, one limit: real gateways, a Redis in each region, one PostgreSQL between them.
#![allow(clippy::unwrap_used)]

mod harness;

use aforo::rules::ledger::Beat;
use aforo::rules::postgres::region::Exchange;
use harness::{
    Cable, Cluster, Config, Gateway, ONE_A_DAY, Paced, Postgres, Process, Redis, Store, Upstream,
    assert_counts_down, eventually,
};
use std::fs;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const EU: &str = "region: { name: eu, share: 0.7, rebalance: 500ms }";
const US: &str = "region: { name: us, share: 0.3, rebalance: 500ms }";
/// Shares that do not move during a test, whatever is asked for.
const EU_SLOW: &str = "region: { name: eu, share: 0.7, rebalance: 1h }";
const US_SLOW: &str = "region: { name: us, share: 0.3, rebalance: 1h }";

/// A gateway of a region, whose limit for everybody is a hundred, and as many a second.
fn config(upstream: &Upstream, postgres: &Postgres, region: &str) -> Config {
    Config::new(upstream)
        .default_rule(100, 100.0)
        .postgres(postgres, "refresh: 30s")
        .section(region)
}

fn share(gateway: &Gateway) -> f64 {
    gateway.metric("aforo_region_share")
}

#[track_caller]
fn share_becomes(gateway: &Gateway, what: &str, is: impl Fn(f64) -> bool) {
    let mut seen = 0.0;
    let start = Instant::now();
    while !is(seen) {
        seen = share(gateway);
        assert!(
            start.elapsed() < harness::PATIENCE,
            "{what}: {seen}\n{}",
            gateway.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The most that all regions together may have in force, of everybody's limits or of a tenant's,
/// as the database has it at one moment.
fn occupied(postgres: &Postgres, tenant: &str) -> f64 {
    let of = |version: &str| {
        format!(
            "coalesce((select share from region_share s where s.version = {version}
                       and s.region = r.region and s.tenant_id = '{tenant}'),
                      (select share from region_share s where s.version = {version}
                       and s.region = r.region and s.tenant_id = '*'), 0.05)"
        )
    };
    let sum = postgres.sql(&format!(
        "select sum(most) from (
             select max(greatest({}, {}, {})) as most
             from region_gateway r, region_writer w group by region) as regions",
        of("w.version"),
        of("r.applied"),
        of("r.pending"),
    ));
    sum.parse().unwrap_or_default()
}

// Without a database.

#[test]
fn without_a_database_a_region_holds_its_base_share() {
    let upstream = Upstream::start();
    for store in Store::each() {
        let config = Config::new(&upstream)
            .default_rule(100, 50.0)
            .store(&store)
            .section("region: { name: eu, share: 0.3 }");
        let gateway = Gateway::start(&config);
        let response = gateway.get("shop-a", "/x");
        assert_eq!(response.status, 200);
        assert_eq!(response.number("X-RateLimit-Limit"), 30);
        assert_eq!(response.number("X-RateLimit-Remaining"), 29);
        assert_eq!(
            response.header("RateLimit-Policy"),
            Some("\"default\";q=30;w=2")
        );
        assert_eq!(share(&gateway), 0.3);
    }
    let alone = Gateway::start(&Config::new(&upstream));
    assert_eq!(share(&alone), 1.0);
}

#[test]
fn what_decides_without_redis_is_a_part_of_the_regions_part() {
    let (upstream, redis) = (Upstream::start(), Redis::absent());
    let config = Config::new(&upstream)
        .default_rule(100, 1.0)
        .redis(&redis, 2, "")
        .section("region: { name: eu, share: 0.5 }");
    let gateway = Gateway::start(&config);
    let since = Instant::now();
    let first = gateway.get("shop-a", "/x");
    assert_eq!((first.status, first.number("X-RateLimit-Limit")), (200, 50));
    // Half of one a second for the region, and half of that for each of two gateways.
    let second = gateway.get("shop-a", "/x");
    assert_eq!(second.status, 429);
    assert_counts_down(second.number("Retry-After"), 4, since);
}

#[test]
fn a_bucket_is_split_as_far_as_the_regions_part_carries() {
    let (upstream, cluster) = (Upstream::start(), Cluster::of(1, &[]));
    let config = Config::new(&upstream)
        .rule_with("shop-a", "*", 1_000, 500.0, "shards: 10")
        .limits("prefetch: { batch: 0 }")
        .redis_url(&cluster.url(), 1, "timeout: 5s")
        .section("region: { name: eu, share: 0.3 }");
    let gateway = Gateway::start(&config);
    for _ in 0..30 {
        let response = gateway.get("shop-a", "/x");
        assert_eq!(response.number("X-RateLimit-Limit"), 300);
    }
    // Parts of fifty each.
    assert_eq!(cluster.nodes[0].keys("rl:shop-a:r:*").len(), 6);
}

#[test]
fn a_limit_that_is_too_small_to_be_split_is_held_at_home_and_nowhere_else() {
    let upstream = Upstream::start();
    let config = |share: f64| {
        Config::new(&upstream)
            .default_rule(100, 50.0)
            .rule("small", "*", 10, ONE_A_DAY)
            .rule("tiny", "*", 2, ONE_A_DAY)
            .section(&format!("region: {{ name: r, share: {share} }}"))
    };
    let home = Gateway::start(&config(0.7));
    let away = Gateway::start(&config(0.3));
    assert_eq!(home.get("small", "/x").number("X-RateLimit-Limit"), 7);
    assert_eq!(away.get("small", "/x").number("X-RateLimit-Limit"), 3);
    assert_eq!(home.get("tiny", "/x").number("X-RateLimit-Limit"), 2);
    let response = away.get("tiny", "/x");
    assert_eq!(response.status, 429);
    assert_eq!(
        response.header("Retry-After"),
        None,
        "no use in coming back"
    );
    assert_eq!(response.number("X-RateLimit-Remaining"), 0);
    assert!(
        response.text().contains("held in another one"),
        "{response:?}"
    );
}

#[test]
fn a_reload_and_new_rules_leave_the_share_alone() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let config = config(&upstream, &postgres, EU_SLOW);
    let gateway = Gateway::start(&config);
    let limit = |tenant: &str| gateway.get(tenant, "/x").number("X-RateLimit-Limit");
    assert_eq!(limit("shop-a"), 70);
    gateway.reload_with(&config.clone().default_rule(200, 100.0));
    assert_eq!(limit("shop-a"), 140);
    postgres.sql(
        "insert into rate_limit_rule (tenant_id, route_id, capacity, refill_per_second)
         values ('shop-b', 'r', 1000, 10)",
    );
    eventually("the rule is in force", || limit("shop-b") == 700);
    let other = config
        .section("")
        .yaml()
        .replace("share: 0.7", "share: 0.6");
    assert!(other.contains("share: 0.6"));
    gateway.rewrite_config_text(
        &other
            .replace("{listen}", gateway.address())
            .replace("{admin}", "127.0.0.1:1"),
    );
    assert_eq!(gateway.reload(), "ok");
    eventually("a restart is asked for", || {
        gateway.log().contains("region differs in the file")
    });
    assert_eq!(limit("shop-a"), 70, "the file's rule, the old share");
}

// With one.

#[test]
fn each_region_begins_with_its_base_share_and_the_command_shows_them() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let (shown, ok) = postgres.run_aforo(&["regions"]);
    assert!(ok && shown.stdout().contains("no region was heard of yet"));

    let eu = Gateway::start(&config(&upstream, &postgres, EU_SLOW));
    assert_eq!(share(&eu), 0.7, "{}", eu.log());
    // As one who may do no more than docs/regions.md asks for.
    postgres.sql(
        "create role modest login;
         grant select on all tables in schema public to modest;
         grant select, insert, update, delete
             on region_demand, region_share, region_gateway, region_writer to modest",
    );
    let modest = Config::new(&upstream)
        .default_rule(100, 100.0)
        .postgres_url(&postgres.url_as("modest"), "refresh: 30s")
        .section(US_SLOW);
    let us = Gateway::start(&modest);
    assert_eq!(share(&us), 0.3, "{}", us.log());
    assert_eq!(eu.get("shop-a", "/x").number("X-RateLimit-Limit"), 70);
    assert_eq!(us.get("shop-a", "/x").number("X-RateLimit-Limit"), 30);
    assert!((occupied(&postgres, "*") - 1.0).abs() < 1e-9);

    let (shown, ok) = postgres.run_aforo(&["regions"]);
    assert!(ok, "{}", shown.stderr());
    for words in [
        "shares in % of each limit",
        "eu                     70.0   70.0         1  ",
        "us                     30.0   30.0         1  ",
        "home: eu; a limit of fewer than 4 requests",
    ] {
        assert!(
            shown.stdout().contains(words),
            "{words:?} in {}",
            shown.stdout()
        );
    }
    drop(us);
    let (shown, ok) = postgres.run_aforo(&["regions", "--forget", "us"]);
    assert!(
        ok && shown
            .stdout()
            .contains("\"us\" is forgotten, with 1 gateways")
    );
    let (shown, _) = postgres.run_aforo(&["regions"]);
    assert!(
        shown
            .stdout()
            .contains("us                     30.0   30.0         0  forgotten")
    );
}

#[test]
fn demand_that_swings_takes_the_shares_along_and_the_limit_holds_meanwhile() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let (redis_eu, redis_us) = (Redis::start(), Redis::start());
    let start = |redis: &Redis, region: &str| {
        let config = config(&upstream, &postgres, region).redis(redis, 2, "timeout: 1s");
        Gateway::start(&config)
    };
    let eu = [start(&redis_eu, EU), start(&redis_eu, EU)];
    let us = [start(&redis_us, US), start(&redis_us, US)];
    let began = Instant::now();
    let from_eu = Paced::start(&[&eu[0], &eu[1]], "shop-a", "/x", 84);
    let from_us = Paced::start(&[&us[0], &us[1]], "shop-a", "/x", 36);
    share_becomes(&us[0], "the base shares suit the demand", |share| {
        (share - 0.3).abs() <= 0.05
    });

    from_eu.pace(12);
    from_us.pace(108);
    let settled = |share: f64| (0.8..=0.92).contains(&share);
    let start = Instant::now();
    while !(settled(share(&us[0])) && settled(share(&us[1]))) {
        assert!(start.elapsed() < harness::PATIENCE, "{}", us[0].log());
        for tenant in ["*", "shop-a"] {
            let sum = occupied(&postgres, tenant);
            assert!(sum <= 1.0 + 1e-9, "{tenant}: {sum}");
        }
    }
    assert!(share(&eu[0]) <= 0.2 && share(&eu[1]) <= 0.2);
    let limit = us[0].get("shop-a", "/x").number("X-RateLimit-Limit");
    assert!((80..=92).contains(&limit), "{limit}");

    // What passes now is nearly all that may.
    let counted = |paced: &[&Paced; 2]| paced.iter().map(|one| one.counts().1).sum::<u64>();
    let both = [&from_eu, &from_us];
    let (since, before) = (Instant::now(), counted(&both));
    eventually("some time passes", || counted(&both) > before + 400);
    let per_second = (counted(&both) - before) as f64 / since.elapsed().as_secs_f64();
    assert!(per_second <= 110.0, "{per_second}");

    let admitted = counted(&both) as f64;
    // The limit's burst, what came back since, and what 5 % of a second's worth of leases may hold.
    let bound = 100.0 + 100.0 * began.elapsed().as_secs_f64() + 0.05 * 200.0;
    assert!(admitted <= bound, "{admitted} of {bound}");
    assert_eq!((from_eu.failed(), from_us.failed()), (0, 0));
}

#[test]
fn without_word_what_is_lent_lapses_and_comes_back() {
    let (upstream, mut postgres) = (Upstream::start(), Postgres::migrated());
    let eu = Gateway::start(&config(&upstream, &postgres, EU));
    let us = Gateway::start(&config(&upstream, &postgres, US));
    let _demand = Paced::start(&[&us], "shop-a", "/x", 150);
    share_becomes(&us, "us borrows what is idle", |share| share > 0.8);
    let lent = share(&eu);
    assert!(lent < 0.2);

    postgres.kill();
    share_becomes(&us, "us has its base share alone", |share| share == 0.3);
    assert!(
        share(&eu) <= lent + 1e-9,
        "eu is not told to take back what it lent"
    );
    assert_eq!(us.get("shop-b", "/x").status, 200);

    postgres.restart();
    share_becomes(&us, "us borrows again", |share| share > 0.8);
    eventually("it says so", || {
        us.log().contains("shared between regions again")
    });
}

/// What eu has after what us gives up: their sum, for as long as us only loses. Read in this order
/// it is never more than it was at the first reading.
fn sum_of(eu: &[Gateway], us: &[Gateway]) -> f64 {
    let most = |of: &[Gateway]| of.iter().map(share).fold(0.0, f64::max);
    most(eu) + most(us)
}

#[test]
fn a_region_that_is_cut_off_keeps_its_base_share_and_no_more() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let (redis_eu, redis_us) = (Redis::start(), Redis::start());
    let cable = Cable::to(postgres.port());
    let start = |redis: &Redis, region: &str, url: &str| {
        let config = Config::new(&upstream)
            .default_rule(100, 100.0)
            .postgres_url(url, "refresh: 30s")
            .redis(redis, 2, "timeout: 1s")
            .section(region);
        Gateway::start(&config)
    };
    let (near, far) = (postgres.url(), postgres.url_over(&cable));
    let eu = [start(&redis_eu, EU, &near), start(&redis_eu, EU, &near)];
    let us = [start(&redis_us, US, &far), start(&redis_us, US, &far)];
    let _from_us = Paced::start(&[&us[0], &us[1]], "shop-a", "/x", 150);
    for gateway in &us {
        share_becomes(gateway, "us borrows what is idle", |share| share > 0.8);
    }

    cable.cut();
    let _from_eu = Paced::start(&[&eu[0], &eu[1]], "shop-a", "/x", 150);
    // Eu has its base share back once what us borrowed has lapsed, and not before.
    let start = Instant::now();
    while !eu.iter().all(|gateway| share(gateway) > 0.65) {
        let sum = sum_of(&eu, &us);
        assert!(sum <= 1.0 + 1e-9, "{sum}");
        assert!(start.elapsed() < harness::PATIENCE, "{}", eu[0].log());
    }
    for gateway in &us {
        assert_eq!(share(gateway), 0.3);
        assert!(gateway.get("shop-b", "/x").number("X-RateLimit-Limit") == 30);
    }
    assert!(sum_of(&eu, &us) <= 1.0 + 1e-9);

    // What was under way arrives late; nobody is misled by it.
    cable.mend();
    eventually("us is heard again", || {
        postgres.sql(
            "select count(*) from region_gateway g, region_writer w
             where region = 'us' and applied = w.version",
        ) == "2"
    });
    for tenant in ["*", "shop-a"] {
        let sum = occupied(&postgres, tenant);
        assert!(sum <= 1.0 + 1e-9, "{tenant}: {sum}");
    }
}

#[test]
fn a_gateway_that_stood_still_does_not_go_on_with_what_it_had_borrowed() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let eu = Gateway::start(&config(&upstream, &postgres, EU));
    let us = Gateway::start(&config(&upstream, &postgres, US));
    let _from_us = Paced::start(&[&us], "shop-a", "/x", 150);
    share_becomes(&us, "us borrows what is idle", |share| share > 0.8);
    us.signal("STOP");
    let _from_eu = Paced::start(&[&eu], "shop-a", "/x", 150);
    share_becomes(&eu, "eu has its base share back", |share| share > 0.65);
    let beyond = share(&eu);
    assert!(beyond <= 0.7 + 1e-9, "what us may hold is kept: {beyond}");
    us.signal("CONT");
    // The lease ran out meanwhile. It may have heard of what it is granted now, which is what eu has not.
    let after = share(&us);
    assert!(after < 0.5, "{after}");
}

#[test]
fn while_somebody_else_is_the_writer_no_share_moves() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let eu = Gateway::start(&config(&upstream, &postgres, EU));
    let us = Gateway::start(&config(&upstream, &postgres, US));
    let mut other = postgres.session();
    other.sql("select pg_advisory_lock(107092584329074)");
    let _demand = Paced::start(&[&us], "shop-a", "/x", 150);
    let rounds = || postgres.sql("select round from region_writer");
    let before = rounds();
    eventually("demand is known, and gateways have tried", || {
        postgres.sql("select count(*) from region_demand where region = 'us'") == "1"
    });
    assert_eq!(rounds(), before);
    assert_eq!((share(&eu), share(&us)), (0.7, 0.3));
    // Both have waited for so long that both take themselves for the writer now.
    other.sql("select pg_advisory_unlock(107092584329074)");
    share_becomes(&us, "us borrows what is idle", |share| share > 0.8);
    let sum = occupied(&postgres, "shop-a");
    assert!(sum <= 1.0 + 1e-9, "{sum}");
}

#[test]
fn a_database_whose_clock_steps_by_minutes_moves_shares_all_the_same() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let eu = Gateway::start(&config(&upstream, &postgres, EU));
    let us = Gateway::start(&config(&upstream, &postgres, US));
    for (minutes, borrows, lends) in [(-10, &us, &eu), (10, &eu, &us)] {
        // What was written before the step lies in the future, or long ago.
        postgres.sql(&format!(
            "begin;
             update region_writer set computed_at = computed_at - make_interval(mins => {minutes});
             update region_gateway set at = at - make_interval(mins => {minutes});
             update region_demand set at = at - make_interval(mins => {minutes});
             commit"
        ));
        let _demand = Paced::start(&[borrows], "shop-a", "/x", 150);
        share_becomes(borrows, "what is idle is lent", |share| share > 0.8);
        assert!(share(lends) < 0.2);
        let sum = occupied(&postgres, "shop-a");
        assert!(sum <= 1.0 + 1e-9, "{sum}");
    }
}

#[test]
fn a_gateway_that_starts_without_word_holds_the_smallest_share() {
    let (upstream, mut postgres) = (Upstream::start(), Postgres::absent());
    let gateway = Gateway::start(&config(&upstream, &postgres, EU));
    assert_eq!(share(&gateway), 0.05);
    assert_eq!(gateway.get("shop-a", "/x").number("X-RateLimit-Limit"), 5);
    eventually("it says so", || {
        gateway.log().contains("no word of this region's share")
    });
    postgres.restart();
    postgres.migrate();
    share_becomes(&gateway, "the base share is in force", |share| share == 0.7);
}

#[test]
fn another_writer_takes_over() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let start = |region: &str| Gateway::start(&config(&upstream, &postgres, region));
    let (eu, us) = (start(EU), start(US));
    let writer = || postgres.sql("select writer from region_writer");
    let first = writer();
    let of_eu = postgres.sql("select gateway from region_gateway where region = 'eu'");
    let (mut ended, region, left) = if first == of_eu {
        (eu, EU, us)
    } else {
        (us, US, eu)
    };
    let before = share(&left);
    ended.process().signal("KILL");
    eventually("the other one runs the rounds", || writer() != first);
    let rounds = || -> i64 {
        let rounds = postgres.sql("select round from region_writer");
        rounds.parse().unwrap()
    };
    let since = rounds();
    eventually("and goes on", || rounds() > since + 5);
    assert!(share(&left) <= before + 1e-9, "nobody knows who has ended");

    // The next gateway there stands in for the first, which is forgotten then.
    let next = start(region);
    assert!(share(&next) > 0.0);
    eventually("only those that are there are left", || {
        postgres.sql("select count(*) from region_gateway") == "2"
    });
}

#[tokio::test]
async fn a_word_that_comes_after_a_later_one_changes_nothing() {
    let postgres = Postgres::migrated();
    let mut exchange = Exchange::connect(&postgres.url()).await.unwrap();
    let word = |beat, applied| Beat {
        region: "eu".to_owned(),
        gateway: "g".to_owned(),
        base: 0.5,
        lease: Duration::from_secs(3),
        instances: 1,
        applied,
        pending: 0,
        beat,
    };
    let row = || postgres.sql("select applied, pending, beat from region_gateway");
    postgres.sql("update region_writer set version = 7");
    assert_eq!(exchange.beat(&word(2, 6)).await.unwrap().version, 7);
    assert_eq!(row(), "6|7|2");
    // It may have put 7 into force, which this one does not know.
    postgres.sql("update region_writer set version = 8");
    assert!(exchange.beat(&word(1, 6)).await.is_err());
    assert_eq!(row(), "6|7|2");
    assert_eq!(exchange.beat(&word(3, 7)).await.unwrap().version, 8);
    assert_eq!(row(), "7|8|3");
}

#[test]
fn what_gateways_were_asked_for_is_in_the_table_and_goes_again() {
    let (upstream, postgres) = (Upstream::start(), Postgres::migrated());
    let eu = Gateway::start(&config(&upstream, &postgres, EU));
    let demand = Paced::start(&[&eu], "shop-a", "/x", 200);
    eventually("what was rejected counts too", || {
        let found = postgres.sql(
            "select demand, refill_per_second from region_demand
             where region = 'eu' and tenant_id = 'shop-a' and route_id = 'r'",
        );
        let found = found.split_once('|');
        found.is_some_and(|(demand, refill)| {
            demand.parse::<f64>().unwrap() > 150.0 && refill == "100"
        })
    });
    drop(demand);
    eventually("nobody asks any more", || {
        postgres.sql("select count(*) from region_demand") == "0"
    });
}

// The command line.

#[test]
fn a_region_that_cannot_be_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("aforo.yaml");
    let check = |region: &str| {
        let yaml = Config::with_upstream_address("127.0.0.1:1")
            .section(region)
            .yaml()
            .replace("{listen}", "127.0.0.1:8080")
            .replace("{admin}", "127.0.0.1:9090");
        fs::write(&path, yaml).unwrap();
        let (process, status) = Process::run_aforo(&["check", "-c", path.to_str().unwrap()]);
        (status.success(), process.stdout() + &process.stderr())
    };
    for (region, words) in [
        (
            "region: { name: eu, share: 0.01 }",
            "region.share: must be from 0.05 to 1, not 0.01",
        ),
        (
            "region: { name: eu, share: 1.5 }",
            "region.share: must be from 0.05 to 1",
        ),
        (
            "region: { name: \"\", share: 0.5 }",
            "region.name: must not be empty",
        ),
        (
            "region: { name: eu, share: 0.5, rebalance: 2m }",
            "region.rebalance: needs rules.postgres",
        ),
    ] {
        let (ok, said) = check(region);
        assert!(!ok && said.contains(words), "{words:?} in {said}");
    }
    let (ok, said) = check("region: { name: eu, share: 0.7 }");
    assert!(
        ok && said.contains("region: eu with 70 % of each limit, fixed"),
        "{said}"
    );
}
