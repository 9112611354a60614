//! `set`, `get`, `del`, `vdel`, `scan` and `watch`.

use std::process::Stdio;

use crate::harness::{Server, run, statehold};

#[test]
fn keys_are_set_found_listed_and_deleted_with_codes_that_scripts_can_use() {
    let server = Server::start();
    let version = server
        .run(&["set", "greeting", "hello"])
        .expect(0)
        .text()
        .to_owned();
    assert!(version.ends_with(":StateStore"), "{version}");
    assert_eq!(server.run(&["get", "greeting"]).expect(0).stdout, b"hello");
    assert_eq!(
        server
            .run(&["get", "greeting", "--version-only"])
            .expect(0)
            .text(),
        version
    );
    let json = server.run(&["get", "greeting", "--json"]).expect(0).json();
    assert_eq!(
        (&json["value"], &json["version"]),
        (&"hello".into(), &version.into())
    );

    server.run(&["set", "other", "1"]).expect(0);
    assert_eq!(server.run(&["scan", "g*"]).expect(0).text(), "greeting");
    server.run(&["scan", "nothing*"]).expect(1);

    server.run(&["vdel", "greeting", "something else"]).expect(1);
    assert_eq!(
        server
            .run(&["vdel", "greeting", "hello", "--json"])
            .expect(0)
            .json()["outcome"],
        "deleted"
    );
    server.run(&["get", "greeting"]).expect(1);
    server.run(&["del", "other"]).expect(0);
    server.run(&["del", "other"]).expect(1);
}

#[test]
fn conditions_decide_whether_a_key_is_set() {
    let server = Server::start();
    server.run(&["set", "k", "1", "--nx"]).expect(0);
    server.run(&["set", "k", "2", "--nx"]).expect(1);
    server
        .run(&["set", "k", "1", "--nex", "--expires-in", "1h"])
        .expect(0);
    server.run(&["set", "k", "2", "--nex"]).expect(1);
    server.run(&["set", "k", "3", "--if-value", "2"]).expect(1);
    let outcome = server
        .run(&["set", "k", "2", "--if-value", "1", "--json"])
        .expect(0)
        .json();
    assert_eq!(outcome["stored"], true);
    assert_eq!(server.run(&["get", "k"]).expect(0).stdout, b"2");
}

#[test]
fn any_bytes_go_in_and_come_out() {
    let server = Server::start();
    let value: Vec<u8> = (0..200_000_u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &value).expect("written");
    let name = file.path().to_str().expect("text");
    server.run(&["set", "from file", "--file", name]).expect(0);
    assert!(server.run(&["get", "from file"]).expect(0).stdout == value);

    let mut command = server.command(&["set", "from stdin"]);
    command.stdin(Stdio::from(std::fs::File::open(file.path()).expect("opened")));
    run(command).expect(0);
    assert!(server.run(&["get", "from stdin"]).expect(0).stdout == value);

    server.run(&["set", "empty", ""]).expect(0);
    assert_eq!(server.run(&["get", "empty"]).expect(0).stdout, b"");
    assert_eq!(
        server.run(&["scan", "--null", "from *"]).expect(0).stdout,
        b"from file\0from stdin\0"
    );
}

#[test]
fn a_fenced_key_takes_no_older_token() {
    let server = Server::start();
    server
        .run(&["set", "k", "1", "--fencing-token", "100:1:x"])
        .expect(0);
    let refused = server
        .run(&["set", "k", "2", "--fencing-token", "99:1:x"])
        .expect(2);
    assert!(refused.stderr.contains("lower version"), "{}", refused.stderr);
    server.run(&["del", "k"]).expect(2);
    server
        .run(&["set", "k", "2", "--fencing-token", "not one"])
        .expect(3);
    server.run(&["del", "k", "--fencing-token", "100:1:x"]).expect(0);
}

#[test]
fn every_change_of_a_watched_key_is_a_line_and_an_expiry_is_one_too() {
    let server = Server::start();
    server.run(&["set", "k", "0"]).expect(0);
    let mut watch = server.spawn(&["watch", "k", "--initial", "--count", "3"]);
    // With this line the watch is in force.
    assert!(watch.line().starts_with("set k "));
    let version = server.run(&["set", "k", "1"]).expect(0).text().to_owned();
    assert_eq!(watch.line(), format!("set k {version} 1"));
    server.run(&["set", "k", "2", "--expires-in", "50ms"]).expect(0);
    assert!(watch.line().ends_with(" 2"));
    assert!(watch.line().starts_with("deleted k "));
    assert_eq!(watch.wait(), Some(0));
}

#[test]
fn a_watch_survives_the_server_and_reports_the_gap() {
    let server = Server::start();
    server.run(&["set", "k", "0"]).expect(0);
    let mut watch = server.spawn(&["watch", "k", "--initial", "--json"]);
    assert!(watch.line().contains(r#""value":"0""#));
    let server = server.restart();
    assert!(watch.line().contains(r#""event":"gap""#));
    server.run(&["set", "k", "1"]).expect(0);
    assert!(watch.line().contains(r#""value":"1""#));
}

#[test]
fn without_a_server_there_is_no_answer() {
    let mut server = Server::start();
    server.kill();
    let ran = server.run(&["get", "k"]).expect(4);
    assert!(
        ran.stderr.starts_with("statehold: cannot connect to 127.0.0.1:"),
        "{}",
        ran.stderr
    );
    let ran = run(statehold(&["get", "k", "--tls", "--cafile", "/no/such/file"])).expect(3);
    assert!(ran.stderr.contains("/no/such/file"), "{}", ran.stderr);
    run(statehold(&["get"])).expect(3);
    run(statehold(&["--help"])).expect(0);
}
