//! A cable between clients and a server, which a test cuts and mends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked whether the cable is cut, or the test over.
const LOOK: Duration = Duration::from_millis(2);

/// Connections to it go on to a server. While it is cut nothing arrives on either side, and nobody
/// is told; what was sent meanwhile arrives once it is mended, as on a network.
pub struct Cable {
    port: u16,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    cut: AtomicBool,
    over: AtomicBool,
}

impl Cable {
    /// A cable to the server at a port of this machine.
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let state = Arc::<State>::default();
        let of_thread = Arc::clone(&state);
        let accepting = std::thread::spawn(move || {
            let mut pumps = Vec::new();
            while !of_thread.over.load(Ordering::Relaxed) {
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(LOOK);
                    continue;
                };
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    pumps.push(pump(&client, &server, &of_thread));
                    pumps.push(pump(&server, &client, &of_thread));
                }
            }
            for pump in pumps {
                let _ = pump.join();
            }
        });
        Self {
            port,
            state,
            accepting: Some(accepting),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
    }

    pub fn mend(&self) {
        self.state.cut.store(false, Ordering::Relaxed);
    }
}

/// Carries bytes one way, until either side ends.
fn pump(from: &TcpStream, to: &TcpStream, state: &Arc<State>) -> JoinHandle<()> {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    from.set_nonblocking(false).unwrap();
    from.set_read_timeout(Some(LOOK)).unwrap();
    to.set_nodelay(true).unwrap();
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        let over = || state.over.load(Ordering::Relaxed);
        while !over() {
            let read = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            while state.cut.load(Ordering::Relaxed) && !over() {
                std::thread::sleep(LOOK);
            }
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    })
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}
