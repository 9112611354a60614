//! Numbered subscriptions of persistent sessions.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use client::protocol::packet::{Packet, QoS, Unsubscribe};
use client::protocol::properties::UserProperties;

use super::Progress;
use super::support::wire::{Wire, ack, connect, id, publish, subscribe, text};

/// Subscribes to one filter after the other and gives the oldest up again.
///
/// A filter whose SUBACK or UNSUBACK was lost may be there or not, so it is neither held nor ended.
#[derive(Debug)]
pub(crate) struct Writer {
    name: String,
    is_known: bool,
    /// Whose SUBACK came and whose end was not asked for; at most [`HELD_MAX`].
    held: VecDeque<u64>,
    /// Whose UNSUBACK came last; at most [`HELD_MAX`].
    ended: VecDeque<u64>,
    next: u64,
}

impl Writer {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            name: format!("subscriber-{number}"),
            is_known: false,
            held: VecDeque::new(),
            ended: VecDeque::new(),
            next: 1,
        }
    }

    fn filter(&self, number: u64) -> String {
        format!("{}/{number}", self.name)
    }

    fn open(&mut self, server: SocketAddr) -> io::Result<Wire> {
        let (wire, connack) = Wire::connect(server, connect(&self.name, false))?;
        assert!(
            connack.session_present || !self.is_known,
            "{}: the session is gone",
            self.name
        );
        self.is_known = true;
        Ok(wire)
    }

    /// Subscribes and unsubscribes until the connection ends.
    pub(crate) fn load(&mut self, server: SocketAddr, progress: &Progress) -> io::Result<()> {
        let mut wire = self.open(server)?;
        loop {
            let number = self.next;
            self.next += 1;
            wire.send(&subscribe(&self.filter(number), QoS::AtLeastOnce, 1))?;
            let packet = wire.receive()?;
            assert!(
                matches!(&packet, Packet::SubAck(suback) if !suback.reasons[0].is_error()),
                "{packet:?}"
            );
            self.held.push_back(number);
            progress.acknowledged();
            if self.held.len() > HELD_MAX {
                self.end_oldest(&mut wire)?;
                progress.acknowledged();
            }
        }
    }

    fn end_oldest(&mut self, wire: &mut Wire) -> io::Result<()> {
        let Some(oldest) = self.held.pop_front() else {
            return Ok(());
        };
        wire.send(&Packet::Unsubscribe(Unsubscribe {
            packet_id: id(2),
            user_properties: UserProperties::EMPTY,
            filters: vec![text(&self.filter(oldest))],
        }))?;
        assert!(matches!(wire.receive()?, Packet::UnsubAck(_)));
        self.ended.push_back(oldest);
        if self.ended.len() > HELD_MAX {
            self.ended.pop_front();
        }
        Ok(())
    }

    /// Publishes to every filter: each one held must deliver, each one ended must not.
    pub(crate) fn check(&mut self, server: SocketAddr) -> io::Result<()> {
        let mut wire = self.open(server)?;
        let expected: Vec<(u64, bool)> = self
            .ended
            .iter()
            .map(|&number| (number, false))
            .chain(self.held.iter().map(|&number| (number, true)))
            .collect();
        for (number, is_held) in expected {
            wire.send(&Packet::Publish(Box::new(publish(
                &self.filter(number),
                "",
                QoS::AtLeastOnce,
                3,
            ))))?;
            let (mut is_delivered, mut is_acknowledged) = (false, false);
            while !is_acknowledged || is_delivered != is_held {
                match wire.receive()? {
                    Packet::Publish(message) => {
                        assert_eq!(message.topic.as_str(), self.filter(number));
                        assert!(is_held, "{}: filter {number} was given up", self.name);
                        is_delivered = true;
                        wire.send(&Packet::PubAck(ack(message.packet_id.unwrap())))?;
                    }
                    Packet::PubAck(_) => is_acknowledged = true,
                    other => panic!("{}: unexpected {other:?}", self.name),
                }
            }
        }
        Ok(())
    }
}

/// Enough to be worth a look, few enough to publish to each of them after each round.
const HELD_MAX: usize = 16;
