//! A server that tests itself, and the command that tests one from outside.

use serde_json::Value;

use crate::configured::Configured;
use crate::harness::page;

const SETTINGS: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[limits]\nconnections_max = 1\n\
    [self_test]\ninterval = \"1s\"\n";

const STEPS: [&str; 7] = [
    "connect",
    "subscribe",
    "publish",
    "receive",
    "set",
    "get",
    "delete",
];

/// The last round, as soon as there is one.
fn first_round(server: &Configured) -> Value {
    loop {
        let (head, body) = page(server.at("admin"), "/api/self-test");
        if head.contains(" 200 ") {
            return serde_json::from_str(&body).expect("JSON");
        }
        assert!(head.contains(" 404 "), "{head}");
    }
}

#[test]
fn a_server_finds_itself_well_and_says_so() {
    let mut server = Configured::start(SETTINGS);
    let line = server.logged("the self-test finds everything well");
    assert!(!line.contains("WARN"), "{line}");

    let round = first_round(&server);
    assert_eq!(round["ok"], true, "{round}");
    let steps = round["steps"].as_array().expect("steps");
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["step"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, STEPS);
    for step in steps {
        assert_eq!((&step["result"], &step["why"]), (&"ok".into(), &Value::Null));
        let took = step["took_ms"].as_f64().expect("a number");
        assert!(took > 0.0 && took < 5_000.0, "{round}");
    }
    for step in STEPS {
        let count = format!("statehold_self_test_steps_total{{step=\"{step}\",result=\"ok\"}}");
        assert!(server.figure(&count) >= 1.0, "{step}");
        let took = format!("statehold_self_test_step_seconds_count{{step=\"{step}\"}}");
        assert!(server.figure(&took) >= 1.0, "{step}");
    }
    assert_eq!(server.figure("statehold_self_test_ok"), 1.0);
    // It went the way of a client, and left nothing behind.
    assert!(server.figure("statehold_connects_total{reason_code=\"0x00\"}") >= 1.0);
    assert!(server.figure("statehold_store_requests_total{verb=\"set\",result=\"ok\"}") >= 1.0);
    assert_eq!(server.figure("statehold_store_keys"), 0.0);
}

#[test]
fn a_server_whose_disk_of_keys_is_full_finds_that_its_clients_have_trouble() {
    let settings = format!("{SETTINGS}[state_store]\nkeys_max = 0\n");
    let mut server = Configured::start(&settings);

    let line = server.logged("the self-test failed");
    assert!(line.contains("step=set") || line.contains("\"set\""), "{line}");
    assert!(line.contains("failed"), "{line}");

    let round = first_round(&server);
    assert_eq!(round["ok"], false);
    let steps = round["steps"].as_array().expect("steps");
    let last = steps.last().expect("a step");
    assert_eq!(
        (&last["step"], &last["result"]),
        (&"set".into(), &"failed".into())
    );
    assert!(
        last["why"].as_str().is_some_and(|why| why.contains("quota")),
        "{last}"
    );
    // Messages do not need keys.
    assert_eq!(steps[3]["result"], "ok", "{round}");
    assert_eq!(server.figure("statehold_self_test_ok"), 0.0);
}

#[test]
fn without_the_setting_there_is_no_self_test() {
    let server = Configured::start("[[listeners]]\naddress = \"127.0.0.1:0\"\n");
    let (head, body) = page(server.at("admin"), "/api/self-test");
    assert!(head.contains(" 404 "), "{head}");
    assert!(body.contains("self_test.interval"), "{body}");
}

#[test]
fn a_server_is_tested_from_outside() {
    let server = Configured::start("[[listeners]]\naddress = \"127.0.0.1:0\"\n");
    let ran = server.run("mqtt", &["self-test", "--json"]).expect(0).json();
    assert_eq!(ran["ok"], true, "{ran}");
    let steps = ran["steps"].as_array().expect("steps");
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["step"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, STEPS);

    let ran = server.run("mqtt", &["self-test"]).expect(0);
    let lines: Vec<_> = ran.text().lines().collect();
    assert_eq!(lines.len(), 1 + STEPS.len(), "{lines:?}");
    assert!(
        lines[0].starts_with("STEP") && lines[1].starts_with("connect    ok"),
        "{lines:?}"
    );
    assert_eq!(server.figure("statehold_store_keys"), 0.0);

    let settings = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[state_store]\nkeys_max = 0\n";
    let full = Configured::start(settings);
    let ran = full.run("mqtt", &["self-test", "--json"]).expect(2);
    let said = ran.json();
    assert_eq!(said["ok"], false);
    let failed = said["steps"]
        .as_array()
        .expect("steps")
        .last()
        .expect("one")
        .clone();
    assert_eq!((&failed["step"], &failed["ok"]), (&"set".into(), &false.into()));
}
