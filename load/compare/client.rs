//! An open loop: requests are sent when they are due, whether or not earlier ones were answered,
//! as those of many independent clients are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// After this a request counts as broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests of one tenant to one proxy, evenly spread over time.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub tenant: &'static str,
    pub proxy: SocketAddr,
    /// Requests a second.
    pub rate: f64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub tenant: &'static str,
    /// When it was due, from the beginning of the load.
    pub due: Duration,
    /// From then until the answer was complete.
    pub took: Duration,
    /// 0: there was none.
    pub status: u16,
}

/// Sends all flows for so long, and gives what came back, in the order in which it was due.
pub async fn send(flows: &[Flow], time: Duration) -> Vec<Answer> {
    let (answers, mut received) = mpsc::unbounded_channel();
    let began = Instant::now();
    let mut senders = JoinSet::new();
    for (number, flow) in flows.iter().enumerate() {
        // Not all flows at the same moments.
        let offset = number as f64 / flows.len() as f64;
        senders.spawn(pace(*flow, offset, began, time, answers.clone()));
    }
    drop(answers);
    senders.join_all().await;
    let mut all = Vec::new();
    while let Some(answer) = received.recv().await {
        all.push(answer);
    }
    all.sort_by_key(|answer: &Answer| answer.due);
    all
}

async fn pace(
    flow: Flow,
    offset: f64,
    began: Instant,
    time: Duration,
    answers: mpsc::UnboundedSender<Answer>,
) {
    let request = format!(
        "GET /x HTTP/1.1\r\nHost: example.com\r\nX-Api-Key: {}\r\n\r\n",
        flow.tenant
    );
    let request: Arc<[u8]> = request.into_bytes().into();
    let idle: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    for turn in 0.. {
        let due = Duration::from_secs_f64((f64::from(turn) + offset) / flow.rate);
        if due >= time {
            return;
        }
        sleep_until(began + due).await;
        let (request, idle, answers) = (Arc::clone(&request), Arc::clone(&idle), answers.clone());
        tokio::spawn(async move {
            let status = timeout(PATIENCE, ask(flow.proxy, &request, &idle)).await;
            let answer = Answer {
                tenant: flow.tenant,
                due,
                took: began.elapsed().saturating_sub(due),
                status: status.ok().and_then(Result::ok).unwrap_or(0),
            };
            // The receiver is there until all senders are gone.
            let _ = answers.send(answer);
        });
    }
}

/// Asks over a connection that waits for a request, or else a new one.
async fn ask(
    proxy: SocketAddr,
    request: &[u8],
    idle: &Mutex<Vec<TcpStream>>,
) -> std::io::Result<u16> {
    let waiting = idle.lock().pop();
    let mut stream = match waiting {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(proxy).await?;
            stream.set_nodelay(true)?;
            stream
        }
    };
    stream.write_all(request).await?;
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(answer) = complete(&bytes) {
            if answer.keep {
                idle.lock().push(stream);
            }
            return Ok(answer.status);
        }
    }
}

struct Complete {
    status: u16,
    keep: bool,
}

/// What a response says, once it is all there. Its length is declared, or its chunks end.
fn complete(bytes: &[u8]) -> Option<Complete> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let (mut length, mut chunked, mut keep) = (0, false, true);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            keep = !value.eq_ignore_ascii_case("close");
        }
    }
    let done = match chunked {
        true => body.ends_with("0\r\n\r\n"),
        false => body.len() >= length,
    };
    done.then_some(Complete { status, keep })
}
