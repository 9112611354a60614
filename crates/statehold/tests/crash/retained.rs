//! Numbered retained messages.

use std::io;
use std::net::SocketAddr;

use client::protocol::packet::{Packet, QoS};

use super::Progress;
use super::support::wire::{Wire, ack, connect, publish, subscribe};

/// Replaces the retained message of one topic.
#[derive(Debug)]
pub(crate) struct Writer {
    topic: String,
    sent: u64,
    /// The greatest number that was acknowledged or read back.
    known: u64,
}

impl Writer {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            topic: format!("retained/{number}"),
            sent: 0,
            known: 0,
        }
    }

    /// Publishes until the connection ends.
    pub(crate) fn load(&mut self, server: SocketAddr, progress: &Progress) -> io::Result<()> {
        let (mut wire, _) = Wire::connect(server, connect("", true))?;
        loop {
            self.sent += 1;
            let mut message = publish(&self.topic, self.sent.to_string(), QoS::AtLeastOnce, 1);
            message.retain = true;
            wire.send(&Packet::Publish(Box::new(message)))?;
            let packet = wire.receive()?;
            assert!(
                matches!(&packet, Packet::PubAck(puback) if !puback.reason.is_error()),
                "{packet:?}"
            );
            self.known = self.sent;
            progress.acknowledged();
        }
    }

    /// Reads the retained message back.
    pub(crate) fn check(&mut self, server: SocketAddr) -> io::Result<()> {
        if self.known == 0 {
            return Ok(());
        }
        let (mut wire, _) = Wire::connect(server, connect("", true))?;
        wire.send(&subscribe(&self.topic, QoS::AtLeastOnce, 1))?;
        loop {
            match wire.receive()? {
                Packet::SubAck(_) => {}
                Packet::Publish(message) => {
                    wire.send(&Packet::PubAck(ack(message.packet_id.unwrap())))?;
                    let number: u64 = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
                    assert!(message.retain);
                    assert!(
                        (self.known..=self.sent).contains(&number),
                        "{}: {number} is there, not one of {} to {}",
                        self.topic,
                        self.known,
                        self.sent
                    );
                    self.known = number;
                    return Ok(());
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}
