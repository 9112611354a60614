//! The audit log of a running server.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::configured::Configured;
use crate::harness::{run, statehold};

/// The lines of a file.
fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("written");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    lines.collect()
}

#[test]
fn who_came_in_who_was_refused_and_what_changed_is_in_the_audit_log() {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("password"), "a secret word\n").expect("written");
    let secrets = || {
        let password = path("password");
        let ran = run(statehold(&[
            "scram",
            "pump",
            "--password-file",
            password.to_str().expect("text"),
        ]));
        std::fs::write(path("secrets"), ran.expect(0).stdout).expect("written");
    };
    secrets();
    let settings = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         [[listeners]]\naddress = \"127.0.0.2:0\"\nauthentication = [\"scram\"]\n\
         [authentication.scram]\nfile = \"{}\"\n[audit]\nfile = \"{}\"\n",
        path("secrets").display(),
        path("audit.log").display()
    );
    let mut server = Configured::start(&settings);
    server
        .run("mqtt", &["pub", "a/topic", "a payload", "--client-id", "pump-7"])
        .expect(0);
    let asked = server.all_at("mqtt")[1].clone();
    let (host, port) = asked.rsplit_once(':').expect("an address");
    let mut refused = statehold(&["pub", "a/topic", "x", "--client-id", "pump-8"]);
    refused.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
    assert_ne!(run(refused).code, Some(0));
    secrets();
    server.signal("HUP");
    server.logged("took the file of authentication.scram anew");
    std::fs::write(path("secrets"), "nonsense\n").expect("written");
    server.signal("HUP");
    server.logged("cannot take the file of authentication.scram anew");
    server.terminate();

    let lines = lines(&path("audit.log"));
    let of = |kind: &str| lines.iter().find(|line| line["kind"] == kind);
    let connected = of("connected").expect("a line");
    assert_eq!(connected["client_id"], "pump-7");
    assert!(
        connected["peer"]
            .as_str()
            .is_some_and(|peer| peer.starts_with("127.0.0.1:")),
        "{connected}"
    );
    let refused = of("refused").expect("a line");
    assert_eq!(refused["client_id"], "pump-8");
    assert!(
        refused["listener"]
            .as_str()
            .is_some_and(|listener| listener.starts_with("127.0.0.2:")),
        "{refused}"
    );
    let reloaded = of("reloaded").expect("a line");
    assert_eq!(reloaded["setting"], "authentication.scram");
    assert_ne!(reloaded["before"], reloaded["after"]);
    assert_eq!(of("not_reloaded").expect("a line")["digest"], reloaded["after"]);
    assert_eq!(lines.last().expect("a line")["kind"], "stopped");
    let text = std::fs::read_to_string(path("audit.log")).expect("written");
    for secret in ["a secret word", "a payload", "SCRAM-SHA-256$"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_policy_that_was_read_again_is_in_the_audit_log() {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let allow = |client_id: &str| {
        let policy = format!(
            "rules:\n- principals: {{clientIds: [{client_id}]}}\n  brokerResources:\n  - method: Connect\n"
        );
        std::fs::write(path("fleet.yaml"), policy).expect("written");
    };
    allow("pump-7");
    let settings = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthorization = \"fleet\"\n\
         [authorization.fleet]\nfile = \"{}\"\n[audit]\nfile = \"{}\"\n",
        path("fleet.yaml").display(),
        path("audit.log").display()
    );
    let mut server = Configured::start(&settings);
    allow("pump-8");
    server.signal("HUP");
    server.logged("took the file of authorization.fleet anew");
    server.terminate();

    let lines = lines(&path("audit.log"));
    let reloaded = lines.iter().find(|line| line["kind"] == "reloaded");
    let reloaded = reloaded.expect("a line");
    assert_eq!(reloaded["setting"], "authorization.fleet");
    assert_ne!(reloaded["before"], reloaded["after"]);
}
