use std::fs;
use std::path::Path;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::*;
use crate::config;

/// Seconds from 1970 to the beginning of 2020 and 2021.
const IN_2020: u64 = 1_577_836_800;
const IN_2021: u64 = 1_609_459_200;

/// A certificate for 2020, signed by itself.
fn issue(folder: &Path, name: &str, hosts: &[&str]) -> config::Certificate {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
    let key = KeyPair::generate().unwrap();
    let files = config::Certificate {
        cert: folder.join(format!("{name}.crt")),
        key: folder.join(format!("{name}.key")),
    };
    fs::write(&files.cert, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

fn listener(certificates: Vec<config::Certificate>) -> Listener {
    Listener {
        address: "127.0.0.1:8443".parse().unwrap(),
        tls: Some(Tls {
            certificates,
            min_version: TlsVersion::Tls12,
            clients: None,
        }),
        h2c: false,
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_certificate_out_of_its_time_is_a_warning() {
    let folder = TempDir::new().unwrap();
    let listeners = [listener(vec![
        issue(folder.path(), "a", &["a.test"]),
        issue(folder.path(), "b", &["b.test"]),
    ])];
    let warnings = |now: u64| -> Vec<String> {
        let loaded = Table::load(&listeners, at(now)).unwrap();
        assert!(loaded.table.of(listeners[0].address).is_some());
        loaded.warnings.iter().map(ToString::to_string).collect()
    };

    assert_eq!(warnings(IN_2020), Vec::<String>::new());
    assert_eq!(warnings(IN_2021), Vec::<String>::new());
    let folder = folder.path().display();
    assert_eq!(
        warnings(IN_2021 + 3 * 86_400),
        [
            format!(
                "listeners[0].tls.cert: {folder}/a.crt expired 3 days ago, clients will not believe it"
            ),
            format!(
                "listeners[0].tls.certificates[0].cert: {folder}/b.crt expired 3 days ago, clients will not believe it"
            ),
        ]
    );
    assert_eq!(
        warnings(IN_2020 - 7_200)[0],
        format!(
            "listeners[0].tls.cert: {folder}/a.crt is not valid before 2 hours from now, clients will not believe it"
        )
    );
}

#[test]
fn a_host_finds_its_certificate_by_exact_name_before_wildcard() {
    let folder = TempDir::new().unwrap();
    let read = |name: &str, hosts: &[&str]| {
        let files = issue(folder.path(), name, hosts);
        Certificate::read(&files, &ring::default_provider()).unwrap()
    };
    let certificates = vec![
        read("first", &["first.test"]),
        read("wildcard", &["*.example.test", "Example.test"]),
        read("exact", &["api.example.test"]),
    ];
    let certified: Vec<_> = certificates
        .iter()
        .map(|certificate| Arc::clone(&certificate.certified))
        .collect();
    let by_name = ByName::new(certificates).unwrap();

    for (host, place) in [
        ("first.test", 0),
        ("example.test", 1),
        ("www.example.test", 1),
        ("API.example.test", 2),
        ("a.b.example.test", 0),
        ("test", 0),
        ("", 0),
    ] {
        assert!(
            Arc::ptr_eq(by_name.first_of(host), &certified[place]),
            "{host}"
        );
    }
}
