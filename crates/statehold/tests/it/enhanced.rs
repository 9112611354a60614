//! The client's side of an Authentication Method, packet by packet.

use bytes::Bytes;
use client::protocol::ReasonCode;
use client::protocol::packet::{Auth, ConnAck, Packet};
use client::protocol::properties::Explanation;

use crate::configured::Configured;
use crate::support::wire::{Wire, connect, text};

/// Opens a connection that names a method, and sends its first data.
pub(crate) fn begin(server: &Configured, method: &str, data: Option<Bytes>) -> Wire {
    let mut wire = Wire::open(server.at("mqtt").parse().expect("an address")).expect("open");
    // Without a client id each gets its own.
    let mut packet = connect("", true);
    packet.properties.authentication_method = Some(text(method));
    packet.properties.authentication_data = data;
    wire.send_connect(packet).expect("sent");
    wire
}

/// The same with text, up to and with CONNACK.
pub(crate) fn open(server: &Configured, method: &str, data: &str) -> (Wire, ConnAck) {
    let mut wire = begin(server, method, Some(Bytes::copy_from_slice(data.as_bytes())));
    let connack = connack(&mut wire);
    (wire, connack)
}

/// How CONNECT is answered.
pub(crate) fn connack(wire: &mut Wire) -> ConnAck {
    match wire.receive().expect("an answer") {
        Packet::ConnAck(connack) => *connack,
        other => panic!("{other:?}"),
    }
}

/// Authenticates again with this text, and waits for what comes of it.
pub(crate) fn again(wire: &mut Wire, method: &str, data: &str) -> Packet {
    let data = Bytes::copy_from_slice(data.as_bytes());
    wire.send(&auth(ReasonCode::Reauthenticate, method, data))
        .expect("sent");
    wire.receive().expect("an answer")
}

pub(crate) fn auth(reason: ReasonCode, method: &str, data: Bytes) -> Packet {
    Packet::Auth(Auth {
        reason,
        method: Some(text(method)),
        data: Some(data),
        explanation: Explanation::default(),
    })
}
