//! A client that sends each request when it is due, on connections that stay open.
//!
//! wrk waits for an answer before it asks again on a connection, so that it asks less of whoever is
//! slow and leaves out what would have waited (coordinated omission): its percentiles cannot say
//! what a limiter adds. h2load has a rate, but counts from the moment of sending.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::kit::open_loop;
use crate::kit::zipf::Zipf;

/// A request that is due.
struct Due {
    at: Instant,
    tenant: u32,
}

/// Connections to all gateways.
pub struct Client {
    runtime: Runtime,
    connections: Vec<mpsc::UnboundedSender<Due>>,
    answers: Arc<Mutex<Vec<f64>>>,
    tenants: Zipf,
}

impl Client {
    pub fn connect(gateways: &[SocketAddr], each: usize, tenants: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let answers: Arc<Mutex<Vec<f64>>> = Arc::default();
        let mut connections = Vec::new();
        for _ in 0..each {
            for gateway in gateways {
                let stream = runtime.block_on(TcpStream::connect(gateway)).unwrap();
                stream.set_nodelay(true).unwrap();
                let (sender, requests) = mpsc::unbounded_channel();
                connections.push(sender);
                runtime.spawn(serve(stream, requests, Arc::clone(&answers)));
            }
        }
        Self {
            runtime,
            connections,
            answers,
            tenants: Zipf::new(tenants, 1.0),
        }
    }

    /// Sends so many requests as fast as they are answered; how many that were a second.
    pub fn flood(&self, count: usize) -> f64 {
        let began = Instant::now();
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..count {
            let tenant = self.tenants.pick(&mut random) as u32;
            let due = Due { at: began, tenant };
            self.connections[number % self.connections.len()]
                .send(due)
                .unwrap();
        }
        self.await_answers(count);
        count as f64 / began.elapsed().as_secs_f64()
    }

    /// Sends requests by chance at this rate, each on any connection; how long each took, in ms.
    pub fn send(&self, random: &mut fastrand::Rng, rate: f64, time: Duration) -> Vec<f64> {
        let moments = open_loop::moments(random, rate, time);
        let picks: Vec<(usize, u32)> = moments
            .iter()
            .map(|_| {
                let connection = random.usize(0..self.connections.len());
                (connection, self.tenants.pick(random) as u32)
            })
            .collect();
        let began = Instant::now();
        open_loop::run(&moments, began, |due| {
            for number in due {
                let (connection, tenant) = picks[number];
                let at = began + Duration::from_nanos(moments[number]);
                self.connections[connection]
                    .send(Due { at, tenant })
                    .unwrap();
            }
        });
        self.await_answers(moments.len())
    }

    fn await_answers(&self, count: usize) -> Vec<f64> {
        let patience = Instant::now() + Duration::from_secs(60);
        while self.answers.lock().len() < count {
            assert!(Instant::now() < patience, "answers are missing");
            assert!(self.runtime.metrics().num_alive_tasks() == self.connections.len());
            std::thread::sleep(Duration::from_millis(2));
        }
        std::mem::take(&mut *self.answers.lock())
    }
}

/// One connection: one request after the other, however many are due.
async fn serve(
    mut stream: TcpStream,
    mut requests: mpsc::UnboundedReceiver<Due>,
    answers: Arc<Mutex<Vec<f64>>>,
) {
    let mut buffer = Vec::with_capacity(4096);
    while let Some(due) = requests.recv().await {
        let tenant = due.tenant;
        let request =
            format!("GET /x HTTP/1.1\r\nHost: x\r\nX-Api-Key: tenant-{tenant:06}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        buffer.clear();
        while !is_complete(&buffer) {
            let read = stream.read_buf(&mut buffer).await.unwrap();
            assert!(read > 0, "a gateway closed the connection");
        }
        let ok = buffer.starts_with(b"HTTP/1.1 200");
        assert!(ok, "{}", String::from_utf8_lossy(&buffer));
        answers.lock().push(due.at.elapsed().as_secs_f64() * 1e3);
    }
}

/// Whether head and body are there. The upstream's body is three bytes long.
fn is_complete(buffer: &[u8]) -> bool {
    buffer.ends_with(b"\r\n\r\nok\n")
}
