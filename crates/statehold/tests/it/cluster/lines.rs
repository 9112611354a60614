//! Lines about a client whose connection goes from one node to another, or is at another node than its session.

use client::protocol::ReasonCode;
use client::protocol::packet::{Disconnect, Packet, TopicAlias};
use serde_json::Value;

use super::member::{Member, Place};
use super::messages::wait_reached;
use crate::raw::{Raw, connect_durably, packet_id, publish};

/// Three nodes, each with an audit log and these settings.
fn audited_nodes(place: &Place, further: &str) -> Vec<Member> {
    let start = |node: u16| {
        let settings = place.path(&format!("settings-{node}.toml"));
        let audit = format!("{further}[audit]\nfile = \"{}\"\n", audit_file(place, node));
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

/// The id of a node, as another one says it.
fn id_of(place: &Place, node: u16, teller: &mut Member) -> String {
    let line = teller.logged(&["connected to a node", &format!("address={} ", place.peer(node))]);
    let id = line.split(' ').find_map(|word| word.strip_prefix("node="));
    id.unwrap_or_else(|| panic!("no id in {line}")).to_owned()
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

/// Looks for the line of a node whose client another node has sent away.
fn assert_front_says(front: &mut Member, client: &Raw, client_id: &str, holder: &str) {
    let line = front.logged(&["closed connection: the node with the session ended it"]);
    let peer = format!("peer={} ", address_of(client));
    let (client_id, held_by) = (format!("client_id={client_id} "), format!("held_by={holder}"));
    assert_has(
        &line,
        &[" INFO ", &client_id, &peer, "listener=127.0.0.1:", &held_by],
    );
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
    let mut members = audited_nodes(&place, "");
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
fn a_session_that_goes_on_at_another_node_ends_the_connection_with_a_line() {
    let place = Place::new();
    let mut members = audited_nodes(&place, "");
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

    let why = "the session goes on at another node";
    let line = members[0].logged(&[&format!("closed connection: {why}")]);
    let (peer, reason) = (format!("peer={address} "), "0x8E Session taken over");
    assert_has(&line, &[" INFO ", "client_id=wanderer", &peer, reason]);
    assert_eq!(members.remove(0).terminate(), Some(0));
    let said = audited(&place, 0, "disconnected", reason);
    assert_eq!(said["peer"], address);
    assert_eq!(said["why"], why);
}

#[test]
fn lines_of_the_node_with_the_session_name_the_node_with_the_connection() {
    let place = Place::new();
    let mut members = audited_nodes(&place, "");
    let front = id_of(&place, 1, &mut members[0]);
    let holder = id_of(&place, 0, &mut members[1]);
    leave_session(&members[0], "wanderer");
    let mut client = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
    assert!(client.accepted(), "the session is present");

    client.send(&publish("$SYS/a", Some(packet_id(1)), b""));
    match client.receive() {
        Packet::PubAck(ack) => assert_eq!(ack.reason, ReasonCode::NotAuthorized),
        other => panic!("no PUBACK: {other:?}"),
    }
    let at = format!("connected_to={front} ");
    let line = members[0].logged(&["rejected PUBLISH: "]);
    assert_has(&line, &[" INFO ", "client_id=wanderer", &at, "topic=$SYS/a"]);

    let mut aliased = publish("t", None, b"");
    if let Packet::Publish(publish) = &mut aliased {
        publish.topic_alias = TopicAlias::new(u16::MAX);
    }
    client.send(&aliased);
    assert_eq!(ended(&mut client).reason, ReasonCode::TopicAliasInvalid);
    let reason = "0x94 Topic Alias invalid";
    let line = members[0].logged(&["closed connection: ", reason]);
    assert_has(&line, &[" INFO ", "client_id=wanderer", &at, "topic=t "]);
    assert_front_says(&mut members[1], &client, "wanderer", &holder);

    assert_eq!(members.remove(0).terminate(), Some(0));
    let said = audited(&place, 0, "disconnected", reason);
    assert_eq!(said["connected_to"], front);
    assert_eq!(said.get("peer"), None);
}

#[test]
fn a_client_that_the_node_with_its_session_refuses_has_a_line_at_both() {
    let place = Place::new();
    let mut members = audited_nodes(&place, "[limits]\nconnections_max = 1\n");
    let front = id_of(&place, 2, &mut members[0]);
    let holder = id_of(&place, 0, &mut members[2]);
    for client_id in ["one", "other"] {
        leave_session(&members[0], client_id);
    }
    let mut one = Raw::begin(members[1].at("mqtt"), connect_durably("one"));
    assert!(one.accepted(), "the session is present");
    let mut other = Raw::begin(members[2].at("mqtt"), connect_durably("other"));
    match other.receive() {
        Packet::ConnAck(connack) => assert_eq!(connack.reason, ReasonCode::ServerBusy),
        answer => panic!("no CONNACK: {answer:?}"),
    }
    other.closed();

    let why = "the limit of connections is reached at the node with the session";
    let line = members[0].logged(&[&format!("rejected CONNECT: {why}")]);
    let (at, reason) = (format!("connected_to={front} "), "0x89 Server busy");
    assert_has(&line, &[" INFO ", "client_id=other", &at, reason]);
    assert_front_says(&mut members[2], &other, "other", &holder);
    assert_eq!(members.remove(0).terminate(), Some(0));
    let said = audited(&place, 0, "refused", reason);
    assert_eq!(said["client_id"], "other");
    assert_eq!(said["connected_to"], front);
}
