//! The command line: what it prints, where, and its exit code.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Config, Gateway, ONE_A_DAY, Process, Redis, eventually, free_port};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A file in a folder of its own, its ports filled in.
fn file(yaml: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("aforo.yaml");
    let listen = format!("127.0.0.1:{}", free_port());
    let admin = format!("127.0.0.1:{}", free_port());
    let yaml = yaml.replace("{listen}", &listen).replace("{admin}", &admin);
    fs::write(&path, yaml).unwrap();
    (folder, path)
}

fn config() -> Config {
    Config::with_upstream_address("127.0.0.1:9000")
        .route("id: create-order, methods: [POST], path: /orders")
}

/// What `aforo check` says about a file: exit code, standard output, lines of standard error.
fn check(path: &Path) -> (i32, String, Vec<String>) {
    let (process, status) = Process::run_aforo(&["check", "-c", path.to_str().unwrap()]);
    let errors = process.stderr().lines().map(str::to_owned).collect();
    (status.code().unwrap(), process.stdout(), errors)
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
}

// Help and usage.

#[test]
fn the_version_is_that_of_the_package() {
    let (process, status) = Process::run_aforo(&["--version"]);
    assert!(status.success());
    assert_eq!(
        process.stdout().trim(),
        concat!("aforo ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn every_command_explains_itself() {
    let (process, status) = Process::run_aforo(&["--help"]);
    assert!(status.success());
    assert_says(&process.stdout(), &["run", "check", "migrate", "demo"]);

    for (command, flags) in [
        ("run", &["-c"][..]),
        ("check", &["-c", "--connect"]),
        ("migrate", &["-c"]),
        ("demo", &["--listen", "--admin"]),
    ] {
        let (process, status) = Process::run_aforo(&[command, "--help"]);
        assert!(status.success(), "{command}");
        assert_says(&process.stdout(), flags);
    }
}

#[test]
fn a_usage_error_is_exit_2_and_one_line() {
    for arguments in [
        &["frobnicate"][..],
        &["check", "--nonsense"],
        &["check", "-c"],
        &["demo", "--listen", "nowhere"],
    ] {
        let (process, status) = Process::run_aforo(arguments);
        assert_eq!(status.code(), Some(2), "{arguments:?}");
        assert_eq!(process.stdout(), "", "{arguments:?}");
        let errors = process.stderr();
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    }
}

// Files.

#[test]
fn check_sums_up_a_good_file() {
    let (_folder, path) = file(&config().rule("shop-a", "create-order", 200, 100.0).yaml());
    let listen = fs::read_to_string(&path).unwrap();
    let listen = listen.split('"').nth(1).unwrap();

    let (code, summary, errors) = check(&path);
    assert_eq!((code, errors), (0, Vec::new()));
    assert_says(
        &summary,
        &[listen, "create-order", "main", "127.0.0.1:9000"],
    );
    let summary = summary.to_lowercase();
    assert_says(&summary, &["rule"]);
    // Where state lives.
    assert!(
        summary.contains("memory") || summary.contains("process"),
        "{summary}"
    );
}

#[test]
fn check_says_which_redis_holds_the_buckets_but_not_the_password() {
    let yaml = config()
        .redis_url("redis://user:hunter2@redis.example:6379", 3, "")
        .yaml();
    let (_folder, path) = file(&yaml);

    let (code, summary, errors) = check(&path);
    assert_eq!((code, errors), (0, Vec::new()));
    assert_says(&summary, &["redis.example:6379"]);
    assert!(!summary.contains("hunter2"), "{summary}");
}

#[test]
fn an_error_of_shape_is_named_by_file_line_and_column() {
    let good = config().yaml();
    let line = good.lines().count() + 1;
    for broken in [
        format!("{good}surprise: 1\n"),
        format!("{good}log: {{ level: info, colour: red }}\n"),
        format!("{good}timeouts: {{ header: [] }}\n"),
        format!("{good}log: \"never closed\n"),
    ] {
        let (_folder, path) = file(&broken);
        let (code, summary, errors) = check(&path);
        assert_eq!((code, summary.as_str()), (1, ""), "{broken}");
        assert_eq!(errors.len(), 1, "{errors:?}");
        let place = errors[0]
            .strip_prefix(&format!("{}:", path.display()))
            .unwrap_or_else(|| panic!("{errors:?}"));
        let mut parts = place.splitn(3, ':');
        let said: usize = parts.next().unwrap().parse().unwrap();
        let column: usize = parts.next().unwrap().parse().unwrap();
        // A string that is never closed is only noticed at the end of the file.
        assert!((line..=line + 1).contains(&said), "{errors:?}");
        assert!(column >= 1, "{errors:?}");
        assert!(parts.next().unwrap().starts_with(' '), "{errors:?}");
    }
}

#[test]
fn errors_of_meaning_are_all_listed_by_their_place() {
    let yaml = config()
        .route("id: import, path: /import, cost: 5")
        .rule("shop-a", "create-order", 0, 1.0)
        .rule("shop-b", "create-order", 10, 0.0)
        .rule("shop-c", "nowhere", 10, 1.0)
        .rule("shop-d", "import", 4, 1.0)
        .yaml()
        .replace(
            "path: /import, cost: 5, upstream: main",
            "path: /import, cost: 5, upstream: nobody",
        );
    let (_folder, path) = file(&yaml);

    let (code, summary, errors) = check(&path);
    assert_eq!((code, summary.as_str()), (1, ""));
    for place in [
        "routes[1].upstream",
        "limits.rules[0].capacity",
        "limits.rules[1].refill_per_second",
        "limits.rules[2].route",
        "limits.rules[3]",
    ] {
        let start = format!("{}: {place}", path.display());
        assert!(
            errors.iter().any(|error| error.starts_with(&start)),
            "no {place} in {errors:#?}"
        );
    }
    let of_file = |error: &String| error.starts_with(path.to_str().unwrap());
    assert!(errors.iter().all(of_file), "{errors:#?}");
}

#[test]
fn limits_that_no_bucket_can_have_are_refused() {
    for (capacity, refill) in [
        ("0", "1"),
        ("-1", "1"),
        ("null", "1"),
        (".nan", "1"),
        (".inf", "1"),
        ("10", "0"),
        ("10", "-1"),
        ("10", "null"),
        ("10", ".nan"),
        ("10", ".inf"),
    ] {
        let yaml = config().rule("shop-a", "create-order", 77, 77.0).yaml();
        let yaml = yaml
            .replace("capacity: 77", &format!("capacity: {capacity}"))
            .replace(
                "refill_per_second: 77",
                &format!("refill_per_second: {refill}"),
            );
        let (_folder, path) = file(&yaml);
        let (code, _, errors) = check(&path);
        assert_eq!(code, 1, "{capacity} {refill}");
        assert_eq!(errors.len(), 1, "{capacity} {refill}: {errors:?}");
        assert!(errors[0].starts_with(path.to_str().unwrap()), "{errors:?}");
    }
}

#[test]
fn redis_without_the_number_of_gateways_is_refused() {
    let yaml = config().yaml() + "store: { redis: { url: \"redis://127.0.0.1\" } }\n";
    let (_folder, path) = file(&yaml);
    let (code, _, errors) = check(&path);
    assert_eq!(code, 1);
    assert_says(&errors.join("\n"), &["cluster"]);
}

#[test]
fn variables_of_the_environment_are_filled_in_or_named_where_they_are_missing() {
    let yaml = config().yaml().replace(
        "127.0.0.1:9000",
        "${AFORO_TEST_NOBODY_SETS_THIS:-127.0.0.1:9111}",
    );
    let (_folder, path) = file(&yaml);
    let (code, summary, errors) = check(&path);
    assert_eq!((code, errors), (0, Vec::new()));
    assert_says(&summary, &["127.0.0.1:9111"]);

    let yaml =
        config().yaml() + "# ${IN_A_COMMENT}\ntenant: { header: \"${AFORO_TEST_MISSING}\" }\n";
    let line = yaml.lines().count();
    let (_folder, path) = file(&yaml);
    let (code, _, errors) = check(&path);
    assert_eq!((code, errors.len()), (1, 1), "{errors:?}");
    let start = format!("{}:{line}:", path.display());
    assert!(errors[0].starts_with(&start), "{errors:?}");
    assert_says(&errors[0], &["AFORO_TEST_MISSING"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    for command in ["check", "run"] {
        let (process, status) = Process::run_aforo(&[command, "-c", "/nowhere/aforo.yaml"]);
        assert_eq!(status.code(), Some(1), "{command}");
        let errors = process.stderr();
        assert_says(&errors, &["/nowhere/aforo.yaml"]);
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_gateway_does_not_start_on_a_wrong_file_and_says_what_check_says() {
    let yaml = config().rule("shop-a", "nowhere", 10, ONE_A_DAY).yaml();
    let (_folder, path) = file(&yaml);
    let (_, _, said_by_check) = check(&path);

    let (process, status) = Process::run_aforo(&["run", "-c", path.to_str().unwrap()]);
    assert_eq!(status.code(), Some(1));
    assert_says(&process.stderr(), &[&said_by_check[0]]);
}

#[test]
fn the_shipped_configuration_is_valid() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/conf/aforo.yaml"));
    let (code, _, errors) = check(&path);
    assert_eq!((code, errors), (0, Vec::new()));
}

// Starting.

#[test]
fn a_taken_port_is_exit_3_and_named_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for placeholder in ["{listen}", "{admin}"] {
        let (_folder, path) = file(&config().yaml().replace(placeholder, &address));
        let (process, status) = Process::run_aforo(&["run", "-c", path.to_str().unwrap()]);
        let errors = process.stderr();
        assert_eq!(status.code(), Some(3), "{errors}");
        let naming = errors.lines().filter(|line| line.contains(&address));
        assert_eq!(naming.count(), 1, "{errors}");
    }
}

#[test]
fn a_gateway_alone_is_what_run_is() {
    let redis = Redis::start();
    let gateway =
        Gateway::start_program(&Process::aforo(), &["-c"], &config().redis(&redis, 1, ""));
    assert_eq!(gateway.request("POST", "/orders", &[], b"").status, 401);
}

#[test]
fn the_demo_prints_three_curl_lines_that_give_200_200_429() {
    let listen = format!("127.0.0.1:{}", free_port());
    let admin = format!("127.0.0.1:{}", free_port());
    let demo = Process::spawn(
        &Process::aforo(),
        &["demo", "--listen", &listen, "--admin", &admin],
        TempDir::new().unwrap(),
    );
    let lines = || -> Vec<String> {
        let printed = demo.stdout();
        let complete = printed.rsplit_once('\n').map_or("", |(lines, _)| lines);
        complete
            .lines()
            .map(|line| line.trim().trim_start_matches("$ ").to_owned())
            .filter(|line| line.starts_with("curl "))
            .collect()
    };
    eventually("three curl lines are printed", || lines().len() == 3);
    eventually("the demo is ready", || {
        harness::Client::connect(&admin)
            .and_then(|mut client| client.request("GET", "/readyz", &[], b""))
            .is_ok_and(|response| response.status == 200)
    });

    let statuses: Vec<String> = lines()
        .iter()
        .map(|line| {
            assert_says(line, &[&listen]);
            // As printed, but for the status in place of the answer.
            let quiet = line.replacen("curl", "curl -s -o /dev/null -w '%{http_code}'", 1);
            let output = Command::new("sh").args(["-c", &quiet]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert_eq!(statuses, ["200", "200", "429"], "{:#?}", lines());
}

// Health.

#[test]
fn health_asks_the_running_gateway_and_not_the_file() {
    let ask = |path: &Path| {
        let (process, status) = Process::run_aforo(&["health", "-c", path.to_str().unwrap()]);
        (status.code().unwrap(), process.stderr())
    };
    let mut gateway = Gateway::start(&config());
    let path = gateway.config_path().to_owned();
    assert_eq!(ask(&path), (0, String::new()));

    // A file that a reload refuses does not make the gateway ill.
    let spoiled = fs::read_to_string(&path).unwrap() + "\nsurprise: true\n";
    fs::write(&path, spoiled).unwrap();
    assert_eq!(ask(&path), (0, String::new()));

    gateway.signal("TERM");
    gateway.wait_exit(harness::PATIENCE);
    let (code, errors) = ask(&path);
    assert_eq!((code, errors.lines().count()), (1, 1), "{errors}");
}
