//! Redis with TLS and users: what is right connects, and what is wrong is said in one clear line.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Config, Gateway, Redis, Upstream, check, eventually, free_port};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// An authority and what it has signed.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Self { folder };
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=test authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
        ]);
        authority
    }

    /// A certificate for `127.0.0.1`, or whatever `name` says.
    fn sign(&self, file: &str, name: &str) {
        let (key, request, cert) = (
            format!("{file}.key"),
            format!("{file}.csr"),
            format!("{file}.crt"),
        );
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=test",
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        fs::write(self.path("ext"), format!("subjectAltName={name}")).unwrap();
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "ext",
            "-out",
            &cert,
        ]);
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn shown(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap_or_else(|error| panic!("openssl: {error}"));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

/// A server that speaks TLS on one port, and plainly to the test on another.
struct Secret {
    plain: Redis,
    port: u16,
}

impl Secret {
    fn start(authority: &Authority, cert: &str, asks_for_certificates: bool) -> Self {
        let port = free_port();
        let plain = Redis::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &authority.shown(&format!("{cert}.crt")),
            "--tls-key-file",
            &authority.shown(&format!("{cert}.key")),
            "--tls-ca-cert-file",
            &authority.shown("ca.crt"),
            "--tls-auth-clients",
            if asks_for_certificates { "yes" } else { "no" },
        ]);
        Self { plain, port }
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }
}

/// Checks that the complaint is one line that says so.
#[track_caller]
fn assert_complains(url: &str, keys: &str, words: &str) {
    let (fine, said) = check(url, keys);
    assert!(!fine, "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains(words), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

fn tls(authority: &Authority, client: bool) -> String {
    let ca = authority.shown("ca.crt");
    if client {
        let (cert, key) = (authority.shown("client.crt"), authority.shown("client.key"));
        format!("timeout: 5s, tls: {{ ca: \"{ca}\", cert: \"{cert}\", key: \"{key}\" }}")
    } else {
        format!("timeout: 5s, tls: {{ ca: \"{ca}\" }}")
    }
}

#[test]
fn buckets_live_behind_tls_with_an_authority_and_a_client_certificate_of_ones_own() {
    let authority = Authority::new();
    authority.sign("server", "IP:127.0.0.1");
    authority.sign("client", "DNS:aforo");
    let upstream = Upstream::start();
    for asks in [false, true] {
        let redis = Secret::start(&authority, "server", asks);
        let keys = tls(&authority, asks);
        let config = Config::new(&upstream).redis_url(&redis.url(), 1, &keys);
        let gateway = Gateway::start(&config);
        eventually("Redis decides", || {
            gateway.get("shop", "/x");
            gateway.metric("aforo_decisions_total{source=\"store\"}") > 0.0
        });
        assert!(redis.plain.exists("rl:{shop}:r"));
        let (fine, said) = check(&redis.url(), &keys);
        assert!(fine && said.contains(", TLS, script loaded"), "{said}");
    }
}

#[test]
fn a_wrong_certificate_on_either_side_is_one_clear_line() {
    let authority = Authority::new();
    authority.sign("server", "IP:127.0.0.1");
    authority.sign("elsewhere", "DNS:redis.example");
    authority.sign("client", "DNS:aforo");
    let stranger = Authority::new();
    stranger.sign("client", "DNS:aforo");
    let redis = Secret::start(&authority, "server", true);
    let tls_failed = "TLS failed, see store.redis.tls";
    assert_complains(&redis.url(), &tls(&stranger, true), tls_failed);
    assert_complains(&redis.url(), &tls(&authority, false), tls_failed);
    let misnamed = Secret::start(&authority, "elsewhere", false);
    assert_complains(&misnamed.url(), &tls(&authority, false), tls_failed);

    // A gateway that runs into it serves all the same, and says so once.
    let upstream = Upstream::start();
    let config = Config::new(&upstream).redis_url(&redis.url(), 1, &tls(&stranger, true));
    let gateway = Gateway::start(&config);
    assert_eq!(gateway.get("shop", "/x").status, 200);
    std::thread::sleep(Duration::from_millis(600));
    let log = gateway.log();
    assert_eq!(log.matches(tls_failed).count(), 1, "{log}");
}

#[test]
fn a_wrong_user_or_one_without_rights_is_one_clear_line() {
    let redis = Redis::start();
    let rights = "~rl:* resetchannels -@all +evalsha +eval +script|load +ping +select +hmget +hset +pexpire +time";
    let user = |name: &str, rights: &str| {
        let mut words = vec!["ACL", "SETUSER", name, "on", ">hunter2"];
        words.extend(rights.split(' '));
        redis.query::<()>(&words);
    };
    user("aforo", rights);
    user("no-scripts", "~rl:* resetchannels -@all +ping +select");
    user("no-eval", &rights.replace(" +evalsha", ""));
    user("other-keys", &rights.replace("~rl:*", "~other:*"));
    let url = |who: &str| format!("redis://{who}@127.0.0.1:{}", redis.port());
    let (fine, said) = check(&url("aforo:hunter2"), "");
    assert!(fine && !said.contains("hunter2"), "{said}");
    assert_complains(&url("aforo:wrong"), "", "user or password is wrong");
    assert_complains(&url("nobody:hunter2"), "", "user or password is wrong");
    let lacks = "the user lacks rights, docs/redis.md has the line that gives them";
    for who in ["no-scripts", "no-eval", "other-keys"] {
        assert_complains(&url(&format!("{who}:hunter2")), "", lacks);
    }
    redis.query::<()>(&["ACL", "SETUSER", "default", "off"]);
    assert_complains(
        &url("").replace('@', ""),
        "",
        "the server asks for a password",
    );
}
