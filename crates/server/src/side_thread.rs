//! A thread beside the node's, with a runtime of its own: for work that waits for sockets and files and should not hold up the node.
//!
//! It hears of SIGHUP from the moment it is prepared, and tells the audit log of the thread that starts it what it reads again. It is
//! *not* for work that has to be finished: what it does ends, wherever it is, when the thread is dropped.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior};

use crate::audit::Audit;

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SideThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A thread that has not begun.
#[derive(Debug)]
pub(crate) struct Prepared {
    runtime: Runtime,
    looks: Looks,
}

/// When to look at files.
#[derive(Debug)]
pub(crate) struct Looks {
    hangup: Signal,
    every: Interval,
}

/// How to look at files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Somebody wants them to be read again (SIGHUP).
    Reload,
    /// They are read again if they have changed.
    ForChanges,
}

/// How often files are looked at. A change counts when two looks have found the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl SideThread {
    /// From here on who asks for a reload while the server starts does not end it.
    pub(crate) fn prepare() -> io::Result<Prepared> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let looks = {
            let _within = runtime.enter();
            let mut every = tokio::time::interval(LOOK_EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let hangup = signal(SignalKind::hangup())?;
            Looks { hangup, every }
        };
        Ok(Prepared { runtime, looks })
    }
}

impl Drop for SideThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its thread.
            let _ = thread.join();
        }
    }
}

impl Prepared {
    /// Where tasks of the thread are spawned.
    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// A listener whose connections the thread accepts.
    pub(crate) fn listen(&self, listener: std::net::TcpListener) -> io::Result<TcpListener> {
        let _within = self.runtime.enter();
        TcpListener::from_std(listener)
    }

    /// Starts the thread; the work is made on it.
    pub(crate) fn start<W: Future<Output = ()>>(
        self,
        name: &str,
        work: impl FnOnce(Looks) -> W + Send + 'static,
    ) -> io::Result<SideThread> {
        let Self { runtime, looks } = self;
        let (stop, stopped) = oneshot::channel();
        let audit = Audit::of_thread();
        let run = move || {
            audit.adopt_thread();
            runtime.block_on(async {
                tokio::select! {
                    () = work(looks) => {}
                    _ = stopped => {}
                }
            });
            // Whoever looks up the name of a server is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(SideThread {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Looks {
    /// Waits until it is time to look at files.
    pub(crate) async fn next(&mut self) -> Look {
        tokio::select! {
            Some(()) = self.hangup.recv() => Look::Reload,
            _ = self.every.tick() => Look::ForChanges,
        }
    }
}
