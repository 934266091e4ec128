//! Peers that everybody has: nginx behind the gateway, h2load in front of it.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Authority, Config, Gateway, ONE_A_DAY, Process, curl_tls, eventually, free_port};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// An nginx of the test's own, and where it listens.
fn nginx() -> (Process, String) {
    for _ in 0..5 {
        let folder = TempDir::new().unwrap();
        let port = free_port();
        let path = folder.path().display().to_string();
        let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("  {kind}_temp_path {path}/{kind};\n"))
            .collect();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {path}/pid;\nerror_log {path}/error.log;\n\
             events {{}}\nhttp {{\n  access_log off;\n{places}\
             server {{ listen 127.0.0.1:{port};\n\
             location / {{ default_type text/plain; return 200 \"$http_x_forwarded_proto\\n\"; }} }}\n}}\n"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, config).unwrap();
        let file = file.to_str().unwrap().to_owned();
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .unwrap_or("nginx");
        let mut nginx = Process::spawn(Path::new(program), &["-c", &file], folder);
        let address = format!("127.0.0.1:{port}");
        let mut ended = false;
        eventually("nginx listens, or has ended", || {
            ended = nginx.exited().is_some();
            ended || TcpStream::connect(&address).is_ok()
        });
        if !ended {
            return (nginx, address);
        }
        assert!(
            nginx.stderr().contains("Address already in use"),
            "{}",
            nginx.stderr()
        );
    }
    panic!("no free port for nginx");
}

/// What h2load says of requests at an address: how many succeeded, and how many got 2xx and 4xx.
fn h2load(arguments: &[&str], url: &str) -> [u64; 3] {
    let output = Command::new("h2load")
        .args(["-c", "10", "-m", "10", "-t", "1"])
        .args(arguments)
        .arg(url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: &str, behind: &str| {
        let line = text.lines().find(|found| found.starts_with(line));
        let words: Vec<&str> = line
            .unwrap_or_else(|| panic!("{text}"))
            .split(' ')
            .collect();
        let place = words
            .iter()
            .position(|word| word.trim_end_matches(',') == behind);
        words[place.unwrap() - 1].parse().unwrap()
    };
    [
        number("requests:", "succeeded"),
        number("status codes:", "2xx"),
        number("status codes:", "4xx"),
    ]
}

#[test]
fn h2load_is_answered_over_tls_and_without_and_limited_exactly() {
    let (_nginx, upstream) = nginx();
    let authority = Authority::new();
    let files = authority.issue("a", &["localhost"]);
    for listener in [
        format!("tls: {{ {} }}", files.yaml()),
        "h2c: true".to_owned(),
    ] {
        let config = Config::with_upstream_address(&upstream)
            .listener(&listener)
            .rule("free", "r", 1_000_000, 1.0)
            .rule("limited", "r", 700, ONE_A_DAY);
        let gateway = Gateway::start(&config);
        let scheme = if listener.starts_with("tls") {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{}/x", gateway.address());

        let free = h2load(&["-n", "3000", "-H", "X-Api-Key: free"], &url);
        assert_eq!(free, [3000, 3000, 0]);
        let limited = h2load(&["-n", "2000", "-H", "X-Api-Key: limited"], &url);
        // h2load counts an answer of 4xx as failed.
        assert_eq!(limited[1..], [700, 1300], "{limited:?}");
        let allowed = gateway.metric("aforo_requests_total{route=\"r\",outcome=\"allowed\"}");
        assert_eq!(allowed, 3700.0);
    }
}

#[test]
fn nginx_behind_it_hears_how_the_client_came() {
    let (_nginx, upstream) = nginx();
    let authority = Authority::new();
    let files = authority.issue("a", &["api.example.com"]);
    let config =
        Config::with_upstream_address(&upstream).listener(&format!("tls: {{ {} }}", files.yaml()));
    let gateway = Gateway::start(&config);

    for version in ["--http1.1", "--http2"] {
        let answer = curl_tls(
            gateway.address(),
            "api.example.com",
            &authority.file(),
            "/x",
            &[version, "-H", "X-Api-Key: shop-a"],
        );
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "https\n"));
    }
}
