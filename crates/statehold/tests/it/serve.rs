//! `serve`, seen from outside.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::harness::{Server, run, serve, signal, statehold};

#[test]
fn sigterm_ends_it_with_0_and_what_was_acknowledged_is_there_again() {
    let mut server = Server::start();
    server.run(&["set", "k", "kept"]).expect(0);
    assert_eq!(server.terminate(), Some(0));
    let server = server.restart_after_end();
    assert_eq!(server.run(&["get", "k"]).expect(0).stdout, b"kept");
}

#[test]
fn what_is_in_use_is_said_in_one_line() {
    let server = Server::start();
    let directory = tempfile::TempDir::new().expect("a directory");
    let mut port_in_use = serve(directory.path(), &server.mqtt);
    port_in_use.stderr(std::process::Stdio::piped());
    let ran = run(port_in_use);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains(&server.mqtt), "{}", ran.stderr);

    let mut locked = serve(&server.data_directory(), "127.0.0.1:0");
    locked.stderr(std::process::Stdio::piped());
    let ran = run(locked);
    assert_ne!(ran.code, Some(0));
    let said = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("statehold: "))
        .count();
    assert_eq!(said, 1, "{}", ran.stderr);
}

#[test]
fn the_admin_pages_are_where_the_ready_line_says() {
    let server = Server::start();
    assert_eq!(server.admin_page("/healthz"), "ok\n");
}

/// Nobody can be told anything, and the exit code is right all the same.
#[test]
fn a_command_whose_output_cannot_be_written_does_not_panic() {
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("it is there")
    };
    for arguments in [
        &["config", "check", "/no/such/file"][..],
        &["serve", "--config", "/no/such/file"],
        &[
            "serve",
            "--listen",
            "192.0.2.1:1",
            "--allow-anonymous",
            "--data-dir",
            "/dev/null/no",
        ],
    ] {
        let mut command = statehold(arguments);
        let status = command.stdout(full()).stderr(full()).status();
        let code = status.expect("it runs").code();
        assert!(matches!(code, Some(3 | 5)), "{arguments:?}: {code:?}");
    }
}

#[test]
fn a_server_serves_when_its_output_cannot_be_written() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let socket = directory.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("it is there")
    };
    let arguments = [
        "serve",
        "--admin",
        "127.0.0.1:0",
        "--listen",
        &listen,
        "--data-dir",
    ];
    let mut command = statehold(&[&arguments[..], &[data.to_str().expect("text")]].concat());
    let mut child = command.stdout(full()).stderr(full()).spawn().expect("it starts");
    // It listens before it answers, and says nothing of either.
    let mut stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(_) => assert_eq!(child.try_wait().expect("it can be asked"), None, "it has ended"),
        }
        std::thread::yield_now();
    };
    let connect = b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a";
    stream.write_all(connect).expect("written");
    let mut connack = [0; 4];
    stream.read_exact(&mut connack).expect("answered");
    assert_eq!(connack, [0x20, 2, 0, 0]);
    drop(stream);
    signal(&child, "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
