//! Sending clients to another server.

use client::protocol::ReasonCode;
use client::protocol::packet::{Packet, ProtocolVersion};

use crate::configured::Configured;
use crate::support::wire::{Wire, connect};

fn open(server: &Configured) -> Wire {
    Wire::open(server.at("mqtt").parse().expect("an address")).expect("open")
}

fn start(redirect: &str) -> Configured {
    Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[redirect]\nserver = \"b.example:1883\"\n{redirect}"
    ))
}

#[test]
fn clients_of_a_server_that_stops_are_told_where_to_go_on() {
    let server = start("");
    let mut wire = open(&server);
    wire.send_connect(connect("c", true)).expect("sent");
    assert!(matches!(wire.receive(), Ok(Packet::ConnAck(_))));
    server.signal("TERM");
    let Ok(Packet::Disconnect(disconnect)) = wire.receive() else {
        panic!("no DISCONNECT")
    };
    assert_eq!(disconnect.reason, ReasonCode::UseAnotherServer);
    assert_eq!(disconnect.server_reference.as_deref(), Some("b.example:1883"));
}

#[test]
fn a_server_that_has_moved_lets_nobody_in() {
    let server = start("permanent = true\nnew_clients = true\n");
    for (version, reason, reference) in [
        (
            ProtocolVersion::V5,
            ReasonCode::ServerMoved,
            Some("b.example:1883"),
        ),
        (ProtocolVersion::V311, ReasonCode::ServerUnavailable, None),
    ] {
        let mut wire = open(&server);
        let mut packet = connect("c", true);
        packet.version = version;
        wire.send_connect(packet).expect("sent");
        let Ok(Packet::ConnAck(connack)) = wire.receive() else {
            panic!("no CONNACK")
        };
        assert_eq!(connack.reason, reason);
        assert_eq!(connack.properties.server_reference.as_deref(), reference);
        assert!(wire.receive().is_err(), "the connection ends");
    }
}

#[test]
fn a_redirect_to_nowhere_is_refused() {
    for (redirect, why) in [
        ("new_clients = true", "without saying where"),
        ("server = \"mqtt://b.example\"", "write for example"),
        ("server = \"a  b\"", "write for example"),
    ] {
        let told = Configured::refused(&format!("[redirect]\n{redirect}\n")).stderr;
        assert!(told.contains("`redirect.server`") && told.contains(why), "{told}");
    }
}
