//! Signals: HUP reloads, TERM, INT and QUIT stop, a second of those stops at once.
//!
//! They are caught from the first moment of a gateway's life on, for the default of most is to
//! kill. Until there is something to reload, a HUP is kept for later.

use std::io;
use std::process;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// What a process does when it is told to.
pub trait Handler: Send + Sync + 'static {
    /// The configuration is to be read again.
    fn reload(&self);
    /// The process is to end, in order. Returns soon; called once.
    fn stop(&self);
}

/// Signals that are caught and wait for somebody to act on them.
pub struct Caught {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    handler: Option<Arc<dyn Handler>>,
    /// A HUP came before there was anything to reload.
    reload_wanted: bool,
    stopping: bool,
}

impl Caught {
    /// Catches signals from now on.
    ///
    /// # Errors
    ///
    /// Where the system does not let us.
    pub fn install() -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGTERM, SIGINT, SIGQUIT])?;
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::Builder::new()
            .name("aforo-signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    match signal {
                        SIGHUP => on_reload(&shared),
                        _ => on_stop(&shared),
                    }
                }
            })?;
        Ok(Self { state })
    }

    /// Lets `handler` act from now on, also on a HUP that came before.
    pub fn handle_with(&self, handler: Arc<dyn Handler>) {
        let mut state = self.state.lock();
        state.handler = Some(Arc::clone(&handler));
        let reload = std::mem::take(&mut state.reload_wanted);
        drop(state);
        if reload {
            handler.reload();
        }
    }
}

fn on_reload(shared: &Mutex<State>) {
    let mut state = shared.lock();
    let handler = state.handler.clone();
    state.reload_wanted = handler.is_none();
    drop(state);
    if let Some(handler) = handler {
        handler.reload();
    }
}

fn on_stop(shared: &Mutex<State>) {
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
