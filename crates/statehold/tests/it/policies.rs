//! Listeners with a policy: its file while the server starts, and while it runs.

use std::path::PathBuf;

use client::protocol::ReasonCode;
use client::protocol::packet::Packet;
use tempfile::TempDir;

use crate::configured::Configured;
use crate::support::wire::{Wire, connect};

/// The file of a policy.
struct PolicyFile {
    directory: TempDir,
}

impl PolicyFile {
    /// With a rule that lets the client publish to one topic.
    fn of(client_id: &str, topic: &str) -> Self {
        let file = Self {
            directory: TempDir::new().expect("a directory"),
        };
        file.allow(client_id, topic);
        file
    }

    fn allow(&self, client_id: &str, topic: &str) {
        self.write(&format!(
            "rules:\n- principals: {{clientIds: [{client_id}]}}\n  brokerResources:\n  - method: Connect\n  \
             - method: Publish\n    topics: ['{topic}']\n"
        ));
    }

    fn write(&self, policy: &str) {
        // Replaced at once, as a server that looks in between is to see the one or the other.
        let next = self.directory.path().join("next");
        std::fs::write(&next, policy).expect("written");
        std::fs::rename(next, self.file()).expect("renamed");
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("fleet.yaml")
    }

    fn settings(&self) -> String {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthorization = \"fleet\"\n[authorization.fleet]\nfile = \"{}\"\n",
            self.file().display()
        )
    }
}

/// The exit code of publishing as a client: 0 done, 2 refused.
fn publish(server: &Configured, client_id: &str, topic: &str) -> Option<i32> {
    server
        .run("mqtt", &["pub", topic, "x", "--client-id", client_id])
        .code
}

/// A connection that is let in.
fn wire(server: &Configured, client_id: &str) -> Wire {
    let address = server.at("mqtt").parse().expect("an address");
    Wire::connect(address, connect(client_id, true))
        .expect("let in")
        .0
}

#[test]
fn a_listener_allows_what_its_policy_allows() {
    let policy = PolicyFile::of("a", "a/+");
    let server = Configured::start(&policy.settings());
    assert_eq!(publish(&server, "a", "a/1"), Some(0));
    assert_eq!(publish(&server, "a", "b/1"), Some(2));
    assert_eq!(publish(&server, "b", "a/1"), Some(2));
    assert_eq!(
        server.run("mqtt", &["set", "k", "v", "--client-id", "a"]).code,
        Some(2)
    );
}

#[test]
fn a_policy_that_cannot_be_used_stops_the_start_and_changes_nothing_later() {
    let policy = PolicyFile::of("a", "a/#/b");
    let ran = Configured::refused(&policy.settings());
    let expected = "fleet.yaml:6: rule 1, brokerResources 2, topics 1: `a/#/b`";
    assert!(
        ran.stderr.contains("`authorization.fleet.file`"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);

    policy.allow("a", "a/+");
    let mut server = Configured::start(&policy.settings());
    policy.allow("a", "b#");
    server.signal("HUP");
    let line = server.logged("cannot take the file of authorization.fleet anew");
    assert!(line.contains("fleet.yaml:6"), "{line}");
    assert_eq!(publish(&server, "a", "a/1"), Some(0));
}

#[test]
fn another_policy_decides_at_once_on_sighup_or_after_a_change() {
    let policy = PolicyFile::of("a", "a/+");
    let mut server = Configured::start(&policy.settings());
    let mut connected = wire(&server, "a");

    policy.allow("b", "b/+");
    server.signal("HUP");
    match connected.receive().expect("told why") {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::NotAuthorized),
        other => panic!("{other:?}"),
    }
    assert_eq!(publish(&server, "b", "b/1"), Some(0));
    assert_eq!(publish(&server, "a", "a/1"), Some(2));

    let mut connected = wire(&server, "b");
    policy.allow("c", "c/+");
    server.logged("took the file of authorization.fleet anew");
    server.logged("took the file of authorization.fleet anew");
    assert!(matches!(connected.receive(), Ok(Packet::Disconnect(_))));
}
