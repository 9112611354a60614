//! Input that no client should send, against the running server: each is answered with a reason code, with
//! `-ERR`, or with the end of the connection, all within a bound; and the server goes on as if nothing had been.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says why it fails by failing"
)]

mod mutations;
mod packets;
mod requests;
mod state;
#[path = "../support/support.rs"]
mod support;

use std::io;

use client::protocol::packet::{Packet, QoS};
use support::server::Server;
use support::wire::{Wire, ack, connect, publish, subscribe};

/// Everything that the server sends until it ends the connection, and whether it did so in time.
///
/// An error other than the end of the connection means that it did not.
fn until_the_end(wire: &mut Wire) -> Vec<Packet> {
    let mut packets = Vec::new();
    loop {
        match wire.receive() {
            Ok(packet) => packets.push(packet),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                ) =>
            {
                return packets;
            }
            Err(error) => panic!("the server neither answers nor closes: {error}, after {packets:?}"),
        }
    }
}

/// A well-behaved client is served, and the admin pages are too.
fn assert_serves(server: &Server) {
    let (mut wire, _) = Wire::connect(server.mqtt(), connect("well-behaved", true)).unwrap();
    wire.send(&subscribe("still/here", QoS::AtLeastOnce, 1)).unwrap();
    assert!(matches!(wire.receive().unwrap(), Packet::SubAck(_)));
    wire.send(&Packet::Publish(Box::new(publish(
        "still/here",
        "yes",
        QoS::AtLeastOnce,
        2,
    ))))
    .unwrap();
    let mut is_delivered = false;
    let mut is_acknowledged = false;
    while !is_delivered || !is_acknowledged {
        match wire.receive().unwrap() {
            Packet::Publish(message) => {
                wire.send(&Packet::PubAck(ack(message.packet_id.unwrap())))
                    .unwrap();
                is_delivered = true;
            }
            Packet::PubAck(_) => is_acknowledged = true,
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(
        server
            .admin_page("/metrics")
            .lines()
            .any(|line| line.starts_with("statehold_"))
    );
    server.admin_page("/healthz");
}
