//! The disk gets full while clients write: a file system of a few megabytes, seen only by the server.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{Server, run, statehold};

/// Mounts a small file system, runs the server on it to its end, and brings out what it left there.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=24m tmpfs "$1" || exit 99
"$3" serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data-dir "$1/data"
code=$?
cp -a "$1/data" "$2" || exit 98
exit $code
"#;

#[test]
fn a_full_disk_ends_the_server_with_one_line_and_loses_nothing_that_was_acknowledged() {
    if !can_mount() {
        // Containers often forbid it; `.ci/run` says so where it can be seen.
        println!("left out: a full disk cannot be made without the right to mount");
        return;
    }
    let small = TempDir::new().expect("a directory");
    let left = TempDir::new().expect("a directory");
    let mut server = on_small_disk(&small, &left);
    let mut ready = String::new();
    let mut stdout = BufReader::new(server.stdout.take().expect("stdout is piped"));
    stdout.read_line(&mut ready).expect("the server says something");
    let address = ready
        .split_whitespace()
        .find_map(|word| word.strip_prefix("mqtt="))
        .unwrap_or_else(|| panic!("no address in {ready:?}"));
    let (host, port) = address.rsplit_once(':').expect("an address");

    let value = vec![b'v'; 200_000];
    let file = left.path().join("value");
    std::fs::write(&file, &value).expect("written");
    let is_set = |number: usize| {
        let key = format!("k{number}");
        let mut command = statehold(&["set", &key, "--file", file.to_str().expect("text")]);
        command.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
        run(command).code == Some(0)
    };
    let acknowledged = (0..1_000)
        .find(|number| !is_set(*number))
        .expect("200 MB do not fit on 24 MB");
    assert!(acknowledged > 10, "only {acknowledged} were acknowledged");

    let mut log = String::new();
    let stderr = server.stderr.as_mut().expect("stderr is piped");
    stderr.read_to_string(&mut log).expect("text");
    let code = server.wait().expect("it ends").code();
    assert!(code.is_some_and(|code| code != 0 && code < 90), "{code:?}\n{log}");
    let said: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("statehold: "))
        .collect();
    assert_eq!(said.len(), 1, "{log}");
    assert!(said[0].contains("the disk is full"), "{log}");

    let server = Server::start_in(left, "127.0.0.1:0");
    for number in 0..acknowledged {
        let key = format!("k{number}");
        assert!(server.run(&["get", &key]).expect(0).stdout == value, "{key}");
    }
}

fn on_small_disk(small: &TempDir, left: &TempDir) -> Child {
    let mut command = in_own_mounts();
    command
        .args(["sh", "-c", SCRIPT, "sh"])
        .arg(small.path())
        .arg(left.path())
        .arg(env!("CARGO_BIN_EXE_statehold"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("unshare is there, it has just been tried")
}

pub(crate) fn can_mount() -> bool {
    let target = TempDir::new().expect("a directory");
    let mut command = in_own_mounts();
    command.args(["mount", "-t", "tmpfs", "tmpfs"]).arg(target.path());
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// What follows runs where it may mount, and nobody else sees it.
pub(crate) fn in_own_mounts() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]);
    command
}
