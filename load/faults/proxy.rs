//! A TCP proxy between gateways and Redis that misbehaves on request.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// How it treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Nothing listens, and connections that were there are closed.
    Refuse,
    /// Connections are reset, new ones as soon as they are made.
    Reset,
    /// Connections are made, and nothing passes any more.
    BlackHole,
    /// Replies come this much later.
    Delay(Duration),
    /// Of each period, replies wait for the end of its first part.
    Hiccup { part: Duration, period: Duration },
}

/// A proxy that runs for the rest of the process's life.
pub struct Proxy {
    pub address: SocketAddr,
    mode: watch::Sender<Mode>,
}

impl Proxy {
    /// Forwards to `server`.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, modes) = watch::channel(Mode::Pass);
        tokio::spawn(listen(listener, server, modes));
        Self { address, mode }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn listen(listener: TcpListener, server: SocketAddr, mut modes: watch::Receiver<Mode>) {
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    loop {
        if *modes.borrow_and_update() == Mode::Refuse {
            listener = None;
            if modes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let open = match listener.take() {
            Some(open) => open,
            None => TcpListener::bind(address).await.unwrap(),
        };
        tokio::select! {
            accepted = open.accept() => {
                if let Ok((client, _)) = accepted {
                    tokio::spawn(connection(client, server, modes.clone()));
                }
            }
            changed = modes.changed() => if changed.is_err() { return },
        }
        listener = Some(open);
    }
}

async fn connection(client: TcpStream, server: SocketAddr, mut modes: watch::Receiver<Mode>) {
    let ended = |mode: &Mode| matches!(mode, Mode::Refuse | Mode::Reset);
    client.set_nodelay(true).unwrap();
    if *modes.borrow() == Mode::Reset {
        client.set_zero_linger().unwrap();
        return;
    }
    let Ok(upstream) = TcpStream::connect(server).await else {
        return;
    };
    upstream.set_nodelay(true).unwrap();
    let began = Instant::now();
    {
        let there = copy(&client, &upstream, modes.clone(), None);
        let back = copy(&upstream, &client, modes.clone(), Some(began));
        tokio::select! {
            () = there => {}
            () = back => {}
            _ = modes.wait_for(ended) => {}
        }
    }
    if *modes.borrow() == Mode::Reset {
        client.set_zero_linger().unwrap();
    }
}

/// Copies until either end closes. Replies (`began` is when periods begin) may be late.
async fn copy(
    from: &TcpStream,
    to: &TcpStream,
    mut modes: watch::Receiver<Mode>,
    began: Option<Instant>,
) {
    let (queue, mut queued) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read_modes = modes.clone();
    let reading = async move {
        loop {
            let mut bytes = vec![0; 64 * 1024];
            if from.readable().await.is_err() {
                return;
            }
            let n = match from.try_read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            bytes.truncate(n);
            let now = Instant::now();
            let due = match (*read_modes.borrow(), began) {
                (Mode::Delay(time), Some(_)) => now + time,
                (Mode::Hiccup { part, period }, Some(began)) => {
                    let into = Duration::from_nanos(
                        (now.duration_since(began).as_nanos() % period.as_nanos()) as u64,
                    );
                    now + part.saturating_sub(into)
                }
                _ => now,
            };
            if queue.send((due, bytes)).is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, bytes)) = queued.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            // As packets that are lost on the way: they arrive when the way is open again.
            if modes
                .wait_for(|mode| *mode != Mode::BlackHole)
                .await
                .is_err()
            {
                return;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                if to.writable().await.is_err() {
                    return;
                }
                match to.try_write(rest) {
                    Ok(n) => rest = &rest[n..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}
