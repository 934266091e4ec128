//! TLS: what clients are shown, what they may speak, and certificates that change while it runs.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Authority, Config, Files, Gateway, ONE_A_DAY, PATIENCE, PREFACES, Process, Upstream, curl_tls,
    eventually,
};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A listener with this certificate, and `more` in its section.
fn config(upstream: &Upstream, files: &Files, more: &str) -> Config {
    Config::new(upstream).listener(&format!("tls: {{ {}{more} }}", files.yaml()))
}

#[test]
fn curl_speaks_http_1_and_2_and_the_upstream_hears_https() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let config = config(&upstream, &files, "").rule("shop-a", "r", 3, ONE_A_DAY);
    let gateway = Gateway::start(&config);
    let ask = |version: &str| {
        curl_tls(
            gateway.address(),
            "api.example.com",
            &authority.file(),
            "/orders",
            &[version, "-H", "X-Api-Key: shop-a"],
        )
        .unwrap()
    };

    let first = ask("--http1.1");
    assert_eq!((first.version.as_str(), first.status), ("1.1", 200));
    let second = ask("--http2");
    assert_eq!((second.version.as_str(), second.status), ("2", 200));
    assert_eq!(second.header("x-ratelimit-remaining"), Some("1"));
    for seen in upstream.seen() {
        assert_eq!(seen.all("X-Forwarded-Proto"), ["https"]);
        assert_eq!(seen.all("X-Forwarded-For"), ["127.0.0.1"]);
        let host = format!("api.example.com:{}", gateway.port());
        assert_eq!(seen.all("Host"), [host]);
    }
    assert_eq!(ask("--http2").status, 200);
    let limited = ask("--http2");
    assert_eq!(limited.status, 429);
    assert_eq!(limited.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(
        limited.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(
        gateway.metric("aforo_tls_handshakes_total{result=\"ok\"}"),
        4.0
    );
}

#[test]
fn the_host_that_is_named_decides_which_certificate_is_shown() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let first = authority.issue("first", &["first.example.com"]);
    let exact = authority.issue("exact", &["api.example.com"]);
    let wildcard = authority.issue("wildcard", &["*.example.com", "example.org"]);
    let further = format!(
        ", certificates: [{{ {} }}, {{ {} }}]",
        wildcard.yaml(),
        exact.yaml()
    );
    let gateway = Gateway::start(&config(&upstream, &first, &further));

    let client = authority.client();
    for (host, files) in [
        ("first.example.com", &first),
        ("api.example.com", &exact),
        ("API.example.com", &exact),
        ("www.example.com", &wildcard),
        ("example.org", &wildcard),
    ] {
        let connection = client.connect(gateway.address(), host).unwrap();
        assert_eq!(connection.shown(), files.der(), "{host}");
    }
    // Whoever names none, or one that no certificate is for, sees the first, and may not like it.
    for unknown in ["127.0.0.1", "a.b.example.com", "example.com"] {
        let error = client.connect(gateway.address(), unknown).err().unwrap();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_1_3_alone_where_the_file_says_so() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let both = Gateway::start(&config(&upstream, &files, ""));
    let newest = Gateway::start(&config(&upstream, &files, ", min_version: TLSv1.3"));
    let connect = |gateway: &Gateway, version| {
        let client = authority.client().version(version);
        client
            .connect(gateway.address(), "api.example.com")
            .map(|connection| connection.version())
    };

    assert_eq!(connect(&both, &TLS12).unwrap(), ProtocolVersion::TLSv1_2);
    assert_eq!(connect(&both, &TLS13).unwrap(), ProtocolVersion::TLSv1_3);
    assert_eq!(connect(&newest, &TLS13).unwrap(), ProtocolVersion::TLSv1_3);
    assert!(connect(&newest, &TLS12).is_err());
    eventually("it is counted", || {
        newest.metric("aforo_tls_handshakes_total{result=\"error\"}") == 1.0
    });
}

#[test]
fn a_client_without_the_certificate_that_is_asked_for_gets_nowhere() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let (clients, others) = (Authority::new(), Authority::new());
    let asks = format!(", client_ca: \"{}\"", clients.file().display());
    let gateway = Gateway::start(&config(&upstream, &files, &asks));
    let get = |client: harness::TlsClient| {
        let mut connection = client.connect(gateway.address(), "api.example.com")?;
        connection.get("shop-a", "/x")
    };

    for version in [&TLS12, &TLS13] {
        let known = authority.client().version(version);
        let answer = get(known.certificate(&clients.issue("c", &["client"]))).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let unknown = authority.client().version(version);
        get(unknown.certificate(&others.issue("c", &["client"]))).unwrap_err();
        let expired = authority.client().version(version);
        get(expired.certificate(&clients.issue_until("old", &["client"], 2020))).unwrap_err();
        get(authority.client().version(version)).unwrap_err();
    }
    assert_eq!(upstream.count(), 2);
}

#[test]
fn where_a_client_certificate_is_optional_none_is_served_and_a_wrong_one_is_not() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let (clients, others) = (Authority::new(), Authority::new());
    let asks = |more: &str| {
        let asks = format!(", client_ca: \"{}\"{more}", clients.file().display());
        config(&upstream, &files, &asks)
    };
    let gateway = Gateway::start(&asks(", client_cert: optional"));
    let get = |client: harness::TlsClient| {
        let mut connection = client.connect(gateway.address(), "api.example.com")?;
        connection.get("shop-a", "/x")
    };

    for version in [&TLS12, &TLS13] {
        let answer = get(authority.client().version(version)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let known = authority.client().version(version);
        let answer = get(known.certificate(&clients.issue("c", &["client"]))).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let unknown = authority.client().version(version);
        get(unknown.certificate(&others.issue("c", &["client"]))).unwrap_err();
        let expired = authority.client().version(version);
        get(expired.certificate(&clients.issue_until("old", &["client"], 2020))).unwrap_err();
    }
    assert_eq!(upstream.count(), 4);

    // A reload may make it one that is required.
    gateway.reload_with(&asks(""));
    get(authority.client()).unwrap_err();
    get(authority
        .client()
        .certificate(&clients.issue("c", &["client"])))
    .unwrap();
    assert_eq!(upstream.count(), 5);
}

#[test]
fn a_new_certificate_is_shown_after_sighup_and_no_connection_is_dropped() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let old = authority.issue("a", &["api.example.com"]);
    let old_der = old.der();
    let config = config(&upstream, &old, "").default_rule(1_000_000, 1_000_000.0);
    let gateway = Gateway::start(&config);
    let connect = || {
        let client = authority.client();
        client
            .connect(gateway.address(), "api.example.com")
            .unwrap()
    };
    let mut before = connect();
    assert_eq!(before.shown(), old_der);

    let stop = AtomicBool::new(false);
    let (reused, fresh) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients = [
            // One that stays, and one that shakes hands for each request.
            scope.spawn(|| {
                let mut connection = connect();
                while !stop.load(Ordering::Relaxed) {
                    let answer = connection.get("shop-a", "/x").unwrap();
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    reused.fetch_add(1, Ordering::Relaxed);
                }
            }),
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = connect().get("shop-a", "/x").unwrap();
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    fresh.fetch_add(1, Ordering::Relaxed);
                }
            }),
        ];
        for _ in 0..20 {
            let new = authority.issue("a", &["api.example.com"]);
            assert_eq!(gateway.reload(), "ok", "{}", gateway.log());
            assert_eq!(connect().shown(), new.der());
        }
        let (some_reused, some_fresh) = (
            reused.load(Ordering::Relaxed),
            fresh.load(Ordering::Relaxed),
        );
        eventually("the load went on", || {
            reused.load(Ordering::Relaxed) > some_reused
                && fresh.load(Ordering::Relaxed) > some_fresh
        });
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
    let answer = before.get("shop-a", "/x").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_reload_with_a_wrong_certificate_changes_nothing_and_names_it() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let der = files.der();
    let config = config(&upstream, &files, "").default_rule(5, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    // Another key alone: the two do not belong together any more.
    let other = authority.issue("b", &["api.example.com"]);
    fs::copy(&other.key, &files.key).unwrap();
    gateway.rewrite_config(&config.clone().default_rule(6, ONE_A_DAY));
    assert_eq!(gateway.reload(), "error");
    eventually("the log names it", || {
        gateway.log().contains("listeners[0].tls.key")
    });

    let client = authority.client();
    let mut connection = client
        .connect(gateway.address(), "api.example.com")
        .unwrap();
    assert_eq!(connection.shown(), der);
    let answer = connection.get("shop-a", "/x").unwrap().to_lowercase();
    assert!(answer.contains("x-ratelimit-limit: 5"), "{answer}");
}

#[test]
fn a_client_that_does_not_shake_hands_is_let_go() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let config = config(&upstream, &files, "").section("timeouts: { tls: 200ms }");
    let gateway = Gateway::start(&config);

    // Neither one that says nothing, nor one that stops in the middle of its first record.
    for begins in [&b""[..], &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]] {
        let mut silent = TcpStream::connect(gateway.address()).unwrap();
        silent.set_read_timeout(Some(PATIENCE)).unwrap();
        silent.write_all(begins).unwrap();
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    }
    eventually("they are counted", || {
        gateway.metric("aforo_tls_handshakes_total{result=\"timeout\"}") == 2.0
    });
}

#[test]
fn a_client_that_shakes_hands_and_brings_no_request_is_let_go() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    // Whole seconds are what HTTP/1.1 can wait.
    let config = config(&upstream, &files, "").section("timeouts: { idle: 1s }");
    let gateway = Gateway::start(&config);
    let connect = |protocol| {
        let client = authority.client().protocol(protocol);
        client
            .connect(gateway.address(), "api.example.com")
            .unwrap()
    };

    let mut connections = vec![connect("http/1.1")];
    for begins in PREFACES {
        let mut connection = connect("h2");
        connection.send(begins).unwrap();
        connections.push(connection);
    }
    for mut connection in connections {
        connection.read_to_the_end().unwrap();
    }
    assert_eq!(upstream.count(), 0);
}

#[test]
fn a_client_that_agrees_on_http_2_and_speaks_none_leaves_no_line_in_the_log() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let gateway = Gateway::start(&config(&upstream, &files, ""));
    let client = authority.client().protocol("h2");
    for _ in 0..5 {
        let connected = client.connect(gateway.address(), "api.example.com");
        let mut client = connected.unwrap();
        client
            .send(b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
            .unwrap();
        client.read_to_the_end().unwrap();
    }
    assert!(!gateway.log().contains("ERROR"), "{}", gateway.log());
}

#[test]
fn plain_http_at_a_tls_listener_is_no_request() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let gateway = Gateway::start(&config(&upstream, &files, ""));

    let mut client = gateway.connect();
    client.get("shop-a", "/x").unwrap_err();
    assert_eq!(upstream.count(), 0);
    eventually("it is counted", || {
        gateway.metric("aforo_tls_handshakes_total{result=\"error\"}") > 0.0
    });
}

#[test]
fn check_names_every_file_that_is_wrong() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let good = authority.issue("good", &["api.example.com"]);
    let other = authority.issue("other", &["api.example.com"]);
    let expired = authority.issue_until("expired", &["api.example.com"], 2020);
    let empty = authority.folder().join("empty.pem");
    fs::write(&empty, "nothing here\n").unwrap();
    let missing = authority.folder().join("missing.pem");
    let path = |path: &std::path::Path| format!("\"{}\"", path.display());
    let (good_cert, good_key) = (path(&good.cert), path(&good.key));
    for (tls, lines) in [
        (
            format!("cert: {}, key: {good_key}", path(&missing)),
            vec![("listeners[0].tls.cert", "missing.pem cannot be read")],
        ),
        (
            format!("cert: {good_cert}, key: {}", path(&empty)),
            vec![("listeners[0].tls.key", "empty.pem holds no private key")],
        ),
        (
            format!("cert: {good_key}, key: {good_key}"),
            vec![("listeners[0].tls.cert", "good.key holds no certificate")],
        ),
        (
            format!(
                "cert: {}, key: {good_key}, certificates: [{{ cert: {good_cert}, key: {} }}]",
                path(&other.cert),
                path(&missing)
            ),
            vec![
                (
                    "listeners[0].tls.key",
                    "good.key is not the key of the first certificate in",
                ),
                (
                    "listeners[0].tls.certificates[0].key",
                    "missing.pem cannot be read",
                ),
            ],
        ),
        (
            format!("{}, client_ca: {}", good.yaml(), path(&empty)),
            vec![(
                "listeners[0].tls.client_ca",
                "empty.pem holds no certificate",
            )],
        ),
        (expired.yaml(), vec![("listeners[0].tls.cert", "expired")]),
    ] {
        let config = Config::new(&upstream).listener(&format!("tls: {{ {tls} }}"));
        let yaml = config
            .yaml()
            .replace("{listen}", "127.0.0.1:8443")
            .replace("{admin}", "127.0.0.1:9090");
        let file = authority.folder().join("aforo.yaml");
        fs::write(&file, yaml).unwrap();
        let (process, status) = Process::run_aforo(&["check", "-c", file.to_str().unwrap()]);
        assert_eq!(status.code(), Some(1), "{tls}");
        let errors = process.stderr();
        assert_eq!(errors.lines().count(), lines.len(), "{errors}");
        for (line, (key, words)) in errors.lines().zip(lines) {
            assert!(line.contains(&format!("aforo.yaml: {key}: ")), "{line}");
            assert!(line.contains(words), "{line}");
        }
    }
}

#[test]
fn an_expired_certificate_is_served_all_the_same_and_the_log_says_so() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let expired = authority.issue_until("old", &["api.example.com"], 2020);
    let gateway = Gateway::start(&config(&upstream, &expired, ""));

    eventually("the log says so", || {
        gateway
            .log()
            .lines()
            .any(|line| line.contains("listeners[0].tls.cert") && line.contains("expired"))
    });
    let answer = curl_tls(
        gateway.address(),
        "api.example.com",
        &authority.file(),
        "/x",
        &["-k", "-H", "X-Api-Key: shop-a"],
    );
    assert_eq!(answer.unwrap().status, 200);
}

#[test]
fn a_stop_lets_requests_over_tls_end() {
    let upstream = Upstream::start();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let mut gateway = Gateway::start(&config(&upstream, &files, ""));
    let client = authority.client();
    // Accepted, hands shaken, and no request yet.
    let mut fresh = client
        .connect(gateway.address(), "api.example.com")
        .unwrap();

    gateway.signal("TERM");
    eventually("the listener is closed", || {
        TcpStream::connect(gateway.address()).is_err()
    });
    let answer = fresh.get("shop-a", "/x").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let status = gateway.wait_exit(Duration::from_secs(5));
    assert!(status.success(), "{status}\n{}", gateway.log());
}
