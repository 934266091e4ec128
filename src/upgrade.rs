//! A new process in the place of this one: SIGUSR2 starts the binary that is on disk now, which
//! takes the listening sockets over while this one goes on serving.
//!
//! The two talk over a Unix socket, `server.upgrade_sock`, at which a running process listens. The
//! new one asks, gets copies of the sockets, and says when it serves; only then does the old one
//! accept no more, and ends when its requests have. Nothing is closed in between, so that no
//! connection is refused, and a new process that does not come up leaves everything as it was. This
//! is not Pingora's own upgrade: there the old process ends whether or not the new one has begun.

mod wire;

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use thiserror::Error;
use tracing::{error, info, warn};

use crate::sockets::{Socket, Sockets};
use crate::stop::Stopper;
use crate::systemd;

#[cfg(test)]
mod tests;

/// What the new process begins with. A later version of what follows would begin otherwise.
const HELLO: &str = "aforo upgrade 1";
/// The new process serves.
const READY: &str = "ready";
/// The old one does not accept any more.
const YOURS: &str = "yours";
/// The old one goes on, and wants nothing more of the new one.
const NO: &str = "no";

/// How long each side may take to say what it says at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How long the new process may take from the sockets to being ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Why the listeners cannot be taken over.
#[derive(Debug, Error)]
pub enum UpgradeError {
    /// There is no place where the two processes could meet.
    #[error("--upgrade needs server.upgrade_sock, at which the running process is asked")]
    NoSocket,
    /// Nobody can be asked.
    #[error("cannot take over from a running process at {}: {error}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process is there already.
    #[error("a running process listens at {}, see --upgrade", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// No socket can be made.
    #[error("cannot listen at {} (server.upgrade_sock): {error}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The running process has changed its mind.
    #[error("the running process goes on, and does not hand over")]
    Refused,
}

/// What happens once the listeners are open: the process that ran before is told, then systemd, and
/// the next process may ask.
pub struct Succession {
    /// The process that ran before, where there is one.
    pub take_over: Option<TakeOver>,
    /// Where the next one asks, if anywhere.
    pub meeting: Option<Meeting>,
    /// What it gets.
    pub sockets: Arc<Sockets>,
    /// What ends this process then.
    pub stopper: Arc<Stopper>,
    /// Called once this process is the one that serves.
    pub then: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Succession {
    /// Begins it, in a thread of its own: each step waits for somebody.
    pub fn begin(self) {
        let named = thread::Builder::new().name("aforo-upgrade".to_owned());
        if let Err(error) = named.spawn(move || self.run()) {
            error!("cannot start a thread, no upgrade will be possible: {error}");
            systemd::ready();
        }
    }

    fn run(self) {
        if let Some(Err(error)) = self.take_over.map(TakeOver::finish) {
            error!("{error}");
            process::exit(3);
        }
        systemd::ready();
        if let Some(then) = self.then {
            then();
        }
        if let Some(meeting) = self.meeting {
            meeting.serve(&self.sockets, &self.stopper);
        }
    }
}

/// How this process was started, so that it can be started anew.
#[derive(Clone, Debug)]
pub struct Program {
    /// The binary's path. What is there when it is started may be another one.
    pub path: PathBuf,
    /// Its arguments, without `--upgrade`.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// The process that this is.
    ///
    /// # Errors
    ///
    /// Where the system does not tell the binary's path.
    pub fn current() -> io::Result<Self> {
        let arguments = std::env::args_os().skip(1);
        Ok(Self {
            path: std::env::current_exe()?,
            arguments: arguments.filter(|text| text != "--upgrade").collect(),
        })
    }
}

/// The new process's side: the sockets of the old one, which serves as long as this is not done.
pub struct TakeOver(UnixStream);

impl TakeOver {
    /// Asks the process at `path` for its sockets.
    ///
    /// # Errors
    ///
    /// Where there is none, or it does not give them.
    pub fn begin(path: &Path) -> Result<(Self, Vec<Socket>), UpgradeError> {
        let ask = || -> io::Result<(UnixStream, Vec<Socket>)> {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(AT_ONCE))?;
            stream.set_write_timeout(Some(AT_ONCE))?;
            wire::say(&stream, HELLO)?;
            let sockets = wire::receive(&stream)?;
            Ok((stream, sockets))
        };
        match ask() {
            Ok((stream, sockets)) => Ok((Self(stream), sockets)),
            Err(error) => Err(UpgradeError::Unreachable {
                path: path.to_owned(),
                error,
            }),
        }
    }

    /// Says that this process serves, and waits until the old one accepts no more.
    ///
    /// # Errors
    ///
    /// Where the old one does not want to go: it has waited for too long.
    pub fn finish(self) -> Result<(), UpgradeError> {
        let answer = wire::say(&self.0, READY).and_then(|()| wire::hear(&self.0));
        match answer {
            Ok(Some(word)) if word == NO => Err(UpgradeError::Refused),
            // It is ending, or it is gone: somebody has to serve in either case.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// A place where the next process can ask, made before this one is sure to run.
pub struct Meeting {
    listener: UnixListener,
    /// Where it is for now.
    aside: PathBuf,
    path: PathBuf,
}

impl Meeting {
    /// Makes a socket that will be at `path`. Only the same user, and root, may connect to it.
    ///
    /// # Errors
    ///
    /// Where there can be none.
    pub fn prepare(path: &Path) -> Result<Self, UpgradeError> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".{}", process::id()));
        let aside = PathBuf::from(aside);
        let bind = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind(&aside)?;
            fs::set_permissions(&aside, Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        match bind() {
            Ok(listener) => Ok(Self {
                listener,
                aside,
                path: path.to_owned(),
            }),
            Err(error) => Err(UpgradeError::Bind {
                path: path.to_owned(),
                error,
            }),
        }
    }

    /// Makes sure that no other process is at the place already.
    ///
    /// # Errors
    ///
    /// Where there is one.
    pub fn is_free(&self) -> Result<(), UpgradeError> {
        match UnixStream::connect(&self.path) {
            Ok(_) => Err(UpgradeError::Taken {
                path: self.path.clone(),
            }),
            Err(_) => Ok(()),
        }
    }

    /// From now on the next process finds this one, in the place of whichever was there. Serves
    /// it; does not return.
    pub fn serve(self, sockets: &Sockets, stopper: &Arc<Stopper>) {
        if let Err(error) = fs::rename(&self.aside, &self.path) {
            let path = self.path.display();
            error!("no upgrade of this process will be possible: renaming to {path}: {error}");
            return;
        }
        for stream in self.listener.incoming() {
            let handed = stream.and_then(|stream| hand_over(&stream, sockets, stopper));
            if let Err(error) = handed {
                error!("upgrade failed, this process goes on: {error}");
            }
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // Gone already where it was renamed.
        let _ = fs::remove_file(&self.aside);
    }
}

/// The old process's side of one upgrade.
fn hand_over(stream: &UnixStream, sockets: &Sockets, stopper: &Arc<Stopper>) -> io::Result<()> {
    let peer = socket_peercred(stream)?;
    if peer.uid != geteuid() && !peer.uid.is_root() {
        return Err(io::Error::other("it was asked for by another user"));
    }
    stream.set_read_timeout(Some(AT_ONCE))?;
    stream.set_write_timeout(Some(AT_ONCE))?;
    match wire::hear(stream)? {
        Some(word) if word == HELLO => {}
        // Whoever looks whether somebody is here.
        None => return Ok(()),
        Some(_) => return Err(io::Error::other("it was asked for in another way")),
    }
    if stopper.is_stopping() {
        return Err(io::Error::other("it ends already"));
    }
    let next = peer.pid.as_raw_nonzero();
    info!("upgrade: process {next} gets the listening sockets");
    wire::send(stream, &sockets.copies()?)?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    match wire::hear(stream) {
        Ok(Some(word)) if word == READY => {}
        Ok(_) => return Err(io::Error::other(format!("process {next} has given up"))),
        Err(error) => {
            // Whether it hears that does not matter: it is not waited for any more.
            let _ = wire::say(stream, NO);
            let why = format!("process {next} was not ready within {READY_WITHIN:?}: {error}");
            return Err(io::Error::other(why));
        }
    }
    systemd::main_process_is(next.get());
    info!("upgrade: process {next} serves, this one ends");
    Arc::clone(stopper).hand_over();
    // Where it is gone in this very moment, it is started anew by whoever looks after it.
    let _ = wire::say(stream, YOURS);
    Ok(())
}

/// Starts the next process. It asks for the sockets by itself.
pub fn start_next(program: &Program, path: Option<&Path>) {
    if path.is_none() {
        error!("not upgraded: server.upgrade_sock is not set");
        return;
    }
    if process::id() == 1 {
        error!("not upgraded: the container would end with this process; start a new container");
        return;
    }
    let next = Command::new(&program.path)
        .args(&program.arguments)
        .arg("--upgrade")
        .stdin(Stdio::null())
        .spawn();
    let mut next = match next {
        Ok(next) => next,
        Err(error) => {
            let path = program.path.display();
            error!("upgrade failed, this process goes on: starting {path}: {error}");
            return;
        }
    };
    info!("upgrade: process {} started", next.id());
    let watch = thread::Builder::new().name("aforo-next".to_owned());
    // Where it is waited for it leaves no zombie; without that it does.
    let watched = watch.spawn(move || match next.wait() {
        Ok(status) => warn!("the process that was to take over has ended: {status}"),
        Err(error) => warn!("the process that was to take over is not heard of: {error}"),
    });
    if let Err(error) = watched {
        warn!("the process that is to take over is not watched: {error}");
    }
}
