//! The listening sockets of this process: bound before anything runs, so that a port that is taken
//! is known at once, or taken over from the process that ran before.
//!
//! Pingora gets a copy of each. Ours are there to be handed on to the next process, and are closed
//! when this one stops: a port is listened on until its last copy is gone.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use rustix::net::sockopt::{set_socket_reuseaddr, socket_acceptconn};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use thiserror::Error;
use tracing::error;

use crate::lifecycle::Lifecycle;

/// How often it is looked whether another service listens.
const LISTENING_POLL: Duration = Duration::from_millis(1);

/// A listening socket and its address, as the configuration has it.
pub type Socket = (SocketAddr, OwnedFd);

/// An address that cannot be listened on.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {error}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What the system says.
    pub error: io::Error,
}

/// The listening sockets, until they are closed.
pub struct Sockets(Mutex<Vec<Socket>>);

impl Sockets {
    /// A socket for each of these addresses: the one that was `inherited`, or a new one, which
    /// takes no connection before it is served. What is inherited and not wanted is closed.
    ///
    /// # Errors
    ///
    /// The first address that is taken, or may not be bound.
    pub fn bind(
        addresses: impl IntoIterator<Item = SocketAddr>,
        mut inherited: Vec<Socket>,
    ) -> Result<Self, BindError> {
        addresses
            .into_iter()
            .map(
                |address| match inherited.iter().position(|(theirs, _)| *theirs == address) {
                    Some(place) => Ok(inherited.swap_remove(place)),
                    None => bound(address)
                        .map(|socket| (address, socket))
                        .map_err(|error| BindError { address, error }),
                },
            )
            .collect::<Result<_, _>>()
            .map(|sockets| Self(Mutex::new(sockets)))
    }

    /// Whether all of these are listened on.
    pub fn listen(&self, addresses: &[SocketAddr]) -> bool {
        let sockets = self.0.lock();
        let mut ours = sockets
            .iter()
            .filter(|(address, _)| addresses.contains(address));
        ours.all(|(_, socket)| socket_acceptconn(socket).unwrap_or(false))
    }

    /// Copies of all, to be handed on.
    ///
    /// # Errors
    ///
    /// Where the process has too many files open.
    pub fn copies(&self) -> io::Result<Vec<Socket>> {
        let sockets = self.0.lock();
        let copy = |(address, socket): &Socket| Ok((*address, socket.try_clone()?));
        sockets.iter().map(copy).collect()
    }

    /// Gives ours away. What was handed on stays open.
    pub fn close(&self) {
        self.0.lock().clear();
    }

    /// Puts copies where Pingora looks before it binds a socket itself.
    fn lay_out(&self, fds: &ListenFds) -> io::Result<()> {
        for (address, socket) in self.copies()? {
            let mut fds = fds.lock();
            if fds.get(&address.to_string()).is_none() {
                fds.add(address.to_string(), socket.into_raw_fd());
            }
        }
        Ok(())
    }
}

/// As Pingora would bind it. It does not listen yet: until its service is up, connections are
/// refused, and go elsewhere.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// A service of Pingora's that listens on our sockets.
pub struct OnSockets<S> {
    /// The service.
    pub service: S,
    /// The sockets of all services.
    pub sockets: Arc<Sockets>,
    /// Whose listening this one waits for, if it does: the admin listener of a process that takes
    /// over must not say that it is not ready, while the one before is.
    pub after: Option<Arc<Lifecycle>>,
}

#[async_trait]
impl<S: Service + 'static> Service for OnSockets<S> {
    async fn start_service(
        &mut self,
        fds: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
    ) {
        let _listens = Listens;
        while let Some(first) = &self.after
            && !first.is_listening()
        {
            tokio::time::sleep(LISTENING_POLL).await;
        }
        if let Some(Err(error)) = fds.as_ref().map(|fds| self.sockets.lay_out(fds)) {
            error!("cannot copy the listening sockets: {error}");
            std::process::exit(3);
        }
        self.service
            .start_service(fds, shutdown, listeners_per_fd)
            .await;
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        self.service.threads()
    }
}

/// Ends the process where the listeners cannot be opened after all: Pingora panics then, and a
/// process that goes on without them helps nobody.
struct Listens;

impl Drop for Listens {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(3);
        }
    }
}
