//! What an operator sees of clients and messages in a cluster, by way of any node.

use client::protocol::ReasonCode;
use client::protocol::packet::Packet;
use serde_json::Value;

use super::growing::Operated;
use super::member::{Member, TRIES};
use crate::harness::{Ran, run, statehold};
use crate::raw::{Raw, connect_durably};

fn ask(operated: &Operated, member: &Member, arguments: &[&str]) -> Ran {
    let mut command = statehold(arguments);
    command.args(["--admin", &format!("http://{}", member.at("admin"))]);
    command.env("STATEHOLD_ADMIN_TOKEN", &operated.token);
    run(command)
}

fn shown(operated: &Operated, member: &Member, client_id: &str) -> Value {
    ask(operated, member, &["clients", "show", client_id, "--json"])
        .expect(0)
        .json()
}

fn disconnected(client: &mut Raw) {
    match client.receive() {
        Packet::Disconnect(said) => assert_eq!(said.reason, ReasonCode::AdministrativeAction),
        other => panic!("not disconnected: {other:?}"),
    }
    client.closed();
}

#[test]
fn a_client_is_seen_at_every_node_and_disconnected_at_the_one_of_its_connection() {
    let operated = Operated::new();
    let members = operated.start_running();
    drop(Raw::connect(members[0].at("mqtt"), connect_durably("wanderer")));
    let mut client = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
    client.accepted();
    let here = shown(&operated, &members[1], "wanderer");
    assert_eq!(here["connected_to"], here["node"], "{here}");
    assert!(here["address"].is_string(), "{here}");
    let elsewhere = shown(&operated, &members[0], "wanderer");
    assert_eq!(elsewhere["connected_to"], here["node"], "{elsewhere}");
    assert_eq!(elsewhere["address"], Value::Null);
    assert_eq!(elsewhere["owners"], here["owners"]);
    assert_eq!(here["owners"].as_array().map(Vec::len), Some(3), "{here}");

    let refused = ask(&operated, &members[0], &["clients", "disconnect", "wanderer"]).expect(1);
    let node = here["node"].as_str().expect("an id");
    assert!(refused.stderr.contains(node), "{refused:?}");
    ask(&operated, &members[1], &["clients", "disconnect", "wanderer"]).expect(0);
    disconnected(&mut client);
}

#[test]
fn what_is_deleted_at_one_node_is_retained_at_none_and_rings_are_shown() {
    let operated = Operated::new();
    let members = operated.place.start_all(3);
    let retain = ["pub", "plant/1", "on", "--retain", "--qos", "1"];
    members[0].until(&retain);
    for member in &members {
        ask(&operated, member, &["retained", "get", "plant/1"]).expect(0);
    }
    ask(&operated, &members[2], &["retained", "delete", "plant/1"]).expect(0);
    for member in &members {
        ask(&operated, member, &["retained", "get", "plant/1"]).expect(1);
    }

    let is_whole = |rings: &Ran| {
        rings
            .text()
            .lines()
            .filter(|line| line.contains(" RUNNING "))
            .count()
            == 3
    };
    let rings = || ask(&operated, &members[1], &["cluster", "rings"]);
    assert!((0..TRIES).any(|_| is_whole(&rings())), "{:?}", rings());
    let nodes = ask(&operated, &members[1], &["cluster", "nodes", "--json"]).expect(0);
    assert_eq!(nodes.text().lines().count(), 3);
    let groups = ask(&operated, &members[1], &["cluster", "groups"]).expect(0);
    assert!(groups.text().starts_with("GROUP"), "{groups:?}");
}
