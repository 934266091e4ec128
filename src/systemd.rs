//! What systemd is told of this process (sd_notify(3)): that it is ready, that it stops, and which
//! process is the main one now. Without `Type=notify` nobody listens, and nothing is said.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Says that the listeners are open.
pub fn ready() {
    notify("READY=1");
}

/// Says that the process is going to end.
pub fn stopping() {
    notify("STOPPING=1");
}

/// Says that from now on another process is the one to look after.
pub fn main_process_is(process: i32) {
    notify(&format!("MAINPID={process}"));
}

fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return;
    };
    let send = || -> io::Result<()> {
        let bytes = path.as_encoded_bytes();
        let address = match bytes.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(state.as_bytes(), &address)?;
        Ok(())
    };
    if let Err(error) = send() {
        warn!("systemd is not told {state}: {error}");
    }
}
