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
fn a_client_is_seen_and_disconnected_at_the_node_with_its_connection_and_at_the_one_with_its_session() {
    let operated = Operated::new();
    let members = operated.place.start_all(3);
    drop(Raw::connect(members[0].at("mqtt"), connect_durably("wanderer")));
    for there in [0, 1] {
        let mut client = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
        client.accepted();
        let (holder, front) = (&members[0], &members[1]);
        let seen = shown(&operated, holder, "wanderer");
        let from_front = shown(&operated, front, "wanderer");
        assert_eq!(seen["connected_to"], from_front["node"], "{seen}");
        assert_eq!(seen["address"], Value::Null);
        assert_eq!(from_front["held_by"], seen["node"], "{from_front}");
        assert!(from_front["address"].is_string(), "{from_front}");
        ask(&operated, &members[there], &["clients", "disconnect", "wanderer"]).expect(0);
        disconnected(&mut client);
    }
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
            .filter(|line| line.starts_with("primary"))
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
