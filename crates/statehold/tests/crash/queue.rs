//! Numbered messages of QoS 1 and 2 through a persistent session to a persistent session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::thread::Scope;

use client::protocol::ReasonCode;
use client::protocol::packet::{Packet, PacketId, Publish, QoS};

use super::Progress;
use super::support::wire::{Wire, ack, connect, publish, subscribe};

/// How many messages of one publisher are under way at once.
const IN_FLIGHT: usize = 8;

/// A publisher and the consumer of its topic.
///
/// Half of the consumers stay away during the load, so that their messages are queued; the others receive
/// while the server dies. Both sides keep what MQTT lets a client keep over a lost connection.
#[derive(Debug)]
pub(crate) struct Pair {
    publisher: Publisher,
    consumer: Consumer,
    consumer_is_online: bool,
}

#[derive(Debug)]
struct Publisher {
    name: String,
    topic: String,
    qos: QoS,
    sent: u64,
    acknowledged: u64,
    /// What was sent more than once, because its acknowledgement was lost.
    resent: BTreeSet<u64>,
    /// By order of sending: what has not been acknowledged, and for QoS 2 what has not been completed.
    in_flight: Vec<Flight>,
}

#[derive(Debug)]
struct Flight {
    message: Publish,
    number: u64,
    /// QoS 2: PUBREC came, so PUBREL is what is sent again.
    is_received: bool,
}

#[derive(Debug)]
struct Consumer {
    name: String,
    qos: QoS,
    /// The greatest number that came.
    seen: u64,
    /// Numbers up to `seen` that did not come.
    missing: BTreeSet<u64>,
    /// QoS 1: what came again and did not say so. Legal only if the publisher sent it again.
    came_again: Vec<u64>,
    /// QoS 2: what came and has not been released.
    received: BTreeMap<PacketId, u64>,
}

impl Pair {
    pub(crate) fn new(number: u32) -> Self {
        let qos = if number.is_multiple_of(2) {
            QoS::AtLeastOnce
        } else {
            QoS::ExactlyOnce
        };
        Self {
            publisher: Publisher {
                name: format!("publisher-{number}"),
                topic: format!("queue/{number}"),
                qos,
                sent: 0,
                acknowledged: 0,
                resent: BTreeSet::new(),
                in_flight: Vec::new(),
            },
            consumer: Consumer {
                name: format!("consumer-{number}"),
                qos,
                seen: 0,
                missing: BTreeSet::new(),
                came_again: Vec::new(),
                received: BTreeMap::new(),
            },
            consumer_is_online: number < 3,
        }
    }

    /// Makes both sessions and the subscription.
    pub(crate) fn prepare(&self, server: SocketAddr) {
        let (mut wire, _) = Wire::connect(server, connect(&self.consumer.name, false)).unwrap();
        wire.send(&subscribe(&self.publisher.topic, QoS::ExactlyOnce, 1))
            .unwrap();
        assert!(matches!(wire.receive().unwrap(), Packet::SubAck(_)));
        Wire::connect(server, connect(&self.publisher.name, false)).unwrap();
    }

    /// Starts the publisher, and the consumer if it is one that stays.
    pub(crate) fn load<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        server: SocketAddr,
        progress: &'scope Progress,
    ) {
        let (publisher, consumer) = (&mut self.publisher, &mut self.consumer);
        scope.spawn(move || publisher.load(server, progress).unwrap_err());
        if self.consumer_is_online {
            scope.spawn(move || consumer.receive_until(server, |_| false).unwrap_err());
        }
    }

    /// Completes what the publisher had under way, then receives everything, and compares.
    pub(crate) fn check(&mut self, server: SocketAddr) -> io::Result<()> {
        self.publisher.complete(server)?;
        let last = self.publisher.acknowledged;
        assert_eq!(last, self.publisher.sent, "all was acknowledged in the end");
        self.consumer.receive_until(server, |consumer| {
            consumer.seen == last && consumer.received.is_empty()
        })?;
        let (name, missing) = (&self.consumer.name, &self.consumer.missing);
        assert!(missing.is_empty(), "{name} lacks acknowledged {missing:?}");
        for number in self.consumer.came_again.drain(..) {
            let resent = &self.publisher.resent;
            assert!(
                resent.contains(&number),
                "{name}: {number} came again without DUP"
            );
        }
        Ok(())
    }
}

impl Publisher {
    /// Publishes until the connection ends.
    fn load(&mut self, server: SocketAddr, progress: &Progress) -> io::Result<()> {
        let mut wire = self.resume(server)?;
        loop {
            while self.in_flight.len() < IN_FLIGHT {
                self.sent += 1;
                let packet_id = u16::try_from(self.sent % 60_000).unwrap() + 1;
                let message = publish(&self.topic, self.sent.to_string(), self.qos, packet_id);
                wire.queue(&Packet::Publish(Box::new(message.clone())));
                self.in_flight.push(Flight {
                    message,
                    number: self.sent,
                    is_received: false,
                });
            }
            wire.flush()?;
            self.next(&mut wire)?;
            progress.acknowledged();
        }
    }

    /// Resumes the session and waits until nothing is under way.
    fn complete(&mut self, server: SocketAddr) -> io::Result<()> {
        let mut wire = self.resume(server)?;
        while !self.in_flight.is_empty() {
            self.next(&mut wire)?;
        }
        Ok(())
    }

    /// Connects to the session that must still be there, and sends again what was under way. [MQTT-4.4.0-1]
    fn resume(&mut self, server: SocketAddr) -> io::Result<Wire> {
        let (mut wire, connack) = Wire::connect(server, connect(&self.name, false))?;
        assert!(connack.session_present, "{}: the session is gone", self.name);
        for flight in &mut self.in_flight {
            flight.message.dup = true;
            let packet_id = flight.message.packet_id.unwrap();
            if flight.is_received {
                wire.queue(&Packet::PubRel(ack(packet_id)));
            } else {
                wire.queue(&Packet::Publish(Box::new(flight.message.clone())));
                self.resent.insert(flight.number);
            }
        }
        wire.flush()?;
        Ok(wire)
    }

    /// Takes one acknowledgement.
    fn next(&mut self, wire: &mut Wire) -> io::Result<()> {
        let packet = wire.receive()?;
        let (Packet::PubAck(answer) | Packet::PubRec(answer) | Packet::PubComp(answer)) = &packet else {
            panic!("{}: unexpected {packet:?}", self.name);
        };
        // The server may have completed a message whose PUBCOMP was lost: then it has forgotten it, and says so.
        let is_forgotten =
            matches!(packet, Packet::PubComp(_)) && answer.reason == ReasonCode::PacketIdentifierNotFound;
        assert!(
            is_forgotten || !answer.reason.is_error(),
            "{}: {packet:?}",
            self.name
        );
        let place = self
            .in_flight
            .iter()
            .position(|flight| flight.message.packet_id == Some(answer.packet_id))
            .unwrap_or_else(|| panic!("{}: nothing is under way for {packet:?}", self.name));
        let flight = &mut self.in_flight[place];
        self.acknowledged = self.acknowledged.max(flight.number);
        if matches!(packet, Packet::PubRec(_)) {
            flight.is_received = true;
            wire.send(&Packet::PubRel(ack(answer.packet_id)))?;
        } else {
            self.in_flight.remove(place);
        }
        Ok(())
    }
}

impl Consumer {
    /// Resumes the session and receives until `is_done` says so or the connection ends.
    fn receive_until(&mut self, server: SocketAddr, is_done: impl Fn(&Self) -> bool) -> io::Result<()> {
        let (mut wire, connack) = Wire::connect(server, connect(&self.name, false))?;
        assert!(connack.session_present, "{}: the session is gone", self.name);
        while !is_done(self) {
            match wire.receive()? {
                Packet::Publish(message) => self.receive(&mut wire, &message)?,
                Packet::PubRel(release) => {
                    self.received.remove(&release.packet_id);
                    wire.send(&Packet::PubComp(ack(release.packet_id)))?;
                }
                other => panic!("{}: unexpected {other:?}", self.name),
            }
        }
        Ok(())
    }

    fn receive(&mut self, wire: &mut Wire, message: &Publish) -> io::Result<()> {
        let number: u64 = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
        let packet_id = message.packet_id.unwrap();
        assert_eq!(message.qos, self.qos);
        if self.qos == QoS::AtLeastOnce {
            if number <= self.seen && !message.dup {
                self.came_again.push(number);
            }
            self.count(number);
            return wire.send(&Packet::PubAck(ack(packet_id)));
        }
        match self.received.get(&packet_id) {
            // Sent again because the server does not know that it came: it is the same message.
            Some(&before) => {
                assert_eq!(
                    (number, message.dup),
                    (before, true),
                    "{}: packet id {packet_id:?}",
                    self.name
                );
            }
            None => {
                assert!(number > self.seen, "{}: {number} came twice", self.name);
                self.count(number);
                self.received.insert(packet_id, number);
            }
        }
        wire.send(&Packet::PubRec(ack(packet_id)))
    }

    /// Takes note of a number. Each message's first coming is in the order of sending.
    fn count(&mut self, number: u64) {
        assert!(
            !self.missing.contains(&number),
            "{}: {number} came after {}",
            self.name,
            self.seen
        );
        if number > self.seen {
            self.missing.extend(self.seen + 1..number);
            self.seen = number;
        }
    }
}
