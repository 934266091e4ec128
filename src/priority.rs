//! Threads that requests do not wait for, and that must not make them wait: where cores are scarce,
//! the system lets the others go first.

use tracing::debug;

/// Steps on the scale of nice(2). Such a thread gets about a tenth of what another one gets, and
/// all of a core that nobody else needs.
const NICER_BY: i32 = 10;

/// Lets other threads go before the one that calls this.
pub fn lower() {
    // On Linux this is the thread's own (nice(2), "C library/kernel differences"). Nothing is lost
    // where the system does not allow it.
    if let Err(error) = rustix::process::nice(NICER_BY) {
        debug!("this thread keeps its priority: {error}");
    }
}
