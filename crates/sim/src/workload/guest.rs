//! A client that tries what it may not: its rights change while it goes on, and it does not care.

use std::collections::BTreeMap;

use cluster::random::Random;
use mqtt::ids::ConnectionId;
use protocol::packet::{Ack, ConnAck, Connect, ConnectProperties, PacketId, Publish, QoS, Subscribe, Will};
use protocol::properties::MessageProperties;
use protocol::state_store::NOTIFY_PREFIX;
use protocol::{Packet, ReasonCode, Text, TopicName};

use super::authorized::{Authorized, Rights, THINGS, thing};
use super::message::publish;
use crate::machine::Machine;
use crate::transcript::request;

/// A client that tries everything.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) name: String,
    pub(super) rights: Rights,
    /// It may do everything, and sees what others publish.
    is_host: bool,
    connection: Option<ConnectionId>,
    is_connected: bool,
    /// Topic and payload of the will of its connection.
    will: Option<(usize, String)>,
    next_id: u16,
    next_payload: u64,
    asked: BTreeMap<u16, Asked>,
}

/// What it waits to be answered, and what the answer has to be.
#[derive(Debug)]
enum Asked {
    Publish { payload: String, is_allowed: bool },
    Subscribe { granted: Vec<bool> },
    Key { is_allowed: bool },
    Scan { read: [bool; THINGS] },
}

/// What it subscribes to.
const FILTERS: [&str; 8] = [
    "g/0",
    "g/1",
    "g/2",
    "g/+",
    "#",
    "$share/s/g/0",
    "$share/s/g/#",
    "clients/#",
];

impl Guest {
    pub(super) fn new(name: String, rights: Rights) -> Self {
        Self {
            name,
            rights,
            is_host: false,
            connection: None,
            is_connected: false,
            will: None,
            next_id: 0,
            next_payload: 0,
            asked: BTreeMap::new(),
        }
    }

    pub(super) fn host() -> Self {
        Self {
            is_host: true,
            ..Self::new("host".to_owned(), Rights::ALL)
        }
    }

    /// Does something at random.
    pub(super) fn act(&mut self, machine: &mut Machine, random: &mut Random, authorized: &mut Authorized) {
        match random.between(0, 12) {
            0 => {
                self.connect(machine, random);
            }
            1 if !self.is_host => self.lose(machine, authorized),
            2..5 => self.subscribe(machine, &[FILTERS[random.between(0, FILTERS.len())]]),
            5..8 => self.publish(machine, random.between(0, THINGS), authorized),
            _ => self.ask(machine, random, authorized),
        }
    }

    /// Connects if it is not. True if it did something.
    pub(super) fn connect(&mut self, machine: &mut Machine, random: &mut Random) -> bool {
        if self
            .connection
            .is_some_and(|connection| machine.is_open(connection))
        {
            return false;
        }
        let connection = machine.open();
        self.connection = Some(connection);
        self.is_connected = false;
        let has_will = !self.is_host && random.between(0, 2) == 0;
        self.will = has_will.then(|| (random.between(0, THINGS), self.payload("will")));
        machine.receive(connection, self.connect_packet());
        true
    }

    /// Its connection breaks.
    pub(super) fn lose(&mut self, machine: &mut Machine, authorized: &mut Authorized) {
        self.cut(authorized);
        if let Some(connection) = self.connection.take() {
            machine.lose(connection);
        }
    }

    /// The connection is over: its will is published now, or not.
    pub(super) fn cut(&mut self, authorized: &mut Authorized) {
        if let Some((topic, payload)) = self.will.take()
            && !self.rights.publish[topic]
        {
            authorized.denied(&payload);
        }
        self.is_connected = false;
        self.asked.clear();
    }

    /// Reads everything that was sent to it. True if there was something.
    pub(super) fn listen(
        &mut self,
        machine: &mut Machine,
        authorized: &mut Authorized,
    ) -> Result<bool, String> {
        let Some(connection) = self.connection else {
            return Ok(false);
        };
        let packets = machine.take_sent(connection);
        let is_anything = !packets.is_empty();
        for packet in packets {
            match packet {
                Packet::ConnAck(connack) => self.accepted(machine, &connack)?,
                Packet::Publish(publish) => {
                    self.delivered(&publish, authorized)?;
                    if let Some(packet_id) = publish.packet_id {
                        let ack = Packet::PubAck(Ack::new(packet_id, ReasonCode::Success));
                        machine.receive(connection, ack);
                    }
                }
                Packet::PubAck(ack) => self.acknowledged(&ack, authorized)?,
                Packet::SubAck(suback) => self.subscribed(suback.packet_id, &suback.reasons)?,
                Packet::Disconnect(disconnect)
                    if disconnect.reason == ReasonCode::NotAuthorized && !self.rights.connect => {}
                other => return Err(format!("authorized: {} got {other:?}", self.name)),
            }
        }
        if !machine.is_open(connection) {
            self.cut(authorized);
            self.connection = None;
        }
        Ok(is_anything)
    }

    fn accepted(&mut self, machine: &mut Machine, connack: &ConnAck) -> Result<(), String> {
        let may_will = self
            .will
            .as_ref()
            .is_none_or(|(topic, _)| self.rights.publish[*topic]);
        let is_allowed = self.rights.connect && may_will;
        match (connack.reason, is_allowed) {
            (ReasonCode::Success, true) => {
                self.is_connected = true;
                let own = format!("clients/{}/response", self.name);
                let filters = if self.is_host { vec!["g/#"] } else { vec![] };
                self.subscribe(machine, &[&[&*own], &filters[..]].concat());
                Ok(())
            }
            (ReasonCode::NotAuthorized, false) => {
                self.will = None;
                Ok(())
            }
            (reason, _) => Err(format!(
                "authorized: the CONNECT of {} was answered by {reason:?}, allowed: {is_allowed}",
                self.name
            )),
        }
    }

    fn delivered(&mut self, publish: &Publish, authorized: &mut Authorized) -> Result<(), String> {
        let topic: &str = &publish.topic;
        if !publish.dup && !self.rights.may_have(&self.name, topic) {
            return Err(format!(
                "authorized: {} got a message of {topic}, which it may not have",
                self.name
            ));
        }
        let text = String::from_utf8_lossy(&publish.payload).into_owned();
        if topic.starts_with("g/") {
            return authorized.shown(&self.name, self.is_host, &text);
        }
        if topic.starts_with(NOTIFY_PREFIX) || !topic.starts_with("clients/") {
            return Ok(());
        }
        let id = publish.properties.correlation_data.as_deref();
        let id = id.and_then(|id| id.try_into().ok()).map(u16::from_be_bytes);
        for line in text.split("\r\n") {
            authorized.shown(&self.name, false, line)?;
        }
        let is_refused = text == "-ERR not authorized\r\n";
        match id.and_then(|id| self.asked.get(&id)) {
            Some(Asked::Key { is_allowed }) if *is_allowed == is_refused => Err(format!(
                "authorized: {} was answered {text:?}, allowed: {is_allowed}",
                self.name
            )),
            Some(Asked::Scan { read }) => {
                let listed = text.split("\r\n").filter(|line| line.starts_with("k-"));
                let mut wrong = listed.filter(|key| !thing(key, "k-").is_some_and(|key| read[key]));
                wrong.next().map_or(Ok(()), |key| {
                    Err(format!("authorized: {} was shown {key}", self.name))
                })
            }
            _ => Ok(()),
        }
    }

    fn acknowledged(&mut self, ack: &Ack, authorized: &mut Authorized) -> Result<(), String> {
        match self.asked.remove(&ack.packet_id.get()) {
            Some(Asked::Publish { payload, is_allowed }) => {
                let is_taken = !ack.reason.is_error();
                if is_taken != is_allowed {
                    return Err(format!(
                        "authorized: {payload} was answered by {:?}, allowed: {is_allowed}",
                        ack.reason
                    ));
                }
                if is_taken {
                    authorized.acknowledged(&payload)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn subscribed(&mut self, packet_id: PacketId, reasons: &[ReasonCode]) -> Result<(), String> {
        let Some(Asked::Subscribe { granted }) = self.asked.remove(&packet_id.get()) else {
            return Ok(());
        };
        let answered: Vec<bool> = reasons.iter().map(|reason| !reason.is_error()).collect();
        if answered == granted {
            return Ok(());
        }
        Err(format!(
            "authorized: {} was granted {answered:?}, allowed: {granted:?}",
            self.name
        ))
    }

    fn subscribe(&mut self, machine: &mut Machine, filters: &[&str]) {
        let Some(connection) = self.connection.filter(|_| self.is_connected) else {
            return;
        };
        let packet_id = self.free_id();
        let granted = filters
            .iter()
            .map(|filter| self.rights.may_subscribe(&self.name, filter));
        let granted = granted.collect();
        self.asked.insert(packet_id.get(), Asked::Subscribe { granted });
        let filters = filters
            .iter()
            .map(|filter| Text::new(*filter).expect("a short filter"));
        let subscribe = Subscribe::new(packet_id, QoS::AtLeastOnce, filters);
        machine.receive(connection, Packet::Subscribe(subscribe));
    }

    fn publish(&mut self, machine: &mut Machine, topic: usize, authorized: &mut Authorized) {
        let Some(connection) = self.connection.filter(|_| self.is_connected) else {
            return;
        };
        let (packet_id, payload) = (self.free_id(), self.payload("m"));
        let is_allowed = self.rights.publish[topic];
        if !is_allowed {
            authorized.denied(&payload);
        }
        let message = publish(QoS::AtLeastOnce, format!("g/{topic}"), payload.clone());
        self.asked
            .insert(packet_id.get(), Asked::Publish { payload, is_allowed });
        let message = Publish {
            packet_id: Some(packet_id),
            ..message
        };
        machine.receive(connection, Packet::Publish(Box::new(message)));
    }

    fn ask(&mut self, machine: &mut Machine, random: &mut Random, authorized: &mut Authorized) {
        let Some(connection) = self.connection.filter(|_| self.is_connected) else {
            return;
        };
        let (packet_id, number) = (self.free_id(), random.between(0, THINGS));
        let (key, value) = (format!("k-{number}"), self.payload("v"));
        let (read, write) = (self.rights.read[number], self.rights.write[number]);
        let (arguments, asked): (Vec<&str>, _) = match random.between(0, 5) {
            0 => (vec!["GET", &key], Asked::Key { is_allowed: read }),
            1 => {
                if !write {
                    authorized.denied(&value);
                }
                (vec!["SET", &key, &value], Asked::Key { is_allowed: write })
            }
            2 => (vec!["DEL", &key], Asked::Key { is_allowed: write }),
            3 => (vec!["KEYNOTIFY", &key], Asked::Key { is_allowed: read }),
            _ => (
                vec!["SCAN", "*"],
                Asked::Scan {
                    read: self.rights.read,
                },
            ),
        };
        self.asked.insert(packet_id.get(), asked);
        let packet = request(&self.name, machine.now(), packet_id.get(), &arguments);
        machine.receive(connection, packet);
    }

    fn payload(&mut self, kind: &str) -> String {
        self.next_payload += 1;
        format!("{kind}:{}:{}", self.name, self.next_payload)
    }

    fn free_id(&mut self) -> PacketId {
        self.next_id = self.next_id % 60_000 + 1;
        PacketId::new(self.next_id).expect("it is not 0")
    }

    fn connect_packet(&self) -> Packet {
        let will = self.will.as_ref().map(|(topic, payload)| Will {
            topic: TopicName::parse(Text::new(format!("g/{topic}")).expect("a short topic"))
                .expect("a topic without wildcards"),
            payload: payload.clone().into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay: None,
            properties: MessageProperties::default(),
        });
        Packet::Connect(Box::new(Connect {
            clean_start: false,
            will,
            properties: ConnectProperties {
                session_expiry: Some(86_400),
                receive_maximum: Some(5),
                ..ConnectProperties::default()
            },
            ..Connect::new(Text::new(self.name.as_str()).expect("a short name"))
        }))
    }
}
