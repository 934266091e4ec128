//! Signals: HUP reloads, USR2 starts a successor, TERM, INT and QUIT stop, a second of those stops
//! at once.
//!
//! They are caught from the first moment of a gateway's life on, for the default of most is to
//! kill. Until there is something to reload, a HUP is kept for later. Reloads have a thread of
//! their own: one that hangs, on a name that does not resolve, does not make the process deaf.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;

/// What a process does when it is told to.
pub trait Handler: Send + Sync + 'static {
    /// The configuration is to be read again.
    fn reload(&self);
    /// A new process is to take over. Returns soon.
    fn upgrade(&self);
    /// The process is to end, in order. Returns soon; called once.
    fn stop(&self);
}

/// Signals that are caught and wait for somebody to act on them.
pub struct Caught {
    state: Arc<Mutex<State>>,
    /// Taken by the thread that reloads. Holds one HUP: what came meanwhile is served by one
    /// reload.
    reloads: Receiver<()>,
}

#[derive(Default)]
struct State {
    handler: Option<Arc<dyn Handler>>,
    stopping: bool,
}

impl Caught {
    /// Catches signals from now on.
    ///
    /// # Errors
    ///
    /// Where the system does not let us.
    pub fn install() -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGUSR2, SIGTERM, SIGINT, SIGQUIT])?;
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let (reload, reloads) = mpsc::sync_channel(1);
        thread::Builder::new()
            .name("aforo-signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if signal == SIGHUP {
                        // Full: a reload that has not begun yet will see the same file.
                        let _ = reload.try_send(());
                    } else if signal == SIGUSR2 {
                        upgrade(&shared);
                    } else {
                        stop(&shared);
                    }
                }
            })?;
        Ok(Self { state, reloads })
    }

    /// Lets `handler` act from now on, also on a HUP that came before.
    ///
    /// # Errors
    ///
    /// Where there can be no thread to reload in.
    pub fn handle_with(self, handler: Arc<dyn Handler>) -> io::Result<()> {
        self.state.lock().handler = Some(Arc::clone(&handler));
        thread::Builder::new()
            .name("aforo-reload".to_owned())
            .spawn(move || {
                while self.reloads.recv().is_ok() {
                    handler.reload();
                }
            })?;
        Ok(())
    }
}

/// Before there is a handler there is nothing that could be taken over.
fn upgrade(shared: &Mutex<State>) {
    let state = shared.lock();
    let handler = state.handler.clone().filter(|_| !state.stopping);
    drop(state);
    if let Some(handler) = handler {
        handler.upgrade();
    }
}

fn stop(shared: &Mutex<State>) {
    let mut state = shared.lock();
    let second = std::mem::replace(&mut state.stopping, true);
    match state.handler.clone() {
        Some(handler) if !second => {
            drop(state);
            handler.stop();
        }
        // Asked twice, or nothing has begun that would have to end in order.
        _ => process::exit(0),
    }
}
