//! Listeners at Unix sockets.

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::authority::Authority;
use crate::configured::Configured;
use crate::harness::{Ran, Server, run, statehold};

/// A path in a directory of the test's own.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: TempDir::new().expect("a directory"),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("statehold.sock")
    }

    fn address(&self) -> String {
        format!("unix:{}", self.path().display())
    }

    fn settings(&self) -> String {
        format!("[[listeners]]\naddress = \"{}\"\n", self.address())
    }

    /// Runs a client.
    fn run(&self, arguments: &[&str]) -> Ran {
        run(statehold(&[arguments, &["--host", &self.address()]].concat()))
    }
}

#[test]
fn clients_connect_and_the_file_goes_when_the_server_stops() {
    let place = Place::new();
    let mut server = Server::start_in(TempDir::new().expect("a directory"), &place.address());
    assert_eq!(server.mqtt, place.address());
    place.run(&["set", "k", &"x".repeat(100_000)]).expect(0);
    assert_eq!(place.run(&["get", "k"]).expect(0).stdout.len(), 100_000);
    assert_eq!(server.terminate(), Some(0));
    assert!(!place.path().exists());
    // Nobody answers there.
    place.run(&["get", "k"]).expect(4);
}

#[test]
fn what_a_killed_server_left_is_replaced() {
    let place = Place::new();
    let mut server = Server::start_in(TempDir::new().expect("a directory"), &place.address());
    place.run(&["set", "k", "kept"]).expect(0);
    server.kill();
    assert!(place.path().exists());
    let _server = server.restart_after_end();
    assert_eq!(place.run(&["get", "k"]).expect(0).stdout, b"kept");
}

#[test]
fn a_second_server_does_not_take_the_place_of_the_first() {
    let place = Place::new();
    let _first = Configured::start(&place.settings());
    let refused = Configured::refused(&place.settings());
    let expected = format!(
        "cannot listen on {} (listeners.address): another",
        place.address()
    );
    assert!(refused.stderr.contains(&expected), "{refused:?}");
    place.run(&["set", "k", "v"]).expect(0);
}

#[test]
fn a_file_that_is_no_socket_is_not_touched() {
    let place = Place::new();
    std::fs::write(place.path(), "precious").expect("written");
    let refused = Configured::refused(&place.settings());
    assert!(refused.stderr.contains("a file that is no socket"), "{refused:?}");
    assert_eq!(std::fs::read(place.path()).expect("there"), b"precious");
}

#[test]
fn the_mode_says_who_may_connect() {
    let place = Place::new();
    let _server = Configured::start(&format!("{}mode = \"0600\"\n", place.settings()));
    let metadata = std::fs::metadata(place.path()).expect("there");
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    let refused = Configured::refused("[[listeners]]\naddress = \"127.0.0.1:0\"\nmode = \"0600\"\n");
    assert!(refused.stderr.contains("`listeners[0].mode`"), "{refused:?}");
}

#[test]
fn the_log_says_as_whom_a_client_connected() {
    let place = Place::new();
    let mut server = Configured::start(&format!("{}[log]\nlevel = \"debug\"\n", place.settings()));
    let mut stream = UnixStream::connect(place.path()).expect("connected");
    stream
        .write_all(b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0")
        .expect("sent");
    stream.read_exact(&mut [0; 1]).expect("CONNACK");
    let line = server.logged(" connected ");
    let pid = format!("pid={}", std::process::id());
    assert!(line.contains("peer=unix:uid=") && line.contains(&pid), "{line}");
}

#[test]
fn tls_runs_over_it_and_expects_localhost() {
    let (place, authority) = (Place::new(), Authority::new());
    let identity = authority.issue("localhost");
    let settings = format!("{}[listeners.tls]\n{}", place.settings(), identity.settings());
    let server = Configured::start(&settings);
    assert_eq!(server.at("mqtts"), place.address());
    let ca_file = authority.ca_file();
    place.run(&["set", "k", "v", "--cafile", &ca_file]).expect(0);
}
