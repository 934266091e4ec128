//! The service behind the gateway: answers with what it was asked, and remembers it.

use super::http1::{Reader, values};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How it answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// 200 with these further headers, the request as its body.
    Echo(Vec<(&'static str, &'static str)>),
    /// Not before another answer is set.
    Hold,
    /// Closes the connection instead.
    Close,
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    /// The values of a header, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        values(&self.headers, name)
    }
}

pub struct Upstream {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Mutex<Answer>,
    seen: Mutex<Vec<Seen>>,
    stopped: AtomicBool,
}

impl Upstream {
    pub fn start() -> Self {
        Self::answering(Answer::Echo(Vec::new()))
    }

    pub fn answering(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            answer: Mutex::new(answer),
            seen: Mutex::new(Vec::new()),
            stopped: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let shared = accepting.clone();
                // An error is a connection that the gateway closed.
                std::thread::spawn(move || stream.and_then(|stream| shared.serve(stream)));
            }
        });
        Self { address, shared }
    }

    /// Where it listens, as `127.0.0.1:9000`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers otherwise from now on, those included that are held.
    pub fn answer(&self, answer: Answer) {
        *self.shared.answer.lock().unwrap() = answer;
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    /// The only request so far.
    #[track_caller]
    pub fn only(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    /// Paths and queries, in the order of their arrival.
    pub fn targets(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.target).collect()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; it may be gone.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = Reader::new(stream);
        while let Some(head) = reader.head()? {
            let body = reader.body(&head, false)?;
            let mut words = head.first_line.split(' ');
            let seen = Seen {
                method: words.next().unwrap_or_default().to_owned(),
                target: words.next().unwrap_or_default().to_owned(),
                headers: head.headers,
                body,
            };
            self.seen.lock().unwrap().push(seen.clone());
            let Some(headers) = self.wait_for_headers() else {
                return Ok(());
            };
            writer.write_all(&echo(&seen, &headers))?;
        }
        Ok(())
    }

    /// The headers to answer with, once it is to be answered; `None` where it is not.
    fn wait_for_headers(&self) -> Option<Vec<(&'static str, &'static str)>> {
        while !self.stopped.load(Ordering::Relaxed) {
            match self.answer.lock().unwrap().clone() {
                Answer::Echo(headers) => return Some(headers),
                Answer::Close => return None,
                Answer::Hold => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

fn echo(seen: &Seen, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut body = format!("{} {}\n", seen.method, seen.target);
    for (name, value) in &seen.headers {
        body += &format!("{name}: {value}\n");
    }
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        answer += &format!("{name}: {value}\r\n");
    }
    answer += "\r\n";
    if seen.method != "HEAD" {
        answer += &body;
    }
    answer.into_bytes()
}
