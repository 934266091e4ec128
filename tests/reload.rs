//! SIGHUP: what it changes, what it leaves alone, and that it never hurts.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Config, Gateway, Load, ONE_A_DAY, PATIENCE, Process, Store, Upstream, eventually};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;

const SIGHUP: u32 = 1;

#[test]
fn routes_and_limits_are_swapped() {
    let upstream = Upstream::start();
    let old = Config::new(&upstream)
        .route("id: one, path: /one")
        .default_rule(5, ONE_A_DAY);
    let gateway = Gateway::start(&old);
    assert_eq!(gateway.get("shop-a", "/one").number("X-RateLimit-Limit"), 5);
    assert_eq!(gateway.get("shop-a", "/two").status, 404);

    gateway.reload_with(
        &Config::new(&upstream)
            .route("id: two, path: /two")
            .default_rule(7, ONE_A_DAY),
    );
    assert_eq!(gateway.get("shop-a", "/two").number("X-RateLimit-Limit"), 7);
    assert_eq!(gateway.get("shop-a", "/one").status, 404);
}

#[test]
fn upstreams_are_swapped() {
    let (old, new) = (Upstream::start(), Upstream::start());
    let gateway = Gateway::start(&Config::new(&old));
    gateway.get("shop-a", "/x");

    gateway.reload_with(&Config::new(&new));
    gateway.get("shop-a", "/y");
    assert_eq!(old.targets(), ["/x"]);
    assert_eq!(new.targets(), ["/y"]);
}

#[test]
fn a_bucket_goes_on_under_its_new_rule() {
    for store in Store::each() {
        let upstream = Upstream::start();
        let with = |capacity, refill| {
            Config::new(&upstream)
                .rule("shop-a", "r", capacity, refill)
                .store(&store)
        };
        let gateway = Gateway::start(&with(10, ONE_A_DAY));
        for _ in 0..4 {
            assert_eq!(gateway.get("shop-a", "/x").status, 200);
        }
        let remaining = || gateway.get("shop-a", "/x").number("X-RateLimit-Remaining");

        // Six are left: a bigger bucket does not fill them up, a smaller one holds no more than it can.
        gateway.reload_with(&with(100, ONE_A_DAY));
        assert_eq!(remaining(), 5);
        gateway.reload_with(&with(3, ONE_A_DAY));
        assert_eq!(remaining(), 2);
        assert_eq!(remaining(), 1);
        assert_eq!(remaining(), 0);
        assert_eq!(gateway.get("shop-a", "/x").status, 429);

        // Raised while its tenant is being rejected.
        gateway.reload_with(&with(1_000, 1_000.0));
        eventually("the new limit is in force", || {
            gateway.get("shop-a", "/x").status == 200
        });
    }
}

#[test]
fn tokens_that_a_rejected_cost_left_over_are_there_for_a_smaller_one() {
    let upstream = Upstream::start();
    let with_cost = |cost: u32| {
        Config::new(&upstream)
            .route(&format!("id: import, path: /import, cost: {cost}"))
            .rule("shop-a", "import", 7, ONE_A_DAY)
    };
    let gateway = Gateway::start(&with_cost(5));
    let status = || gateway.get("shop-a", "/import").status;

    assert_eq!([status(), status(), status()], [200, 429, 429]);
    gateway.reload_with(&with_cost(1));
    assert_eq!([status(), status(), status()], [200, 200, 429]);
}

#[test]
fn a_broken_file_changes_nothing_and_is_named() {
    let upstream = Upstream::start();
    let good = Config::new(&upstream).default_rule(5, ONE_A_DAY);
    let gateway = Gateway::start(&good);
    let yaml = fs::read_to_string(gateway.config_path()).unwrap();

    let meaning = yaml.replace("path: /*, upstream: main", "path: /*, upstream: nobody");
    assert_ne!(meaning, yaml);
    for (broken, said) in [
        (meaning, "routes[0].upstream"),
        (yaml.clone() + "surprise: 1\n", "surprise"),
        ("routes: [".to_owned(), "aforo.yaml:"),
        (String::new(), "aforo.yaml"),
    ] {
        gateway.rewrite_config_text(&broken);
        assert_eq!(gateway.reload(), "error", "{broken}");
        eventually("the log names it", || gateway.log().contains(said));
        assert_eq!(gateway.get("shop-a", "/x").number("X-RateLimit-Limit"), 5);
    }
    fs::remove_file(gateway.config_path()).unwrap();
    assert_eq!(gateway.reload(), "error");

    let report = gateway.metrics();
    assert_eq!(
        report.get("aforo_config_reload_total{result=\"error\"}"),
        5.0
    );
    assert_eq!(report.get("aforo_config_reload_total{result=\"ok\"}"), 0.0);
    // A good one is taken afterwards.
    gateway.reload_with(&good.default_rule(6, ONE_A_DAY));
    assert_eq!(gateway.get("shop-b", "/x").number("X-RateLimit-Limit"), 6);
}

#[test]
fn what_needs_a_new_process_is_named_and_the_rest_is_in_force() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).default_rule(5, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    let other = config
        .default_rule(6, ONE_A_DAY)
        .section("server: { threads: 3 }")
        .section("store: { redis: { url: \"redis://127.0.0.1:1\" } }\ncluster: { instances: 2 }");
    gateway.reload_with(&other);

    for key in ["server.threads", "store"] {
        eventually("the log names what needs a restart", || {
            gateway
                .log()
                .lines()
                .any(|line| line.contains(key) && line.to_lowercase().contains("restart"))
        });
    }
    assert_eq!(gateway.get("shop-a", "/x").number("X-RateLimit-Limit"), 6);
    assert_eq!(
        gateway.metric("aforo_decisions_total{source=\"fallback\"}"),
        0.0
    );
}

#[test]
fn a_thousand_reloads_under_load_refill_no_bucket_fail_no_request_and_keep_memory_in_bounds() {
    let upstream = Upstream::start();
    // Something changes each time, but nothing that the load is about.
    let with = |n: u64| {
        Config::new(&upstream)
            .rule("shop-a", "r", 50, ONE_A_DAY)
            .rule("*", "r", 1_000_000, 1_000.0)
            .rule("nobody", "r", 10 + n, ONE_A_DAY)
    };
    let mut gateway = Gateway::start(&with(0));
    // Every other request is the limited tenant's.
    let load = Load::start(&gateway, 3, "/x", |n| {
        format!("shop-{}", ["a", "b"][n as usize % 2])
    });
    for n in 0..100 {
        gateway.reload_with(&with(n % 5));
    }
    let before = resident_kib(gateway.process());

    for n in 0..900 {
        gateway.reload_with(&with(n % 5));
    }
    load.wait_for(200);
    let report = load.stop();

    report.assert_only(&[200, 429]);
    let of_limited = upstream
        .seen()
        .iter()
        .filter(|seen| seen.all("X-Api-Key") == ["shop-a"])
        .count();
    assert_eq!(of_limited, 50, "a reload refilled the bucket");
    // Each leaked snapshot would cost some KiB; the allocator's own ups and downs are far below.
    let grown = resident_kib(gateway.process()).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB more");
}

#[test]
fn a_sighup_while_it_starts_does_no_harm() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).default_rule(5, ONE_A_DAY);
    // It reads its file from a pipe, so the test says when the start goes on.
    let mut yaml = String::new();
    let mut gateway = Gateway::launch_with(|path, ports| {
        yaml = ports.fill(&config);
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    });
    eventually("SIGHUP has a handler", || {
        assert!(gateway.process().exited().is_none(), "{}", gateway.log());
        gateway.process().catches_signal(SIGHUP)
    });
    for _ in 0..10 {
        gateway.signal("HUP");
    }

    let path = gateway.config_path().to_owned();
    let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
    // A reload that was asked for meanwhile finds an ordinary file.
    gateway.rewrite_config_text(&yaml);
    pipe.write_all(yaml.as_bytes()).unwrap();
    drop(pipe);

    gateway.wait_ready().unwrap();
    assert_eq!(gateway.get("shop-a", "/x").number("X-RateLimit-Limit"), 5);
    gateway.signal("TERM");
    assert!(gateway.wait_exit(PATIENCE).success());
}

fn resident_kib(process: &Process) -> u64 {
    let field = process.proc_status("VmRSS");
    field.trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_reload_that_hangs_does_not_make_the_process_deaf() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&Config::new(&upstream));
    let path = gateway.config_path().to_owned();
    fs::remove_file(&path).unwrap();
    let status = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(status.success());

    gateway.signal("HUP");
    gateway.signal("TERM");
    let status = gateway.wait_exit(PATIENCE);
    assert!(status.success(), "{status}\n{}", gateway.log());
}
