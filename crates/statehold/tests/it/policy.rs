//! `policy`

use crate::harness::{Ran, run, statehold};

const POLICY: &str = "\
rules:
  - principals:
      attributes:
        - group: pumps
    brokerResources:
      - method: Connect
        clientIds: ['{principal.username}']
      - method: Publish
        topics: ['telemetry/{principal.clientId}/#']
      - method: Subscribe
        topics: ['commands/{principal.clientId}/+']
    stateStoreResources:
      - method: ReadWrite
        keys: ['pumps/{principal.clientId}/*']
  - principals:
      clientIds: ['*']
    brokerResources:
      - method: Publish
        topics: ['#']
";

/// Asks a policy that has the text, with the words of the line.
fn check(policy: &str, line: &str, exit: i32) -> Ran {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.yaml");
    std::fs::write(&file, policy).expect("written");
    let mut args = vec!["policy", "check", file.to_str().expect("text")];
    args.extend(line.split_whitespace());
    run(statehold(&args)).expect(exit)
}

#[test]
fn a_policy_is_checked_and_its_doubts_are_told() {
    let ran = check(POLICY, "", 0);
    let told = ran.text();
    assert!(told.contains("a policy with 2 rules"), "{told}");
    assert!(
        told.contains("policy.yaml:15: warning: rule 2, brokerResources 1"),
        "{told}"
    );
    let json = check(POLICY, "--json", 0).json();
    assert_eq!(json["rules"], 2);
    assert_eq!(json["warnings"][0]["line"], 15);
}

#[test]
fn a_mistake_is_named_with_its_line() {
    for (policy, expected) in [
        (
            POLICY.replace("topics: ['#']", "topic: ['#']"),
            "policy.yaml:19: one of brokerResources has no `topic`",
        ),
        (
            POLICY.replace("['#']", "['a/#/b']"),
            "policy.yaml:19: rule 2, brokerResources 1, topics 1: `a/#/b`",
        ),
        ("rules: [".to_owned(), "policy.yaml:"),
    ] {
        let ran = check(&policy, "--connect", 2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    run(statehold(&["policy", "check", "/no/such/file.yaml"])).expect(2);
    run(statehold(&["policy", "check", "policy.txt"])).expect(2);
}

#[test]
fn the_rule_that_decides_is_told() {
    let client = "--client pump-7 --username pump-7 --attribute group=pumps";
    let allowed = check(
        POLICY,
        &format!(
            "{client} --connect --publish telemetry/pump-7/a --subscribe $share/g/commands/pump-7/+ --write pumps/pump-7/x"
        ),
        0,
    );
    let told = allowed.text();
    for expected in [
        "allowed: connect\n  by rule 1 (",
        "policy.yaml:2), brokerResources 1\n",
        "allowed: publish to telemetry/pump-7/a\n",
        "brokerResources 2: `telemetry/{principal.clientId}/#`\n",
        "allowed: subscribe to commands/pump-7/+\n",
        "stateStoreResources 1: `pumps/{principal.clientId}/*`",
    ] {
        assert!(told.contains(expected), "{expected} in {told}");
    }

    let denied = check(POLICY, &format!("{client} --connect --subscribe commands/#"), 1);
    let told = denied.text();
    assert!(told.contains("allowed: connect"), "{told}");
    assert!(
        told.contains("nearest is rule 1 (") && told.contains("has `commands/{principal.clientId}/+`"),
        "{told}"
    );
    let told = check(
        POLICY,
        "--client pump-7 --username x --attribute group=pumps --connect",
        1,
    );
    assert!(
        told.text()
            .contains("for other client ids: `{principal.username}`"),
        "{}",
        told.text()
    );
    let told = check(POLICY, "--client pump-7 --read pumps/pump-7/x", 1);
    assert!(told.text().contains("not about this client"), "{}", told.text());

    let json = check(POLICY, "--client x --publish a --json", 0).json();
    assert_eq!(
        json,
        serde_json::json!({
            "request": "publish", "asked": "a", "allowed": true, "rule": 2, "line": 15,
            "principals_match": true, "brokerResources": 1, "text": "#",
        })
    );
}

#[test]
fn what_cannot_be_asked_is_refused() {
    for line in [
        "--publish a/#",
        "--subscribe a#",
        "--attribute x",
        "--publish",
        "--subscribe $share/g",
    ] {
        check(POLICY, line, 3);
    }
}
