//! The thread on which handshakes run, and which takes new certificates from changed files.
//!
//! Sockets stay with the node's runtime, which also wakes a handshake that waits for one; only the work is done here.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::audit::Audit;
use crate::tls::Tls;

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How often files are looked at. A change counts when two looks have found the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl HandshakeThread {
    pub(crate) fn start(tls: Vec<Tls>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        // From here on: who asks for a reload while the server starts does not end it.
        let hangup = {
            let _within = runtime.enter();
            signal(SignalKind::hangup())?
        };
        let audit = Audit::of_thread();
        let work = move || {
            audit.adopt_thread();
            runtime.block_on(async {
                tokio::select! {
                    () = reload(tls, hangup) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("handshake".to_owned())
            .spawn(work)?;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where to run a handshake.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for HandshakeThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes files anew on SIGHUP, and after they have changed.
async fn reload(mut tls: Vec<Tls>, mut hangup: Signal) {
    loop {
        tokio::select! {
            Some(()) = hangup.recv() => tls.iter_mut().for_each(Tls::reload),
            () = tokio::time::sleep(LOOK_EVERY) => tls.iter_mut().for_each(Tls::look),
        }
    }
}
