//! A server whose data directory is encrypted: nothing can be read there, and without the key it does not start.

use std::io;
use std::path::Path;

use crate::configured::Configured;
use crate::harness::{run, statehold};
use tempfile::TempDir;

/// Client id, topic, payload, key and value.
const SECRETS: [&str; 5] = [
    "secret-client",
    "secret/topic",
    "secret-payload",
    "secret-key",
    "secret-value",
];

fn settings(directory: &TempDir, more: &str) -> String {
    let keys = directory.path().join("keys");
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[encryption]\nkey_file = \"{}\"\n{more}\n",
        keys.display()
    )
}

fn add_key(directory: &TempDir) {
    let keys = directory.path().join("keys");
    let ran = run(statehold(&["encryption-key", keys.to_str().expect("text")]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Whether one of the secrets can be read in a file below.
fn is_readable(directory: &Path) -> bool {
    loop {
        match find_secret(directory) {
            // The server has moved or removed a file meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found.expect("readable files"),
        }
    }
}

fn find_secret(directory: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_found = if path.is_dir() {
            find_secret(&path)?
        } else {
            let bytes = std::fs::read(&path)?;
            let holds = |secret: &str| {
                bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes())
            };
            SECRETS.into_iter().any(holds)
        };
        if is_found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn fill(server: &Configured) {
    let [client, topic, payload, key, value] = SECRETS;
    server.run("mqtt", &["set", key, value]).expect(0);
    let publish = ["pub", topic, payload, "--retain"];
    server.run("mqtt", &publish).expect(0);
    let subscribe = [
        "sub",
        topic,
        "--client-id",
        client,
        "--session-expiry",
        "1h",
        "--count",
        "1",
    ];
    server.run("mqtt", &subscribe).expect(0);
    // This one waits for the client.
    server.run("mqtt", &publish).expect(0);
}

#[test]
fn an_encrypted_data_directory_shows_nothing_and_serves_everything() {
    let directory = TempDir::new().expect("a directory");
    add_key(&directory);
    let server = Configured::start(&settings(&directory, ""));
    fill(&server);
    assert!(!is_readable(&server.data_directory()));
    let mut server = server.restart(&settings(&directory, ""));
    server.logged("everything in the data directory is encrypted");
    let [_, topic, payload, key, value] = SECRETS;
    assert_eq!(
        server.run("mqtt", &["get", key]).expect(0).stdout,
        value.as_bytes()
    );
    let retained = server.run("mqtt", &["sub", topic, "--count", "1"]).expect(0);
    assert!(String::from_utf8_lossy(&retained.stdout).contains(payload));

    add_key(&directory);
    let mut server = server.restart(&settings(&directory, ""));
    let line = server.logged("older keys are not needed any more");
    assert!(line.contains("key=2"), "{line}");
    assert!(!is_readable(&server.data_directory()));

    let mut server = server.restart(&settings(&directory, "decrypt = true"));
    server.logged("no key is needed any more");
    assert!(is_readable(&server.data_directory()), "the test can fail");
    assert_eq!(
        server.run("mqtt", &["get", key]).expect(0).stdout,
        value.as_bytes()
    );
}

#[test]
fn a_server_without_its_key_says_which_one_is_needed() {
    let directory = TempDir::new().expect("a directory");
    add_key(&directory);
    let server = Configured::start(&settings(&directory, ""));
    fill(&server);
    let data = server.kill();
    let ran = Configured::refused_in(&data, "");
    assert!(
        ran.stderr
            .contains("is encrypted with key 1, and no key file is set"),
        "{ran:?}"
    );
    std::fs::remove_file(directory.path().join("keys")).expect("removed");
    add_key(&directory);
    let ran = Configured::refused_in(&data, &settings(&directory, ""));
    assert!(ran.stderr.contains("another key 1 than the one in"), "{ran:?}");
}
