//! SIGTERM and SIGINT: the first asks the process to stop, the second ends it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` at the first signal. The second ends the process at once with the exit code that shells give to
/// that signal (130 or 143).
///
/// The second signal is handled inside the signal handler, not in a task: a person reaches for it when the process
/// hangs, and then tasks may not run any more.
pub fn stop_on_signal(stop: &CancellationToken) -> io::Result<()> {
    let stopping = Arc::new(AtomicBool::new(false));
    for number in [SIGTERM, SIGINT] {
        // In this order: the handler that exits looks at the flag before the other one raises it.
        flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&stopping))?;
        flag::register(number, Arc::clone(&stopping))?;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(
            signal = name,
            "Stopping; a second signal ends the process at once."
        );
        stop.cancel();
    });
    Ok(())
}
