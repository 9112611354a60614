//! Lines about a client that goes from one node to another.

use client::protocol::ReasonCode;
use client::protocol::packet::{Disconnect, Packet, TopicAlias};
use serde_json::Value;

use super::member::{Member, Place};
use super::messages::wait_reached;
use crate::raw::{Raw, connect_durably, packet_id, publish};

/// Three nodes, each with an audit log.
fn audited_nodes(place: &Place) -> Vec<Member> {
    let start = |node: u16| {
        let settings = place.path(&format!("settings-{node}.toml"));
        let audit = format!("[audit]\nfile = \"{}\"\n", audit_file(place, node));
        std::fs::write(&settings, audit).expect("written");
        let mut command = place.command(node, 3);
        command.args(["--config", &settings]);
        Member::spawn(command)
    };
    let mut members: Vec<_> = (0..3).map(start).collect();
    members.iter_mut().for_each(Member::wait_ready);
    wait_reached(&members);
    members
}

fn audit_file(place: &Place, node: u16) -> String {
    place.path(&format!("audit-{node}.log"))
}

/// The first line of a kind and a reason in the audit log of a node that has stopped.
fn audited(place: &Place, node: u16, kind: &str, reason: &str) -> Value {
    let text = std::fs::read_to_string(audit_file(place, node)).expect("written");
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let found = lines.find(|line| line["kind"] == kind && line["reason"] == reason);
    found.unwrap_or_else(|| panic!("no {kind} with {reason} in {text}"))
}

/// DISCONNECT of the server, and the end of the connection.
fn ended(client: &mut Raw) -> Disconnect {
    match client.receive() {
        Packet::Disconnect(disconnect) => {
            client.closed();
            disconnect
        }
        other => panic!("not told why: {other:?}"),
    }
}

/// A session at a node, whose client is away.
fn leave_session(member: &Member, client_id: &str) {
    let mut client = Raw::connect(member.at("mqtt"), connect_durably(client_id));
    client.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    client.closed();
}

fn address_of(client: &Raw) -> String {
    client.stream.local_addr().expect("an address").to_string()
}

#[track_caller]
fn assert_has(line: &str, texts: &[&str]) {
    for text in texts {
        assert!(line.contains(text), "no {text} in {line}");
    }
}

#[test]
fn a_client_that_connects_to_another_node_has_its_line_where_it_was() {
    let place = Place::new();
    let mut members = audited_nodes(&place);
    let mut first = Raw::connect(members[0].at("mqtt"), connect_durably("wanderer"));
    let address = address_of(&first);
    let mut second = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
    assert!(second.accepted(), "the session is present");
    assert_eq!(ended(&mut first).reason, ReasonCode::SessionTakenOver);

    let line = members[0].logged(&["closed connection: another connection uses this client id"]);
    let (peer, reason) = (format!("peer={address} "), "0x8E Session taken over");
    assert_has(&line, &[" INFO ", "client_id=wanderer", &peer, reason]);
    assert_eq!(members.remove(0).terminate(), Some(0));
    let said = audited(&place, 0, "disconnected", reason);
    assert_eq!(said["client_id"], "wanderer");
    assert_eq!(said["peer"], address);
    assert_eq!(said["why"], "another connection uses this client id");
}

#[test]
fn a_session_that_was_taken_over_meanwhile_ends_the_connection_with_a_line() {
    let place = Place::new();
    let mut members = audited_nodes(&place);
    let mut first = Raw::connect(members[0].at("mqtt"), connect_durably("wanderer"));
    let address = address_of(&first);
    members[0].signal("STOP");
    // What either of the others asks of it before that, it does when it goes on.
    for other in &mut members[1..] {
        other.logged(&["lost the connection to a node"]);
    }
    // Until the others do not wait for the node any more they may refuse the client.
    let second = loop {
        let mut second = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
        match second.receive() {
            Packet::ConnAck(connack) if connack.reason == ReasonCode::Success => {
                assert!(connack.session_present, "a copy of it goes on");
                break second;
            }
            Packet::ConnAck(_) => {}
            other => panic!("no CONNACK: {other:?}"),
        }
    };
    // One that is connected to both nodes loses one connection for that.
    drop(second);
    while members[1].figure("statehold_connections") > 0.0 {
        // Each look is a request; the harness ends what takes too long.
    }
    members[0].signal("CONT");
    assert_eq!(ended(&mut first).reason, ReasonCode::SessionTakenOver);

    let why = "another connection uses this client id";
    let line = members[0].logged(&[&format!("closed connection: {why}")]);
    let (peer, reason) = (format!("peer={address} "), "0x8E Session taken over");
    assert_has(&line, &[" INFO ", "client_id=wanderer", &peer, reason]);
    assert_eq!(members.remove(0).terminate(), Some(0));
    let said = audited(&place, 0, "disconnected", reason);
    assert_eq!(said["peer"], address);
    assert_eq!(said["why"], why);
}

#[test]
fn lines_are_at_the_node_of_the_connection_wherever_the_session_was_begun() {
    let place = Place::new();
    let mut members = audited_nodes(&place);
    leave_session(&members[0], "wanderer");
    let mut client = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
    assert!(client.accepted(), "the session is present");
    let peer = format!("peer={} ", address_of(&client));

    client.send(&publish("$SYS/a", Some(packet_id(1)), b""));
    match client.receive() {
        Packet::PubAck(ack) => assert_eq!(ack.reason, ReasonCode::NotAuthorized),
        other => panic!("no PUBACK: {other:?}"),
    }
    let line = members[1].logged(&["rejected PUBLISH: "]);
    assert_has(&line, &[" INFO ", "client_id=wanderer", &peer, "topic=$SYS/a"]);

    let mut aliased = publish("t", None, b"");
    if let Packet::Publish(publish) = &mut aliased {
        publish.topic_alias = TopicAlias::new(u16::MAX);
    }
    client.send(&aliased);
    assert_eq!(ended(&mut client).reason, ReasonCode::TopicAliasInvalid);
    let reason = "0x94 Topic Alias invalid";
    let line = members[1].logged(&["closed connection: ", reason]);
    assert_has(&line, &[" INFO ", "client_id=wanderer", &peer, "topic=t "]);

    assert_eq!(members.remove(1).terminate(), Some(0));
    let said = audited(&place, 1, "disconnected", reason);
    assert_eq!(said["client_id"], "wanderer");
    assert_eq!(said["peer"], address_of(&client));
}
