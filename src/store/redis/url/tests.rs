use super::*;

fn place(url: &str) -> Place {
    Place::parse(url).unwrap_or_else(|problem| panic!("{url}: {problem}"))
}

fn hosts(url: &str) -> Vec<String> {
    place(url).hosts.iter().map(Address::to_string).collect()
}

#[test]
fn each_kind_has_a_scheme_and_each_scheme_one_with_tls() {
    for (url, kind, shown) in [
        ("redis://h", Kind::Standalone, "h:6379"),
        (
            "redis+cluster://h,i:2",
            Kind::Cluster,
            "h:6379,i:2 (cluster)",
        ),
        (
            "redis+sentinel://h,i:2/main",
            Kind::Sentinel {
                master: "main".to_owned(),
            },
            "h:26379,i:2 (primary of main)",
        ),
    ] {
        let plain = place(url);
        assert_eq!((&plain.kind, plain.tls), (&kind, false), "{url}");
        assert_eq!(plain.to_string(), shown);
        let tls = place(&url.replacen("redis", "rediss", 1));
        assert_eq!((&tls.kind, tls.tls), (&kind, true), "{url}");
        assert_eq!(tls.to_string(), format!("{shown}, TLS"));
    }
}

#[test]
fn user_password_and_database_are_read_and_never_shown() {
    let full = place("redis://me:p%40s%2Fs@h:1/3");
    assert_eq!(full.username.as_deref(), Some("me"));
    assert_eq!(full.password.as_deref(), Some("p@s/s"));
    assert_eq!(full.database, 3);
    let alone = place("redis+sentinel://:hunter2@h/m/4");
    assert_eq!((alone.username, alone.database), (None, 4));
    for shown in [format!("{full}"), format!("{full:?}")] {
        assert!(!shown.contains("me:") && !shown.contains("p@s"), "{shown}");
    }
    assert_eq!(place("redis://h/").database, 0);
    assert_eq!(place("redis+cluster://h/0").database, 0);
}

#[test]
fn addresses_of_ipv6_are_read_with_brackets_and_as_a_cluster_writes_them() {
    assert_eq!(hosts("redis://[::1]:7/1"), ["[::1]:7"]);
    assert_eq!(hosts("redis+cluster://[::1],a:1"), ["[::1]:6379", "a:1"]);
    let bare = Address::parse("fd00::7:6380", None).expect("an address");
    assert_eq!((bare.host.as_str(), bare.port), ("fd00::7", 6380));
    assert_eq!(Address::parse("h", None), None);
}

#[test]
fn what_cannot_be_meant_is_named() {
    use UrlProblem::*;
    for (url, expected) in [
        ("h:1", NoUrl),
        ("unix:///s", Scheme(Some("unix".to_owned()))),
        ("redis+x://h", Scheme(Some("redis+x".to_owned()))),
        ("p@ss://h", Scheme(None)),
        ("redis://h?x", Query),
        ("redis://u:p#w@h", Query),
        ("redis://h/-1", NegativeDatabase),
        ("redis+sentinel://h/m/-1", NegativeDatabase),
        ("redis+cluster://h/1", ClusterDatabase),
        ("redis+sentinel://h", NoMaster),
        ("redis+sentinel://h//1", NoMaster),
        ("redis://h,i", SeveralHosts),
        ("redis://", Unreadable),
        ("redis+cluster://h,", Unreadable),
        ("redis://h:0", Unreadable),
        ("redis://h:70000", Unreadable),
        ("redis://u:p/w@h", Unreadable),
        ("redis://u:%ff@h", Unreadable),
        ("redis://h/a", Unreadable),
    ] {
        assert_eq!(Place::parse(url), Err(expected), "{url}");
    }
}
