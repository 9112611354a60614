//! The thread on which handshakes run, and which takes new certificates from changed files.
//!
//! Sockets stay with the node's runtime, which also wakes a handshake that waits for one; only the work is done here.

use std::io;

use tokio::runtime::Handle;

use crate::side_thread::{Look, Looks, SideThread};
use crate::tls::Tls;

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeThread {
    handle: Handle,
    _thread: SideThread,
}

impl HandshakeThread {
    /// Starts a thread of this name, which keeps these certificates up to date.
    pub(crate) fn start(name: &'static str, tls: Vec<Tls>) -> io::Result<Self> {
        let prepared = SideThread::prepare()?;
        Ok(Self {
            handle: prepared.handle().clone(),
            _thread: prepared.start(name, |looks| reload(tls, looks))?,
        })
    }

    /// Where to run a handshake.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Takes files anew on SIGHUP, and after they have changed.
async fn reload(mut tls: Vec<Tls>, mut looks: Looks) {
    loop {
        match looks.next().await {
            Look::Reload => tls.iter_mut().for_each(Tls::reload),
            Look::ForChanges => tls.iter_mut().for_each(Tls::look),
        }
    }
}
