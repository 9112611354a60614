//! When the process is asked to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a process to stop.
///
/// They are caught from the moment it is made, so one that comes while the server starts is not lost.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Which signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM
    Terminate,
    /// SIGINT, as from Ctrl-C
    Interrupt,
}

impl Signals {
    /// Begins to catch SIGTERM and SIGINT. Has to be called within a tokio runtime.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}

/// Ends at the first SIGTERM or SIGINT. A second one ends the process at once, with the exit code that a shell expects.
///
/// Has to be called, not only awaited, within a tokio runtime: from the call on the signals are caught.
pub fn signal_received() -> io::Result<impl Future<Output = Stop>> {
    let mut signals = Signals::catch()?;
    Ok(async move {
        let first = signals.next().await;
        tokio::spawn(async move {
            let second = signals.next().await;
            std::process::exit(second.exit_code());
        });
        first
    })
}

/// [`signal_received`] for who is not in a runtime yet: the signals are caught when this is first waited for.
///
/// On a system that does not let a process catch signals it never ends.
pub async fn requested() {
    match signal_received() {
        Ok(received) => {
            let signal = received.await;
            tracing::info!(?signal, "asked to stop");
        }
        Err(error) => {
            tracing::error!(%error, "signals cannot be caught: the server can only be killed");
            std::future::pending::<()>().await;
        }
    }
}

impl Stop {
    /// 128 and the number of the signal.
    fn exit_code(self) -> i32 {
        match self {
            Self::Terminate => 128 + 15,
            Self::Interrupt => 128 + 2,
        }
    }
}
