//! `lock`

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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
    let arguments = ["lock", "job", "--lease", "2s", "--grace", "1m"];
    let mut lock = server.spawn(&[&arguments[..], &["--", "sh", "-c", stopped]].concat());
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

/// Both are in the group of the command, and have its stdout: that ends when both have.
#[test]
fn what_the_command_has_started_ends_with_a_lock_that_is_killed() {
    let server = Server::start();
    let both = "trap 'echo stopped' TERM
        (trap '' TERM; while :; do sleep 1000; done) &
        echo started
        while :; do read line; done";
    let arguments = ["lock", "job", "--grace", "3s", "--", "sh", "-c", both];
    let mut lock = server.spawn(&arguments);
    assert_eq!(lock.line(), "started");
    lock.signal("KILL");
    assert_eq!(lock.line(), "stopped");
    assert_eq!(lock.line(), "", "its stdout is closed: all have ended");
    assert_eq!(lock.wait(), None);
}

/// There the command shares the process group of the lock, and of what has started that.
#[test]
fn a_command_at_a_terminal_ends_with_a_lock_that_is_killed() {
    let server = Server::start();
    let deaf = "trap '' TERM; echo started; while :; do read line; done";
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let stdin = ptsname(&terminal, Vec::new()).expect("a name").into_string();
    let stdin = File::open(stdin.expect("text")).expect("opened");
    let arguments = ["lock", "job", "--", "sh", "-c", deaf];
    let mut lock = server.command(&arguments);
    let mut lock = lock.stdin(stdin).stdout(Stdio::piped()).spawn().expect("started");
    let mut out = lock.stdout.take().expect("piped");
    let mut said = [0; 8];
    out.read_exact(&mut said).expect("the command says something");
    assert_eq!(&said, b"started\n");
    Child::kill(&mut lock).expect("killed");
    let mut rest = String::new();
    out.read_to_string(&mut rest)
        .expect("its stdout is closed: it has ended");
    assert_eq!(rest, "");
    lock.wait().expect("it has ended");
}

/// Renewals fail, and the lease is not over yet.
#[test]
fn a_command_is_stopped_before_the_lease_of_its_lock_ends() {
    let mut server = Server::start();
    let stopped = "trap 'echo stopped; exit' TERM; echo started; while :; do read line; done";
    let mut command = server.command(&["lock", "job", "--lease", "5s", "--", "sh", "-c", stopped]);
    command.stderr(Stdio::piped());
    let mut lock = crate::harness::spawn(command);
    assert_eq!(lock.line(), "started");
    server.kill();
    assert_eq!(lock.line(), "stopped");
    assert_eq!(lock.wait(), Some(6));
    let mut said = String::new();
    let mut stderr = lock.child.stderr.take().expect("piped");
    stderr.read_to_string(&mut said).expect("text");
    assert!(
        said.contains("is not renewed, and its lease ends in 1s"),
        "{said}"
    );
}

#[test]
fn signals_are_handed_on_and_the_lock_is_given_back() {
    let server = Server::start();
    for (signal, code) in [("TERM", 9), ("QUIT", 8)] {
        let trap = format!("trap 'exit {code}' {signal}; echo started; while :; do read line; done");
        let mut lock = server.spawn(&["lock", "job", "--", "sh", "-c", &trap]);
        assert_eq!(lock.line(), "started");
        lock.signal(signal);
        assert_eq!(lock.wait(), Some(code));
        server.run(&["get", "job"]).expect(1);
    }
    let ran = run(server.command(&["lock", "job", "--", "/no/such/command"])).expect(5);
    assert!(ran.stderr.contains("/no/such/command"), "{}", ran.stderr);
    server.run(&["get", "job"]).expect(1);
}
