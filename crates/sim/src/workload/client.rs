//! A client that does what MQTT asks of one: it sends again what was not acknowledged, and knows packet ids.

use std::collections::{BTreeSet, VecDeque};

use mqtt::ids::ConnectionId;
use protocol::packet::{
    Ack, ConnAck, Connect, ConnectProperties, PacketId, Publish, QoS, Subscribe, Unsubscribe,
};
use protocol::properties::UserProperties;
use protocol::{Packet, ReasonCode, Text};

use super::message::{Heard, Numbered, Retaining, Sent, numbered, publish};
use crate::machine::Machine;
use crate::promises::s1;

/// A client, mostly with a durable session.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: String,
    connection: Option<ConnectionId>,
    is_connected: bool,
    /// The server has said once that it has the session.
    had_connack: bool,
    /// Its session begins and ends with its connection.
    is_guest: bool,
    /// Its next session begins anew.
    begins_anew: bool,
    /// Its node is one of several: another one may have gone on with its session, which it does not look for.
    is_of_several: bool,
    /// What it subscribes to when its session is lost.
    wants: &'static str,
    /// What to subscribe to; `None` once it was acknowledged.
    subscription: Option<&'static str>,
    /// With which QoS.
    qos: QoS,
    receive_maximum: u16,
    /// It watches keys: the server ends its connection when it misses a change.
    is_watcher: bool,
    /// Its Maximum Packet Size, from its next connection on.
    packet_size_max: Option<u32>,
    next_id: u16,
    next_number: u64,
    outgoing: VecDeque<Outgoing>,
    /// QoS 2 messages received and not released.
    received: BTreeSet<PacketId>,
}

/// A PUBLISH that is not done.
#[derive(Debug)]
struct Outgoing {
    publish: Publish,
    sent: Sent,
    is_released: bool,
}

/// What sharers share: all messages.
const SHARED: &str = "$share/crew/t/#";

/// Responses of the state store to a client.
const RESPONSES: &str = "clients/+/response";

/// Messages without acknowledgement that a client has at most.
const OUTGOING_MAX: usize = 50;

impl Client {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            connection: None,
            is_connected: false,
            had_connack: false,
            is_guest: false,
            begins_anew: false,
            is_of_several: false,
            wants: RESPONSES,
            subscription: None,
            qos: QoS::ExactlyOnce,
            receive_maximum: 20,
            is_watcher: false,
            packet_size_max: None,
            next_id: 0,
            next_number: 0,
            outgoing: VecDeque::new(),
            received: BTreeSet::new(),
        }
    }

    pub(super) fn subscriber(name: String) -> Self {
        Self {
            subscription: Some("t/#"),
            ..Self::new(name)
        }
    }

    /// Shares all messages with others.
    pub(super) fn sharer(name: String) -> Self {
        Self {
            subscription: Some(SHARED),
            ..Self::new(name)
        }
    }

    /// Shares all messages with others, and comes and goes. What it has not acknowledged then goes to them, except QoS 2
    /// that was sent: it takes QoS 1. And few at once, so that some wait.
    pub(super) fn leaver(name: String) -> Self {
        Self {
            qos: QoS::AtLeastOnce,
            receive_maximum: 2,
            ..Self::sharer(name)
        }
    }

    /// Looks at what is retained.
    pub(super) fn reader() -> Self {
        Self {
            subscription: Some("r/#"),
            is_guest: true,
            ..Self::new("reader".to_owned())
        }
    }

    /// Retains messages, and takes them away.
    pub(super) fn retainer(name: String) -> Self {
        Self {
            is_guest: true,
            ..Self::new(name)
        }
    }

    /// Subscribes to the responses of the state store.
    pub(super) fn keeper(name: String) -> Self {
        Self {
            subscription: Some(RESPONSES),
            ..Self::new(name)
        }
    }

    /// Its node is one of several.
    pub(super) fn of_several(self) -> Self {
        Self {
            is_of_several: true,
            ..self
        }
    }

    /// Goes from one of several nodes to the other, and gets all messages.
    pub(super) fn wanderer(name: String) -> Self {
        Self {
            wants: "t/#",
            ..Self::subscriber(name).of_several()
        }
    }

    /// Subscribes to the responses of the state store, and begins anew with every connection.
    pub(super) fn watcher(name: String) -> Self {
        Self {
            is_guest: true,
            is_watcher: true,
            ..Self::keeper(name)
        }
    }

    /// It will connect to another server, which knows nothing of its session, and send there what it has sent here.
    pub(super) fn turn_away(&mut self) {
        self.cut();
        self.had_connack = false;
        self.subscription = Some(RESPONSES);
    }

    /// Takes only packets of so many bytes from its next connection on.
    pub(super) fn take_at_most(&mut self, packet_size_max: Option<u32>) {
        self.packet_size_max = packet_size_max;
    }

    /// It does not wait for anything any more, and knows of no session.
    pub(super) fn give_up(&mut self) {
        self.had_connack = false;
        self.outgoing.clear();
        self.subscription = Some(RESPONSES);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether it is connected, and everything that it sent was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.is_connected && self.outgoing.is_empty()
    }

    /// It subscribes with its next connection, whatever its session has.
    pub(super) fn want_again(&mut self) {
        self.subscription = Some(self.wants);
    }

    /// Whether it is done, and its subscription was acknowledged.
    pub(super) fn is_settled(&self) -> bool {
        self.is_done() && self.subscription.is_none()
    }

    /// Connects if it is not. True if it did something.
    pub(super) fn connect(&mut self, machine: &mut Machine) -> bool {
        if self
            .connection
            .is_some_and(|connection| machine.is_open(connection))
        {
            return false;
        }
        let connection = machine.open();
        self.connection = Some(connection);
        self.is_connected = false;
        machine.receive(connection, self.connect_packet());
        true
    }

    /// Gives up its session with all that waits in it, and begins another.
    pub(super) fn begin_anew(&mut self, machine: &mut Machine) {
        self.lose(machine);
        self.begins_anew = true;
        self.had_connack = false;
        self.received.clear();
        self.subscription = Some(SHARED);
        self.connect(machine);
    }

    /// Does not share any more, until it connects again or changes its mind.
    pub(super) fn unsubscribe(&mut self, machine: &mut Machine) {
        let Some(connection) = self.connection.filter(|_| self.is_connected) else {
            return;
        };
        self.subscription = Some(SHARED);
        let packet = Packet::Unsubscribe(Unsubscribe {
            packet_id: self.free_id(),
            user_properties: UserProperties::EMPTY,
            filters: vec![Text::from_static(SHARED)],
        });
        machine.receive(connection, packet);
    }

    /// Shares again.
    pub(super) fn subscribe_again(&mut self, machine: &mut Machine) {
        let Some(connection) = self.connection.filter(|_| self.is_connected) else {
            return;
        };
        if let Some(filter) = self.subscription {
            let packet = self.subscribe_packet(filter);
            machine.receive(connection, packet);
        }
    }

    /// Its connection breaks.
    pub(super) fn lose(&mut self, machine: &mut Machine) {
        if let Some(connection) = self.connection {
            machine.lose(connection);
        }
        self.cut();
    }

    /// The server is gone.
    pub(super) fn cut(&mut self) {
        self.connection = None;
        self.is_connected = false;
    }

    /// Publishes the next message.
    pub(super) fn publish(&mut self, machine: &mut Machine, is_exactly_once: bool) {
        if !self.is_connected || self.outgoing.len() >= OUTGOING_MAX {
            return;
        }
        self.next_number += 1;
        let message = Numbered {
            publisher: self.name.clone(),
            number: self.next_number,
            is_exactly_once,
        };
        let qos = if is_exactly_once {
            QoS::ExactlyOnce
        } else {
            QoS::AtLeastOnce
        };
        let topic = format!("t/{}/{}", self.name, qos as u8);
        let publish = publish(qos, topic, self.next_number.to_string());
        self.send(machine, publish, Sent::Message(message));
    }

    /// Sets a retained message of a topic that never had one.
    pub(super) fn retain(&mut self, machine: &mut Machine) {
        if !self.is_connected || self.outgoing.len() >= OUTGOING_MAX {
            return;
        }
        self.next_number += 1;
        let topic = format!("r/{}/{}", self.name, self.next_number);
        let publish = Publish {
            retain: true,
            ..publish(QoS::AtLeastOnce, topic.clone(), topic.clone())
        };
        self.send(machine, publish, Sent::Retaining(Retaining::Set(topic)));
    }

    /// Clears a topic's retained message.
    pub(super) fn clear(&mut self, machine: &mut Machine, topic: &str) {
        if !self.is_connected || self.outgoing.len() >= OUTGOING_MAX {
            return;
        }
        let publish = Publish {
            retain: true,
            ..publish(QoS::AtLeastOnce, topic.to_owned(), String::new())
        };
        self.send(
            machine,
            publish,
            Sent::Retaining(Retaining::Clear(topic.to_owned())),
        );
    }

    /// Sends a request to the state store.
    pub(super) fn request(&mut self, machine: &mut Machine, publish: Publish) {
        self.send(machine, publish, Sent::Request);
    }

    /// The number of its latest message.
    pub(super) fn latest(&self) -> u64 {
        self.next_number
    }

    /// Sends a PUBLISH under a packet id of its own.
    fn send(&mut self, machine: &mut Machine, mut publish: Publish, sent: Sent) {
        publish.packet_id = Some(self.free_id());
        self.outgoing.push_back(Outgoing {
            publish: publish.clone(),
            sent,
            is_released: false,
        });
        if let Some(connection) = self.connection {
            machine.receive(connection, Packet::Publish(Box::new(publish)));
        }
    }

    /// Reads everything that was sent to it, and answers.
    pub(super) fn listen(&mut self, machine: &mut Machine) -> Result<Heard, String> {
        let mut heard = Heard::default();
        let Some(connection) = self.connection else {
            return Ok(heard);
        };
        for packet in machine.take_sent(connection) {
            heard.is_anything = true;
            if let Some(answer) = self.hear(packet, &mut heard)? {
                for packet in answer {
                    machine.receive(connection, packet);
                }
            }
        }
        if !machine.is_open(connection) {
            self.cut();
        }
        Ok(heard)
    }

    fn hear(&mut self, packet: Packet, heard: &mut Heard) -> Result<Option<Vec<Packet>>, String> {
        match packet {
            // Memory is full: it comes back.
            Packet::ConnAck(connack) if connack.reason == ReasonCode::QuotaExceeded => Ok(None),
            // Another connection of it was made, or the node with its session was lost meanwhile.
            Packet::ConnAck(connack) if self.is_of_several && connack.reason.is_error() => Ok(None),
            Packet::ConnAck(connack) => self.accepted(&connack, heard).map(Some),
            Packet::Publish(publish) => Ok(self.delivered(*publish, heard)),
            Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason.is_error() => {
                heard.refused += u64::from(self.refused(ack.packet_id));
                Ok(None)
            }
            Packet::PubAck(ack) => {
                self.done(ack.packet_id, heard);
                Ok(None)
            }
            Packet::PubRec(ack) => {
                self.released(ack.packet_id, heard);
                Ok(Some(vec![Packet::PubRel(Ack::new(
                    ack.packet_id,
                    ReasonCode::Success,
                ))]))
            }
            Packet::PubComp(ack) => {
                self.done(ack.packet_id, heard);
                Ok(None)
            }
            Packet::PubRel(ack) => {
                self.received.remove(&ack.packet_id);
                Ok(Some(vec![Packet::PubComp(Ack::new(
                    ack.packet_id,
                    ReasonCode::Success,
                ))]))
            }
            Packet::SubAck(suback) if suback.reasons.iter().any(|reason| reason.is_error()) => Ok(None),
            Packet::SubAck(_) => {
                self.subscription = None;
                Ok(None)
            }
            Packet::UnsubAck(_) => Ok(None),
            Packet::Disconnect(disconnect)
                if self.is_of_several
                    && matches!(
                        disconnect.reason,
                        ReasonCode::SessionTakenOver | ReasonCode::ServerBusy
                    ) =>
            {
                Ok(None)
            }
            // A watcher that has missed a change is told so, and begins anew.
            Packet::Disconnect(disconnect)
                if self.is_watcher
                    && matches!(
                        disconnect.reason,
                        ReasonCode::ServerBusy | ReasonCode::PacketTooLarge
                    ) =>
            {
                Ok(None)
            }
            Packet::Disconnect(disconnect) => Err(format!("{} was disconnected: {disconnect:?}", self.name)),
            other => Err(format!("{} got {other:?}", self.name)),
        }
    }

    /// S1: a session that was acknowledged once is there.
    fn accepted(&mut self, connack: &ConnAck, heard: &mut Heard) -> Result<Vec<Packet>, String> {
        if self.had_connack && !connack.session_present && self.is_of_several {
            self.subscription = Some(self.wants);
            self.received.clear();
        } else if self.had_connack {
            s1::check_present(&self.name, Some(true), connack.session_present)?;
        }
        self.had_connack = !self.is_guest;
        self.is_connected = true;
        self.begins_anew = false;
        let mut packets = Vec::new();
        if let Some(filter) = self.subscription {
            packets.push(self.subscribe_packet(filter));
        }
        // [MQTT-4.4.0-1]: in the original order, with DUP.
        for outgoing in &mut self.outgoing {
            let packet_id = outgoing.publish.packet_id.expect("an outgoing PUBLISH has one");
            if outgoing.is_released {
                packets.push(Packet::PubRel(Ack::new(packet_id, ReasonCode::Success)));
            } else {
                outgoing.publish.dup = true;
                if let Sent::Retaining(Retaining::Set(topic)) = &outgoing.sent {
                    outgoing.sent = Sent::Retaining(Retaining::SetAgain(topic.clone()));
                }
                if let Sent::Message(message) = &outgoing.sent {
                    heard.resent.push(message.clone());
                }
                packets.push(Packet::Publish(Box::new(outgoing.publish.clone())));
            }
        }
        Ok(packets)
    }

    fn delivered(&mut self, publish: Publish, heard: &mut Heard) -> Option<Vec<Packet>> {
        let packet_id = publish.packet_id;
        let is_new = match (publish.qos, packet_id) {
            (QoS::ExactlyOnce, Some(packet_id)) => self.received.insert(packet_id),
            _ => true,
        };
        let qos = publish.qos;
        if is_new {
            match numbered(&publish) {
                Some(message) => heard.delivered.push(message),
                None => heard.others.push(publish),
            }
        }
        let ack = Ack::new(packet_id?, ReasonCode::Success);
        Some(vec![if qos == QoS::ExactlyOnce {
            Packet::PubRec(ack)
        } else {
            Packet::PubAck(ack)
        }])
    }

    /// PUBREC: the server has the message; what follows only frees the packet id.
    fn released(&mut self, packet_id: PacketId, heard: &mut Heard) {
        let outgoing = self
            .outgoing
            .iter_mut()
            .find(|outgoing| outgoing.publish.packet_id == Some(packet_id));
        if let Some(outgoing) = outgoing
            && !std::mem::replace(&mut outgoing.is_released, true)
        {
            outgoing.sent.clone().note(heard);
        }
    }

    /// The server has not taken a message: nothing of it was promised. False if it was not waited for.
    fn refused(&mut self, packet_id: PacketId) -> bool {
        let before = self.outgoing.len();
        self.outgoing
            .retain(|outgoing| outgoing.publish.packet_id != Some(packet_id));
        self.outgoing.len() < before
    }

    fn done(&mut self, packet_id: PacketId, heard: &mut Heard) {
        let position = self
            .outgoing
            .iter()
            .position(|outgoing| outgoing.publish.packet_id == Some(packet_id));
        if let Some(outgoing) = position.and_then(|position| self.outgoing.remove(position))
            && !outgoing.is_released
        {
            outgoing.sent.note(heard);
        }
    }

    fn free_id(&mut self) -> PacketId {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            let Some(id) = PacketId::new(self.next_id) else {
                continue;
            };
            if self
                .outgoing
                .iter()
                .all(|outgoing| outgoing.publish.packet_id != Some(id))
            {
                return id;
            }
        }
    }

    fn connect_packet(&self) -> Packet {
        Packet::Connect(Box::new(Connect {
            clean_start: self.is_guest || self.begins_anew,
            properties: ConnectProperties {
                session_expiry: (!self.is_guest).then_some(86_400),
                receive_maximum: Some(self.receive_maximum),
                packet_size_max: self.packet_size_max,
                ..ConnectProperties::default()
            },
            ..Connect::new(Text::new(self.name.as_str()).expect("a short name"))
        }))
    }

    fn subscribe_packet(&mut self, filter: &'static str) -> Packet {
        let filter = Text::new(filter.replace('+', &self.name)).expect("a short filter");
        Packet::Subscribe(Subscribe::new(self.free_id(), self.qos, [filter]))
    }
}
