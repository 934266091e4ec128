//! What passes through without being held: WebSockets, server-sent events, bodies of a gigabyte.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Authority, Client, Config, Gateway, ONE_A_DAY, PATIENCE, Process, curl};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Error, Message, WebSocket};

/// Serves each connection in a thread of its own; gives the address.
fn serve(connection: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = connection.clone();
            std::thread::spawn(move || connection(stream.unwrap()));
        }
    });
    address
}

// WebSockets.

/// Echoes messages. `push` is answered by three further ones, 400 ms apart.
fn websocket_server() -> String {
    serve(|stream| {
        let Ok(mut socket) = tungstenite::accept(stream) else {
            return;
        };
        while let Ok(message) = socket.read() {
            let pushes = message == Message::text("push");
            if (message.is_text() || message.is_binary()) && socket.send(message).is_err() {
                return;
            }
            for n in 0..3 {
                if pushes {
                    std::thread::sleep(Duration::from_millis(400));
                    let _ = socket.send(Message::text(n.to_string()));
                }
            }
        }
    })
}

fn websocket(gateway: &Gateway, key: &str) -> Result<(WebSocket<TcpStream>, String), Box<Error>> {
    let stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("ws://{}/chat", gateway.address());
    let mut request = url.into_client_request().unwrap();
    request
        .headers_mut()
        .insert("X-Api-Key", key.parse().unwrap());
    match tungstenite::client(request, stream) {
        Ok((socket, answer)) => {
            let remaining = &answer.headers()["x-ratelimit-remaining"];
            Ok((socket, remaining.to_str().unwrap().to_owned()))
        }
        Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_websocket_passes_messages_both_ways_and_costs_one_token() {
    let config =
        Config::with_upstream_address(&websocket_server()).rule("shop-a", "r", 1, ONE_A_DAY);
    let gateway = Gateway::start(&config);

    let (mut socket, remaining) = websocket(&gateway, "shop-a").unwrap();
    assert_eq!(remaining, "0");
    for message in [
        Message::text("hello"),
        Message::binary(vec![7; 1_000_000]),
        Message::text("x".repeat(70_000)),
    ] {
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.send(Message::Ping(vec![1].into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(vec![1].into()));

    // A second one is over the limit, which its handshake is told.
    match *websocket(&gateway, "shop-a").err().unwrap() {
        Error::Http(answer) => {
            assert_eq!(answer.status(), 429);
            assert!(answer.headers().contains_key("retry-after"));
        }
        other => panic!("{other:?}"),
    }
    socket.send(Message::text("still here")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("still here"));
}

#[test]
fn a_websocket_client_that_only_listens_stays() {
    let config = Config::with_upstream_address(&websocket_server())
        .section("timeouts: { body: 200ms, idle: 200ms }");
    let gateway = Gateway::start(&config);

    let (mut socket, _) = websocket(&gateway, "shop-a").unwrap();
    socket.send(Message::text("push")).unwrap();
    for expected in ["push", "0", "1", "2"] {
        assert_eq!(socket.read().unwrap(), Message::text(expected));
    }
    socket.send(Message::text("hello")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("hello"));
}

// Server-sent events.

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    for tls in [false, true] {
        let (go, wait) = mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let upstream = serve(move |mut stream| {
            let mut head = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while head.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let start = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            stream.write_all(start.as_bytes()).unwrap();
            for n in 0..5 {
                if wait.lock().unwrap().recv().is_err() {
                    return;
                }
                write!(stream, "data: {n}\n\n").unwrap();
            }
        });
        let authority = Authority::new();
        let files = authority.issue("a", &["api.example.com"]);
        let mut config = Config::with_upstream_address(&upstream);
        if tls {
            config = config.listener(&format!("tls: {{ {} }}", files.yaml()));
        }
        let gateway = Gateway::start(&config);

        // By HTTP/2 over TLS, and by HTTP/1.1.
        let scheme = if tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/events", gateway.address());
        let mut client = std::process::Command::new("curl")
            .args(["-sSNk", "--max-time", "60", "-H", "X-Api-Key: shop-a", &url])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        for n in 0..5 {
            go.send(()).unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), format!("data: {n}"));
            assert_eq!(lines.next().unwrap().unwrap(), "");
        }
        assert!(lines.next().is_none());
        assert!(client.wait().unwrap().success());
    }
}

// Large bodies.

const GIGABYTE: u64 = 1 << 30;
/// How much the process may grow, in KiB.
const GROWTH: u64 = 10 * 1024;

/// Reads a body of any size and keeps none of it; answers `/give/N` with N bytes.
fn giant_server() -> String {
    serve(|stream| {
        let mut writer = stream.try_clone().unwrap();
        let mut reader = BufReader::with_capacity(256 * 1024, stream);
        loop {
            let (mut first, mut length, mut chunked) = (String::new(), 0_u64, false);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                let lower = line.trim_end().to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                chunked |= lower == "transfer-encoding: chunked";
                if first.is_empty() {
                    first = line;
                } else if lower.is_empty() {
                    break;
                }
            }
            let mut read = 0;
            while chunked {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let size = u64::from_str_radix(line.trim_end(), 16).unwrap();
                read += skip(&mut reader, size);
                reader.read_line(&mut line).unwrap();
                chunked = size > 0;
            }
            read += skip(&mut reader, length);
            let path = first.split(' ').nth(1).unwrap();
            let give = path.strip_prefix("/give/").map(|n| n.parse().unwrap());
            match give {
                None => {
                    let body = format!("{read}\n");
                    let length = body.len();
                    write!(
                        writer,
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
                    )
                    .unwrap();
                }
                Some(give) => {
                    write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {give}\r\n\r\n").unwrap();
                    std::io::copy(&mut std::io::repeat(7).take(give), &mut writer).unwrap();
                }
            }
        }
    })
}

fn skip(reader: &mut impl Read, bytes: u64) -> u64 {
    std::io::copy(&mut reader.take(bytes), &mut std::io::sink()).unwrap()
}

/// The most memory that a process has had at once, in KiB. The system counts a little behind, so that
/// it may seem to fall.
fn peak(process: &Process) -> u64 {
    let field = process.proc_status("VmHWM");
    field.trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_gigabyte_up_and_down_is_not_held_in_memory() {
    let upstream = giant_server();
    for (speaks, version) in [
        ("h2c: false", "--http1.1"),
        ("h2c: true", "--http2-prior-knowledge"),
    ] {
        let config = Config::with_upstream_address(&upstream).listener(speaks);
        let mut gateway = Gateway::start(&config);
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("body");
        let body = File::create(&file).unwrap();
        let address = gateway.address().to_owned();
        let url = |path: &str| format!("http://{address}{path}");
        let up = |bytes: u64| {
            // A hole: it takes no room on the disk.
            body.set_len(bytes).unwrap();
            let answer = curl(&[
                version,
                "--max-time",
                "300",
                "-H",
                "X-Api-Key: shop-a",
                "-H",
                "Expect:",
                "-T",
                file.to_str().unwrap(),
                &url("/take"),
            ]);
            assert_eq!(answer.unwrap().body, format!("{bytes}\n"));
        };
        let down = |bytes: u64| {
            let output = std::process::Command::new("curl")
                .args([version, "-sS", "--max-time", "300", "-o", "/dev/null"])
                .args([
                    "-H",
                    "X-Api-Key: shop-a",
                    "-w",
                    "%{http_code} %{size_download}",
                ])
                .arg(url(&format!("/give/{bytes}")))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said, format!("200 {bytes}"), "{output:?}");
        };

        // The process has its buffers then.
        up(50_000_000);
        down(50_000_000);
        let before = peak(gateway.process());
        up(GIGABYTE);
        down(GIGABYTE);
        let grown = peak(gateway.process()).saturating_sub(before);
        assert!(grown < GROWTH, "{version}: {grown} KiB more");
    }
}

#[test]
fn a_client_that_does_not_read_holds_its_upstream_back_and_fills_no_memory() {
    let config = Config::with_upstream_address(&giant_server());
    let mut gateway = Gateway::start(&config);
    gateway.get("shop-a", "/give/1000000");
    let before = peak(gateway.process());
    let mut client = Client::connect(gateway.address()).unwrap();
    let request =
        format!("GET /give/{GIGABYTE} HTTP/1.1\r\nHost: test\r\nX-Api-Key: shop-a\r\n\r\n");
    client.send(request.as_bytes()).unwrap();
    // More than enough for a gigabyte over loopback, were it taken.
    std::thread::sleep(Duration::from_secs(2));
    let grown = peak(gateway.process()).saturating_sub(before);
    assert!(grown < GROWTH, "{grown} KiB more");
}
