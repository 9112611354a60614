//! What an operator sees of a server that runs, and does to it, by the command line and over HTTP.

use std::process::Command;

use client::protocol::ReasonCode;
use client::protocol::packet::{Packet, QoS};
use serde_json::{Value, json};

use crate::admin::Tokens;
use crate::configured::Configured;
use crate::harness::{Ran, page, run, statehold};
use crate::raw::{Raw, connect, connect_durably};

/// A server with tokens, and the commands that ask it.
pub(crate) struct Asked {
    pub(crate) server: Configured,
    tokens: Tokens,
}

impl Asked {
    pub(crate) fn start() -> Self {
        let tokens = Tokens::new();
        let server = Configured::start(&format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n{}",
            tokens.settings()
        ));
        Self { server, tokens }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = statehold(arguments);
        command
            .env("STATEHOLD_ADMIN", format!("http://{}", self.server.at("admin")))
            .env("STATEHOLD_ADMIN_TOKEN", &self.tokens.write);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments))
    }

    /// The objects that a command prints.
    fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let ran = self.run(arguments).expect(0);
        let lines = ran.text().lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// The client ids that a list has.
    fn names(&self, arguments: &[&str]) -> Vec<String> {
        let found = self.objects(arguments).into_iter();
        let names = found.map(|client| client["client_id"].as_str().expect("a name").to_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn retain(&self, topic: &str, payload: &str) {
        self.server
            .run("mqtt", &["pub", topic, payload, "--retain", "--qos", "1"])
            .expect(0);
    }
}

#[test]
fn clients_are_listed_shown_and_disconnected() {
    let asked = Asked::start();
    let address = asked.server.at("mqtt").to_owned();
    let mut pump = Raw::connect(&address, connect_durably("pump/7"));
    pump.subscribe("plant/+", QoS::AtLeastOnce);
    let mut away = Raw::connect(&address, connect_durably("pump 8"));
    away.subscribe("$share/s/plant/#", QoS::AtMostOnce);
    away.reset();
    let _valve = Raw::connect(&address, connect("valve"));
    while asked.objects(&["clients", "list", "--json", "--connected"]).len() > 2 {}

    let ran = asked.run(&["clients", "list", "--search", "PUMP"]).expect(0);
    let lines: Vec<_> = ran.text().lines().collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("CLIENT  CONNECTED"), "{lines:#?}");
    assert_eq!(
        asked.names(&["clients", "list", "--json"]),
        ["pump 8", "pump/7", "valve"]
    );
    assert_eq!(
        asked.names(&["clients", "list", "--json", "--disconnected"]),
        ["pump 8"]
    );
    let ran = asked.run(&["clients", "list", "--limit", "2"]).expect(0);
    assert!(ran.stderr.contains("2 are shown of 3 in all"), "{ran:?}");
    asked.run(&["clients", "list", "--search", "nobody"]).expect(1);

    let shown = asked
        .run(&["clients", "show", "pump/7", "--json"])
        .expect(0)
        .json();
    assert_eq!(shown["subscriptions_list"][0]["filter"], "plant/+");
    assert_eq!(
        (&shown["protocol"], &shown["keep_alive_s"]),
        (&json!("5"), &json!(60))
    );
    assert_eq!(shown["listener"], address);
    assert_eq!(shown["owners"], json!([shown["node"]]));
    assert!(
        shown["connected_since"]
            .as_str()
            .is_some_and(|since| since.ends_with('Z'))
    );
    let ran = asked.run(&["clients", "show", "pump 8"]).expect(0);
    assert!(ran.text().contains("plant/#  s"), "{ran:?}");
    let ran = asked.run(&["clients", "show", "nobody"]).expect(1);
    assert!(ran.stderr.contains("no client `nobody` has a session"), "{ran:?}");
}

#[test]
fn a_client_that_is_disconnected_is_told_why_and_keeps_its_session() {
    let asked = Asked::start();
    let address = asked.server.at("mqtt").to_owned();
    let mut pump = Raw::connect(&address, connect_durably("pump/7"));
    let _valve = Raw::connect(&address, connect("valve"));
    asked
        .run(&["clients", "disconnect", "pump/7", "--reason", "replaced"])
        .expect(0);
    match pump.receive() {
        Packet::Disconnect(said) => {
            assert_eq!(said.reason, ReasonCode::AdministrativeAction);
            assert_eq!(said.explanation.reason_string.as_deref(), Some("replaced"));
        }
        other => panic!("not disconnected: {other:?}"),
    }
    pump.closed();
    assert_eq!(
        asked.names(&["clients", "list", "--json", "--disconnected"]),
        ["pump/7"]
    );
    asked.run(&["clients", "disconnect", "pump/7"]).expect(1);
    let mut reader = asked.command(&["clients", "disconnect", "valve"]);
    reader.env("STATEHOLD_ADMIN_TOKEN", &asked.tokens.read);
    let ran = run(reader).expect(2);
    assert!(ran.stderr.contains("scope write"), "{ran:?}");
}

#[test]
fn retained_messages_are_listed_got_and_deleted() {
    let asked = Asked::start();
    for (topic, payload) in [
        ("plant/1/state", "on"),
        ("plant/2/state", "off"),
        ("/odd//topic", "x"),
    ] {
        asked.retain(topic, payload);
    }
    let ran = asked.run(&["retained", "list"]).expect(0);
    assert_eq!(ran.text().lines().count(), 4, "{ran:?}");
    let found = asked.objects(&["retained", "list", "plant/+/state", "--json"]);
    let topics: Vec<_> = found.iter().map(|message| &message["topic"]).collect();
    assert_eq!(topics, ["plant/1/state", "plant/2/state"]);
    let ran = asked
        .run(&["retained", "list", "--limit", "1", "--json"])
        .expect(0);
    assert_eq!(ran.text().lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("--all"), "{ran:?}");
    assert_eq!(
        asked.run(&["retained", "get", "/odd//topic"]).expect(0).text(),
        "x"
    );
    let got = asked
        .run(&["retained", "get", "plant/2/state", "--json"])
        .expect(0)
        .json();
    assert_eq!((&got["payload_base64"], &got["qos"]), (&json!("b2Zm"), &json!(1)));
    asked.run(&["retained", "get", "plant/3/state"]).expect(1);
    let ran = asked.run(&["retained", "get", "plant/+"]).expect(2);
    assert!(ran.stderr.contains("no topic name"), "{ran:?}");

    asked.run(&["retained", "delete", "plant/1/state"]).expect(0);
    asked
        .run(&["retained", "delete", "/odd//topic", "--json"])
        .expect(0);
    asked.run(&["retained", "delete", "plant/1/state"]).expect(1);
    asked
        .run(&["retained", "delete", "$SYS/broker/version"])
        .expect(2);
    let found = asked.objects(&["retained", "list", "--json"]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_server_says_what_it_is_and_whether_it_is_well() {
    let asked = Asked::start();
    for arguments in [&["health"][..], &["health", "--ready"], &["health", "--json"]] {
        asked.run(arguments).expect(0);
    }
    let mut nobody = asked.command(&["health"]);
    nobody.env("STATEHOLD_ADMIN", "http://127.0.0.1:1");
    run(nobody).expect(1);
    let (_, refused) = page(asked.server.at("admin"), "/api/node");
    assert_eq!(
        refused,
        r#"{"error":"a token is needed: Authorization: Bearer TOKEN"}"#
    );
    // Without a cluster there are no rings.
    let ran = asked.run(&["cluster", "rings"]).expect(2);
    assert!(ran.stderr.contains("not part of a cluster"), "{ran:?}");
}

#[test]
fn keys_have_one_name_for_all_their_commands() {
    let asked = Asked::start();
    let keys = |arguments: &[&str]| asked.server.run("mqtt", &[&["keys"], arguments].concat());
    keys(&["set", "a", "1"]).expect(0);
    assert_eq!(keys(&["get", "a"]).expect(0).text(), "1");
    assert_eq!(keys(&["list"]).expect(0).text(), "a");
    keys(&["del", "a"]).expect(0);
    keys(&["get", "a"]).expect(1);
}

#[test]
fn a_node_says_where_it_takes_websockets() {
    let server = Configured::start(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         allow_anonymous = true\n[listeners.websocket]\npath = \"/plant\"\n",
    );
    let (_, node) = page(server.at("admin"), "/api/node");
    let node: Value = serde_json::from_str(&node).expect("JSON");
    let paths = ["/listeners/0/path", "/listeners/1/path"].map(|path| node.pointer(path).cloned());
    assert_eq!(paths, [Some(Value::Null), Some(json!("/plant"))], "{node}");
}
