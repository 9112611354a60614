//! `lock`

use crate::harness::{Server, run};

/// Says its token, then waits for a line.
const HOLD: &str = "echo $STATEHOLD_FENCING_TOKEN; read line; exit 7";

#[test]
fn the_command_has_the_lock_alone_and_its_token_and_its_exit_code_counts() {
    let server = Server::start();
    let mut first = server.spawn(&["lock", "job", "--", "sh", "-c", HOLD]);
    let token = first.line();
    assert!(token.ends_with(":StateStore"), "{token}");
    server
        .run(&["lock", "job", "--wait", "0", "--", "true"])
        .expect(1);
    server
        .run(&["lock", "job", "--wait", "100ms", "--", "true"])
        .expect(1);

    let mut second = server.spawn(&["lock", "job", "--", "sh", "-c", HOLD]);
    first.write_line("");
    assert_eq!(first.wait(), Some(7));
    let second_token = second.line();
    let wall = |token: &str| {
        token
            .split(':')
            .next()
            .and_then(|wall| wall.parse::<u64>().ok())
            .expect("a token")
    };
    assert!(
        wall(&second_token) >= wall(&token),
        "{second_token} after {token}"
    );
    assert_eq!(second.wait(), Some(7));
    server.run(&["get", "job"]).expect(1);
}

#[test]
fn when_the_lock_is_lost_the_command_is_stopped() {
    let server = Server::start();
    let stopped = "trap 'echo stopped; exit' TERM; echo started; while :; do read line; done";
    let mut lock = server.spawn(&["lock", "job", "--lease", "300ms", "--", "sh", "-c", stopped]);
    assert_eq!(lock.line(), "started");
    // Somebody else takes it by force.
    server.run(&["set", "job", "other"]).expect(0);
    assert_eq!(lock.line(), "stopped");
    assert_eq!(lock.wait(), Some(6));
    assert_eq!(
        server.run(&["get", "job"]).expect(0).stdout,
        b"other",
        "it is not ours to delete"
    );
}

#[test]
fn when_the_server_is_gone_for_longer_than_the_lease_even_a_deaf_command_is_stopped() {
    let mut server = Server::start();
    let deaf = "trap '' TERM; echo started; while :; do read line; done";
    let arguments = [
        "lock", "job", "--lease", "500ms", "--grace", "100ms", "--", "sh", "-c", deaf,
    ];
    let mut lock = server.spawn(&arguments);
    assert_eq!(lock.line(), "started");
    server.kill();
    assert_eq!(lock.line(), "", "its stdout is closed: it has ended");
    assert_eq!(lock.wait(), Some(6));
}

#[test]
fn a_lock_is_kept_while_the_server_restarts() {
    let server = Server::start();
    let mut lock = server.spawn(&["lock", "job", "--lease", "20s", "--", "sh", "-c", HOLD]);
    lock.line();
    let server = server.restart();
    server
        .run(&["lock", "job", "--wait", "0", "--", "true"])
        .expect(1);
    lock.write_line("");
    assert_eq!(lock.wait(), Some(7));
}

#[test]
fn signals_are_handed_on_and_the_lock_is_given_back() {
    let server = Server::start();
    let trap = "trap 'exit 9' TERM; echo started; while :; do read line; done";
    let mut lock = server.spawn(&["lock", "job", "--", "sh", "-c", trap]);
    assert_eq!(lock.line(), "started");
    lock.signal("TERM");
    assert_eq!(lock.wait(), Some(9));
    server.run(&["get", "job"]).expect(1);
    let ran = run(server.command(&["lock", "job", "--", "/no/such/command"])).expect(5);
    assert!(ran.stderr.contains("/no/such/command"), "{}", ran.stderr);
    server.run(&["get", "job"]).expect(1);
}
