//! Tells systemd how far the server is, where it wants to know: units of `Type=notify`.
//!
//! It names a datagram socket in `NOTIFY_SOCKET`, and takes lines `NAME=value` there. Nothing depends on it: what cannot be told is a line in the log.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// The socket of the service manager, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct NotifySocket {
    socket: Option<Rc<Socket>>,
    /// After so long without a word the service manager ends the server.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Socket {
    datagrams: UnixDatagram,
    address: SocketAddr,
    is_ready: Cell<bool>,
}

/// Nobody waits for less.
const WATCHDOG_MIN: Duration = Duration::from_millis(10);

impl NotifySocket {
    /// As the environment of the process says.
    pub(crate) fn of_process() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let is_for_us = std::env::var_os("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID").is_some_and(|pid| i64::try_from(pid) == Ok(own.into()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| is_for_us);
        match Self::at(&name, watchdog.map(Duration::from_micros)) {
            Ok(notify_socket) => notify_socket,
            Err(error) => {
                tracing::warn!(%error, "the socket of the service manager (NOTIFY_SOCKET) cannot be used");
                Self::default()
            }
        }
    }

    fn at(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
        };
        let datagrams = UnixDatagram::unbound()?;
        // The server is not to wait for it.
        datagrams.set_nonblocking(true)?;
        Ok(Self {
            socket: Some(Rc::new(Socket {
                datagrams,
                address,
                is_ready: Cell::new(false),
            })),
            watchdog: watchdog.filter(|watchdog| *watchdog >= WATCHDOG_MIN),
        })
    }

    /// Clients can come; and from here on it is told that the thread that runs this lives, if it wants to know.
    pub(crate) fn serving(&self) {
        self.ready();
        self.watch();
    }

    fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
        if let Some(socket) = &self.socket {
            socket.is_ready.set(true);
        }
    }

    /// Files are taken anew. What came of it is in the log; the old ones are used where the new ones cannot be.
    pub(crate) fn reloaded(&self) {
        if !self.socket.as_ref().is_some_and(|socket| socket.is_ready.get()) {
            return;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        self.ready();
    }

    /// The server stops.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=saying goodbye to clients");
    }

    fn watch(&self) {
        let Some(watchdog) = self.watchdog else { return };
        let notify_socket = self.clone();
        let mut ticks = interval(watchdog / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::task::spawn_local(async move {
            loop {
                ticks.tick().await;
                notify_socket.tell("WATCHDOG=1");
            }
        });
    }

    fn tell(&self, what: &str) {
        let Some(socket) = &self.socket else {
            return;
        };
        if let Err(error) = socket.datagrams.send_to_addr(what.as_bytes(), &socket.address) {
            tracing::warn!(%error, what, "cannot tell the service manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn it_is_told_at_a_path_and_at_an_abstract_name() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let path = directory.path().join("notify");
        let abstract_name = format!("@statehold-test-{}", std::process::id());
        let at_path = UnixDatagram::bind(&path).expect("bound");
        let address = SocketAddr::from_abstract_name(&abstract_name[1..]).expect("a name");
        let at_name = UnixDatagram::bind_addr(&address).expect("bound");
        for (name, socket) in [(path.as_os_str(), at_path), (abstract_name.as_ref(), at_name)] {
            let notify_socket = NotifySocket::at(name, None).expect("it is there");
            // Who is not ready yet does not become it by that.
            notify_socket.reloaded();
            notify_socket.ready();
            assert_eq!(heard(&socket), "READY=1\nSTATUS=serving");
            notify_socket.reloaded();
            assert!(heard(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
            assert_eq!(heard(&socket), "READY=1\nSTATUS=serving");
            notify_socket.stopping();
            assert!(heard(&socket).starts_with("STOPPING=1\n"));
        }
    }

    #[test]
    fn nobody_there_is_no_failure() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let gone = directory.path().join("gone");
        let notify_socket = NotifySocket::at(gone.as_os_str(), None).expect("a path");
        notify_socket.ready();
        NotifySocket::default().stopping();
        let long = "x".repeat(200);
        assert!(NotifySocket::at(long.as_ref(), None).is_err());
    }
}
