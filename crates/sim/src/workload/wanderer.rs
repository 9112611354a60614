//! A client that changes its mind: it subscribes and unsubscribes, starts clean, and leaves its session behind or not.
//!
//! What it was told must hold over every crash: a session that was ended does not come back, a filter that was
//! unsubscribed delivers nothing, and one that was subscribed misses nothing.

use std::collections::BTreeSet;

use cluster::random::Random;
use mqtt::ids::ConnectionId;
use protocol::packet::{
    Ack, ConnAck, Connect, ConnectProperties, PacketId, Publish, QoS, Subscribe, Unsubscribe,
};
use protocol::properties::UserProperties;
use protocol::{Packet, ReasonCode, Text};

use crate::machine::Machine;
use crate::promises::{q1, s1};

/// Its filter: the QoS 1 messages of the first publisher.
const FILTER: &str = "t/publisher0/1";

/// In which way it connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Goes on with its session, which stays.
    Resume,
    /// Begins a new session, which stays.
    Anew,
    /// Goes on with its session, which ends with the connection.
    LastTime,
}

/// What it knows about its subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscribed {
    /// Nothing: something was sent and not answered.
    Unknown,
    /// Messages that were sent for the first time after this number must not come.
    No { after: u64 },
    /// Messages that were sent for the first time after this number, and acknowledged meanwhile, must come.
    Yes { after: u64 },
}

/// A client that changes its mind.
#[derive(Debug)]
pub(super) struct Wanderer {
    name: String,
    connection: Option<ConnectionId>,
    /// How it connected; its CONNACK has come if `is_connected`.
    manner: Manner,
    is_connected: bool,
    /// Whether the server must have its session.
    has_session: Option<bool>,
    subscribed: Subscribed,
    /// The last request whose answer changes what it knows.
    awaited: Option<PacketId>,
    next_id: u16,
    required: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
}

impl Wanderer {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            connection: None,
            manner: Manner::Resume,
            is_connected: false,
            has_session: Some(false),
            subscribed: Subscribed::No { after: 0 },
            awaited: None,
            next_id: 0,
            required: BTreeSet::new(),
            delivered: BTreeSet::new(),
        }
    }

    /// Does something at random.
    pub(super) fn wander(&mut self, machine: &mut Machine, random: &mut Random) {
        match random.between(0, 8) {
            0 => self.connect_as(machine, Manner::Resume),
            1 => self.connect_as(machine, Manner::Anew),
            2 => self.connect_as(machine, Manner::LastTime),
            3..6 => self.subscribe(machine),
            6 => self.unsubscribe(machine),
            _ => {
                self.unsubscribe(machine);
                self.unsubscribe(machine);
            }
        }
    }

    /// Connects if it is not. True if it did something.
    pub(super) fn connect(&mut self, machine: &mut Machine) -> bool {
        if self
            .connection
            .is_some_and(|connection| machine.is_open(connection))
        {
            return false;
        }
        self.connect_as(machine, Manner::Resume);
        true
    }

    /// The server is gone.
    pub(super) fn cut(&mut self) {
        self.connection = None;
        let may_have_ended = match (self.manner, self.is_connected) {
            (Manner::LastTime, _) | (Manner::Anew, false) => true,
            (Manner::Resume, _) | (Manner::Anew, true) => false,
        };
        if may_have_ended {
            // What waited for it ended with its session.
            self.subscribed = Subscribed::Unknown;
            self.required.clear();
        }
        self.has_session = match (self.manner, self.is_connected) {
            (Manner::LastTime, true) => Some(false),
            // What a CONNECT without a CONNACK did is not known.
            (Manner::LastTime | Manner::Anew, false) => None,
            (Manner::Resume, false) => self.has_session.filter(|has_session| *has_session),
            (Manner::Resume | Manner::Anew, true) => self.has_session,
        };
        self.is_connected = false;
        self.awaited = None;
    }

    /// A message of the first publisher was acknowledged.
    pub(super) fn acknowledged(&mut self, number: u64) {
        if let Subscribed::Yes { after } = self.subscribed
            && number > after
        {
            self.required.insert(number);
        }
    }

    /// Reads what it was sent; `sent`: the first publisher's latest number. True if there was something.
    pub(super) fn listen(&mut self, machine: &mut Machine, sent: u64) -> Result<bool, String> {
        let Some(connection) = self.connection else {
            return Ok(false);
        };
        let packets = machine.take_sent(connection);
        let is_anything = !packets.is_empty();
        for packet in packets {
            match packet {
                // Memory is full: it comes back.
                Packet::ConnAck(connack) if connack.reason.is_error() => {}
                Packet::ConnAck(connack) => self.accepted(&connack, sent)?,
                Packet::SubAck(suback) if suback.reasons.iter().any(|reason| reason.is_error()) => {
                    self.answered(suback.packet_id, Subscribed::Unknown);
                }
                Packet::SubAck(suback) => self.answered(suback.packet_id, Subscribed::Yes { after: sent }),
                Packet::UnsubAck(unsuback) => {
                    self.answered(unsuback.packet_id, Subscribed::No { after: sent });
                }
                Packet::Publish(publish) => {
                    let packet_id = self.delivered(&publish)?;
                    machine.receive(
                        connection,
                        Packet::PubAck(Ack::new(packet_id, ReasonCode::Success)),
                    );
                }
                other => return Err(format!("{} got {other:?}", self.name)),
            }
        }
        Ok(is_anything)
    }

    /// When everything is quiet: Q1 for a subscription that came and went.
    pub(super) fn check(&self) -> Result<(), String> {
        q1::check(&self.name, self.required.iter().copied(), &self.delivered)
    }

    fn connect_as(&mut self, machine: &mut Machine, manner: Manner) {
        if let Some(connection) = self.connection {
            machine.lose(connection);
            self.cut();
        }
        self.manner = manner;
        let connection = machine.open();
        self.connection = Some(connection);
        machine.receive(connection, self.connect_packet());
    }

    /// S1: a session is there, or gone, as the server has said.
    fn accepted(&mut self, connack: &ConnAck, sent: u64) -> Result<(), String> {
        let expected = match self.manner {
            Manner::Anew => Some(false),
            Manner::Resume | Manner::LastTime => self.has_session,
        };
        s1::check_present(&self.name, expected, connack.session_present)?;
        self.is_connected = true;
        self.has_session = Some(true);
        if !connack.session_present {
            self.subscribed = Subscribed::No { after: sent };
            self.required.clear();
        }
        Ok(())
    }

    fn subscribe(&mut self, machine: &mut Machine) {
        let packet_id = self.packet_id();
        let filter = Text::new(FILTER).expect("a short filter");
        let packet = Packet::Subscribe(Subscribe::new(packet_id, QoS::AtLeastOnce, [filter]));
        self.request(machine, packet_id, packet);
    }

    fn unsubscribe(&mut self, machine: &mut Machine) {
        let packet_id = self.packet_id();
        let packet = Packet::Unsubscribe(Unsubscribe {
            packet_id,
            user_properties: UserProperties::EMPTY,
            filters: vec![Text::new(FILTER).expect("a short filter")],
        });
        self.request(machine, packet_id, packet);
    }

    /// Only the answer to its last request tells it where it is.
    fn request(&mut self, machine: &mut Machine, packet_id: PacketId, packet: Packet) {
        let Some(connection) = self.connection.filter(|_| self.is_connected) else {
            return;
        };
        self.subscribed = Subscribed::Unknown;
        self.awaited = Some(packet_id);
        machine.receive(connection, packet);
    }

    fn answered(&mut self, packet_id: PacketId, now: Subscribed) {
        if self.awaited == Some(packet_id) {
            self.awaited = None;
            self.subscribed = now;
        }
    }

    fn delivered(&mut self, publish: &Publish) -> Result<PacketId, String> {
        let text = String::from_utf8_lossy(&publish.payload);
        let number = text
            .parse()
            .map_err(|_| format!("{} got {publish:?}", self.name))?;
        if let Subscribed::No { after } = self.subscribed
            && number > after
        {
            return Err(format!(
                "S2: {} got {number}, sent after it was told at {after} that it is not subscribed",
                self.name
            ));
        }
        self.delivered.insert(number);
        publish
            .packet_id
            .ok_or_else(|| format!("{} subscribed with QoS 1 and got QoS 0", self.name))
    }

    fn packet_id(&mut self) -> PacketId {
        self.next_id = self.next_id % u16::MAX + 1;
        PacketId::new(self.next_id).expect("it is above 0")
    }

    fn connect_packet(&self) -> Packet {
        let session_expiry = (self.manner != Manner::LastTime).then_some(86_400);
        Packet::Connect(Box::new(Connect {
            clean_start: self.manner == Manner::Anew,
            properties: ConnectProperties {
                session_expiry,
                ..ConnectProperties::default()
            },
            ..Connect::new(Text::new(self.name.as_str()).expect("a short name"))
        }))
    }
}
