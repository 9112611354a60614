//! What a server tells the service manager that has started it.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Watchdog, serve, signal};

/// Far longer than anything here takes on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(100);

/// Hears until something begins so.
fn heard(socket: &UnixDatagram, beginning: &str) {
    let mut buffer = [0; 256];
    loop {
        let length = socket.recv(&mut buffer).expect("a datagram in time");
        let said = String::from_utf8_lossy(&buffer[..length]);
        if said.starts_with(beginning) {
            return;
        }
        assert!(said.starts_with("WATCHDOG=1"), "{said} before {beginning}");
    }
}

#[test]
fn a_server_says_when_it_is_ready_lives_takes_files_anew_and_stops() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut command = serve(&directory.path().join("data"), "127.0.0.1:0");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut child = command.spawn().expect("it starts");
    let _watchdog = Watchdog::over(&child);
    heard(&socket, "READY=1\n");
    heard(&socket, "WATCHDOG=1");
    heard(&socket, "WATCHDOG=1");
    signal(&child, "HUP");
    heard(&socket, "RELOADING=1\nMONOTONIC_USEC=");
    heard(&socket, "READY=1\n");
    signal(&child, "TERM");
    heard(&socket, "STOPPING=1\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
