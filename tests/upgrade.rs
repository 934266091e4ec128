//! A new process in the place of the old one, by SIGUSR2: no request is lost, and a new one that
//! does not come up changes nothing.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Answer, Authority, Client, Config, Gateway, ONE_A_DAY, PATIENCE, Process, Upstream, curl_tls,
    eventually, send_signal,
};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How many upgrades a test makes: few where everything is tested, more by this variable.
fn upgrades() -> usize {
    std::env::var("AFORO_TEST_UPGRADES").map_or(3, |number| number.parse().unwrap())
}

/// A gateway and its successors, none of which outlives the test.
struct Line {
    first: Gateway,
    /// Where they meet.
    _folder: TempDir,
}

impl Line {
    fn start(config: Config) -> Self {
        Self::start_in(TempDir::new().unwrap(), config, &[])
    }

    fn start_in(folder: TempDir, config: Config, environment: &[&str]) -> Self {
        let config = config.section(&format!(
            "server: {{ threads: 2, upgrade_sock: \"{}\" }}",
            folder.path().join("upgrade.sock").display()
        ));
        let aforo = Process::aforo();
        let mut arguments = environment.to_vec();
        arguments.extend([aforo.to_str().unwrap(), "run", "-c"]);
        // It puts the gateway in its own place.
        let first = Gateway::start_program(Path::new("/usr/bin/env"), &arguments, &config);
        Self {
            first,
            _folder: folder,
        }
    }

    /// Processes that have taken over, the youngest last.
    fn successors(&self) -> Vec<u32> {
        let log = self.first.log();
        let successor = |line: &str| {
            let (_, process) = line.split_once("upgrade: process ")?;
            process.strip_suffix(" serves, this one ends")?.parse().ok()
        };
        log.lines().filter_map(successor).collect()
    }

    /// The process that serves now.
    fn current(&mut self) -> u32 {
        let first = self.first.process().id();
        self.successors().last().copied().unwrap_or(first)
    }

    /// Puts a new process in the place of the one that serves, and gives the old one's number.
    fn upgrade(&mut self) -> u32 {
        let (old, before) = (self.current(), self.successors().len());
        send_signal(old, "USR2");
        eventually("a new process serves", || self.successors().len() > before);
        old
    }

    /// Waits until a process has ended.
    fn wait_gone(&mut self, process: u32) {
        eventually("the old process ends", || {
            // The first one is a child of the test, which has to ask for it.
            let _ = self.first.process().exited();
            let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
            status.map_or(true, |status| status.contains(") Z "))
        });
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for successor in self.successors() {
            let line = format!("kill -KILL {successor} 2>/dev/null");
            let _ = Command::new("sh").args(["-c", &line]).status();
        }
    }
}

/// Whether a connection that was used before was closed before any byte of an answer: the one case
/// in which a client tries again (RFC 9112, 9.3.1).
fn closed_while_idle(error: &std::io::Error, answered: u64) -> bool {
    let closed = match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => true,
        ErrorKind::UnexpectedEof => error.to_string() == "closed without an answer",
        _ => false,
    };
    closed && answered > 0
}

/// One request after the other, on one connection as long as it lasts.
fn reuse(address: &str, stop: &AtomicBool, sent: &AtomicU64) {
    'connection: while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(address).unwrap();
        for answered in 0.. {
            match client.get("shop-a", "/x") {
                Ok(response) => assert_eq!(response.status, 200, "{response:?}"),
                Err(error) => {
                    assert!(closed_while_idle(&error, answered), "{answered}: {error}");
                    continue 'connection;
                }
            }
            sent.fetch_add(1, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Each request on a connection of its own.
fn connect_anew(address: &str, path: &str, stop: &AtomicBool, sent: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(address).unwrap();
        let response = client.get("shop-a", path).unwrap();
        assert_eq!(response.status, 200, "{response:?}");
        sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stops the clients, lest a test that fails waits for them.
struct StopsClients<'s>(&'s AtomicBool);

impl Drop for StopsClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn upgrades_under_load_lose_no_request_and_no_moment_of_readiness() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).default_rule(1_000_000, 1_000_000.0);
    let mut line = Line::start(config);
    let address = line.first.address().to_owned();
    let admin = line.first.admin_address().to_owned();
    let stop = AtomicBool::new(false);
    let sent = [(); 3].map(|()| AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Also where the test fails.
        let _stops = StopsClients(&stop);
        let clients = [
            scope.spawn(|| reuse(&address, &stop, &sent[0])),
            scope.spawn(|| connect_anew(&address, "/x", &stop, &sent[1])),
            scope.spawn(|| connect_anew(&admin, "/readyz", &stop, &sent[2])),
        ];
        for _ in 0..upgrades() {
            let before: Vec<u64> = sent
                .iter()
                .map(|sent| sent.load(Ordering::Relaxed))
                .collect();
            let old = line.upgrade();
            line.wait_gone(old);
            eventually("the load goes on", || {
                let now = sent.iter().map(|sent| sent.load(Ordering::Relaxed));
                now.zip(&before).all(|(now, before)| now > *before)
            });
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            if let Err(failed) = client.join() {
                eprintln!("{}", line.first.log());
                std::panic::resume_unwind(failed);
            }
        }
    });
    // It stops as any other.
    let last = line.current();
    send_signal(last, "TERM");
    line.wait_gone(last);
    assert!(Client::connect(&address).is_err());
}

#[test]
fn a_request_in_hand_is_answered_by_the_old_process_while_the_new_one_serves() {
    let upstream = Upstream::answering(Answer::Hold);
    let mut line = Line::start(Config::new(&upstream).default_rule(5, ONE_A_DAY));
    let mut held = line.first.connect();
    held.send(b"GET /held HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n\r\n")
        .unwrap();
    eventually("the upstream has the request", || upstream.count() == 1);
    // Accepted by the old process, and without a request so far.
    let mut fresh = line.first.connect();

    let old = line.upgrade();
    upstream.answer(Answer::Echo(Vec::new()));
    assert_eq!(line.first.get("shop-a", "/new").status, 200);
    assert_eq!(fresh.get("shop-a", "/fresh").unwrap().status, 200);
    let response = held.read_response("GET").unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.header("Connection"), Some("close"));
    line.wait_gone(old);
}

#[test]
fn streams_of_http_2_in_hand_end_in_the_old_process_while_the_new_one_shows_its_certificate() {
    let upstream = Upstream::answering(Answer::Hold);
    let authority = Authority::new();
    let host = "api.example.com";
    let files = authority.issue("a", &[host]);
    let config = Config::new(&upstream).listener(&format!("tls: {{ {} }}", files.yaml()));
    let mut line = Line::start(config);
    let address = line.first.address().to_owned();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            let arguments = ["--http2", "-H", "X-Api-Key: shop-a"];
            curl_tls(&address, host, &authority.file(), "/held", &arguments)
        });
        eventually("the upstream has the request", || upstream.count() == 1);
        // Hands are shaken with the old process, and there was no request so far.
        let mut fresh = authority.client().connect(&address, host).unwrap();

        let renewed = authority.issue("a", &[host]);
        let old = line.upgrade();
        upstream.answer(Answer::Echo(Vec::new()));
        let new = authority.client().connect(&address, host).unwrap();
        assert_eq!(new.shown(), renewed.der());
        let answer = fresh.get("shop-a", "/fresh").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let held = held.join().unwrap().unwrap();
        assert_eq!((held.version.as_str(), held.status), ("2", 200));
        line.wait_gone(old);
    });
}

#[test]
fn the_new_process_reads_the_file_anew() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).default_rule(5, ONE_A_DAY);
    let mut line = Line::start(config);
    assert_eq!(
        line.first.get("shop-a", "/x").number("X-RateLimit-Limit"),
        5
    );

    let path = line.first.config_path();
    let yaml = std::fs::read_to_string(path).unwrap();
    let yaml = yaml.replace("capacity: 5", "capacity: 6");
    line.first
        .rewrite_config_text(&yaml.replace("threads: 2", "threads: 1"));
    let old = line.upgrade();
    line.wait_gone(old);
    assert_eq!(
        line.first.get("shop-a", "/x").number("X-RateLimit-Limit"),
        6
    );
}

#[test]
fn a_new_process_that_does_not_start_leaves_the_old_one_as_it_is() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream).default_rule(5, ONE_A_DAY);
    let mut line = Line::start(config);
    let path = line.first.config_path();
    let yaml = std::fs::read_to_string(path).unwrap();
    line.first
        .rewrite_config_text(&(yaml.clone() + "surprise: 1\n"));
    let first = line.first.process().id();

    send_signal(first, "USR2");
    eventually("the log tells of its end", || {
        let log = line.first.log();
        log.contains("surprise") && log.contains("was to take over has ended: exit status: 1")
    });
    assert_eq!(line.current(), first);
    assert_eq!(line.first.get("shop-a", "/x").status, 200);
    let ready = line.first.try_admin("/readyz");
    assert_eq!(ready.map(|response| response.status), Some(200));

    // Mended, it goes on as if nothing had been.
    line.first.rewrite_config_text(&yaml);
    let old = line.upgrade();
    line.wait_gone(old);
    assert_eq!(line.first.get("shop-a", "/x").status, 200);
}

#[test]
fn systemd_is_told_who_is_ready_and_who_is_the_main_process() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify.sock");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut message = [0; 256];
        let length = systemd.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let upstream = Upstream::start();
    let socket = format!("NOTIFY_SOCKET={}", path.display());
    let mut line = Line::start_in(folder, Config::new(&upstream), &[&socket]);
    assert_eq!(told(), "READY=1");

    let old = line.upgrade();
    assert_eq!(told(), format!("MAINPID={}", line.current()));
    assert_eq!(told(), "READY=1");
    line.wait_gone(old);
    send_signal(line.current(), "TERM");
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn there_is_nothing_to_take_over_where_nobody_serves() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("aforo.yaml");
    let run = |server: &str| {
        let config = Config::with_upstream_address("127.0.0.1:9000").section(server);
        let yaml = config
            .yaml()
            .replace("{listen}", &format!("127.0.0.1:{}", harness::free_port()))
            .replace("{admin}", &format!("127.0.0.1:{}", harness::free_port()));
        std::fs::write(&path, yaml).unwrap();
        let file = path.to_str().unwrap();
        let (process, status) = Process::run_aforo(&["run", "-c", file, "--upgrade"]);
        (status.code(), process.stderr())
    };

    let (code, said) = run("server: { threads: 1 }");
    assert_eq!(code, Some(3));
    assert!(
        said.contains("--upgrade needs server.upgrade_sock"),
        "{said}"
    );
    let socket = folder.path().join("upgrade.sock");
    let (code, said) = run(&format!(
        "server: {{ threads: 1, upgrade_sock: \"{}\" }}",
        socket.display()
    ));
    assert_eq!(code, Some(3));
    assert!(
        said.contains("cannot take over from a running process"),
        "{said}"
    );
}

#[test]
fn sigusr2_without_a_socket_to_meet_at_changes_nothing() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&Config::new(&upstream));

    gateway.signal("USR2");
    eventually("the log says why", || {
        gateway.log().contains("server.upgrade_sock is not set")
    });
    assert_eq!(gateway.get("shop-a", "/x").status, 200);
    gateway.signal("TERM");
    assert!(gateway.wait_exit(Duration::from_secs(5)).success());
}
