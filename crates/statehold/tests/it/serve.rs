//! `serve`, seen from outside.

use crate::harness::{Server, run, serve};

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
