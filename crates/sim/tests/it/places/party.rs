//! A client that keeps to the protocol.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use mqtt::authentication::Answer;
use mqtt::ids::ConnectionId;
use mqtt::principal::Principal;
use protocol::packet::{Ack, Connect, ConnectProperties, PacketId, Publish, QoS, Will};
use protocol::properties::MessageProperties;
use protocol::{Packet, ReasonCode, Text, TopicName};
use sim::few_slots;

use crate::client;

/// A client.
pub(crate) struct Party {
    pub(super) node: usize,
    pub(super) name: String,
    pub(super) expiry: u32,
    pub(super) is_clean: bool,
    pub(super) principal: Option<&'static str>,
    pub(super) will: Option<(&'static str, u64)>,
    /// Seconds.
    pub(super) will_delay: Option<u32>,
    /// What its will says besides its number.
    pub(super) will_bytes: usize,
    /// What its messages say besides their numbers.
    pub(super) message_bytes: usize,
    pub(super) connection: Option<ConnectionId>,
    pub(super) is_accepted: bool,
    pub(super) is_denied: bool,
    /// How often it was told to try again.
    pub(super) refusals: usize,
    /// As CONNACK has said.
    pub(crate) session_present: Option<bool>,
    /// As each CONNACK has said.
    pub(super) sessions_present: Vec<bool>,
    /// Connections that it has left without a word.
    pub(super) left: Vec<(usize, ConnectionId)>,
    pub(super) is_gone: bool,
    pub(super) next_id: u16,
    pub(super) subacks: usize,
    pub(super) unsubacks: usize,
    /// What was not acknowledged: QoS 2 messages without a packet were received there.
    pub(super) open: VecDeque<(u16, Option<Publish>)>,
    /// For up to how many milliseconds it thinks before it says something.
    pub(super) slowness: usize,
    /// What it is about to say, and when.
    pub(super) unsaid: VecDeque<(Instant, Packet)>,
    /// QoS 2 messages of which the PUBREL has not come, by packet id.
    pub(super) received: BTreeMap<u16, u64>,
    /// Whether it takes a QoS 2 message when PUBREL comes, and not with PUBLISH. The standard allows both (section 4.3.3), and there are clients of both kinds.
    pub(super) takes_at_release: bool,
    /// What it had begun to receive, and not taken, when it was told that it has no session.
    pub(super) forgotten: BTreeSet<u64>,
    pub(super) heard: Vec<u64>,
}

impl Party {
    pub(crate) fn new(node: usize, name: &str) -> Self {
        Self {
            node,
            name: few_slots::named(name),
            expiry: 0,
            is_clean: false,
            principal: None,
            will: None,
            will_delay: None,
            will_bytes: 0,
            message_bytes: 0,
            connection: None,
            is_accepted: false,
            is_denied: false,
            refusals: 0,
            session_present: None,
            sessions_present: Vec::new(),
            left: Vec::new(),
            is_gone: false,
            next_id: 0,
            subacks: 0,
            unsubacks: 0,
            open: VecDeque::new(),
            slowness: 0,
            unsaid: VecDeque::new(),
            received: BTreeMap::new(),
            takes_at_release: false,
            forgotten: BTreeSet::new(),
            heard: Vec::new(),
        }
    }

    pub(crate) fn durable(node: usize, name: &str) -> Self {
        Self {
            expiry: 3_600,
            ..Self::new(node, name)
        }
    }

    pub(crate) fn with_will(self, topic: &'static str, number: u64) -> Self {
        Self {
            will: Some((topic, number)),
            ..self
        }
    }

    pub(crate) fn with_will_delay(self, seconds: u32) -> Self {
        let will_delay = Some(seconds);
        Self { will_delay, ..self }
    }

    /// Its session ends so many seconds after its connection.
    pub(crate) fn with_expiry(self, expiry: u32) -> Self {
        Self { expiry, ..self }
    }

    /// It thinks for up to so many milliseconds before it says something.
    pub(crate) fn slow(self, slowness: usize) -> Self {
        Self { slowness, ..self }
    }

    /// It is this principal, where it has to say who it is.
    pub(crate) fn known_as(self, principal: &'static str) -> Self {
        Self {
            principal: Some(principal),
            ..self
        }
    }

    /// What is found out when somebody asks who it is.
    pub(super) fn accepted_as(&self) -> Answer {
        Answer::Accept {
            principal: self
                .principal
                .map(|name| Principal::named(Text::from_static(name))),
            data: None,
            expires_in: None,
        }
    }

    /// It begins its session anew.
    pub(crate) fn clean(self) -> Self {
        Self {
            is_clean: true,
            ..self
        }
    }

    pub(super) fn id(&mut self) -> u16 {
        self.next_id = self.next_id % 60_000 + 1;
        self.next_id
    }

    pub(super) fn connect_packet(&self) -> Packet {
        let will = self.will.map(|(topic, number)| Will {
            topic: TopicName::parse(Text::new(topic).expect("short")).expect("a topic"),
            payload: [&number.to_be_bytes()[..], &vec![0; self.will_bytes]]
                .concat()
                .into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay: self.will_delay,
            properties: MessageProperties::default(),
        });
        Packet::Connect(Box::new(Connect {
            is_bridge: false,
            clean_start: self.is_clean,
            will,
            properties: ConnectProperties {
                session_expiry: Some(self.expiry),
                ..ConnectProperties::default()
            },
            ..client::connect(&self.name)
        }))
    }

    /// Its connection has ended.
    pub(super) fn cut(&mut self) {
        self.connection = None;
        self.is_accepted = false;
    }

    /// It is about to say something, after what it was about to say before.
    pub(super) fn answer(&mut self, due: Instant, packet: Packet) {
        let before = self.unsaid.back().map_or(due, |(due, _)| *due);
        self.unsaid.push_back((due.max(before), packet));
    }

    /// What it says at this moment.
    pub(super) fn say(&mut self, now: Instant) -> Option<Packet> {
        let said = self.unsaid.pop_front_if(|(due, _)| *due <= now);
        said.map(|(_, packet)| packet)
    }

    /// What the client answers to a packet.
    pub(super) fn hear(&mut self, packet: Packet) -> Vec<Packet> {
        let id = |id: u16| PacketId::new(id).expect("above 0");
        match packet {
            // It is not let in.
            Packet::ConnAck(connack) if connack.reason == ReasonCode::NotAuthorized => {
                self.is_denied = true;
                Vec::new()
            }
            // It tries again.
            Packet::ConnAck(connack)
                if [ReasonCode::ServerBusy, ReasonCode::ServerUnavailable].contains(&connack.reason) =>
            {
                self.refusals += 1;
                Vec::new()
            }
            Packet::ConnAck(connack) => {
                assert_eq!(connack.reason, ReasonCode::Success, "{}", self.name);
                self.is_accepted = true;
                if !connack.session_present {
                    let received = std::mem::take(&mut self.received).into_values();
                    self.forgotten.extend(received.filter(|_| self.takes_at_release));
                }
                self.session_present = Some(connack.session_present);
                self.sessions_present.push(connack.session_present);
                let again = |(number, publish): &(u16, Option<Publish>)| match publish {
                    Some(publish) => Packet::Publish(Box::new(Publish {
                        dup: true,
                        ..publish.clone()
                    })),
                    None => Packet::PubRel(Ack::new(id(*number), ReasonCode::Success)),
                };
                self.open.iter().map(again).collect()
            }
            Packet::SubAck(_) => {
                self.subacks += 1;
                Vec::new()
            }
            Packet::UnsubAck(_) => {
                self.unsubacks += 1;
                Vec::new()
            }
            Packet::Publish(publish) => self.hear_message(&publish),
            Packet::PubRel(ack) => {
                let released = self.received.remove(&ack.packet_id.get());
                self.heard.extend(released.filter(|_| self.takes_at_release));
                vec![Packet::PubComp(Ack::new(ack.packet_id, ReasonCode::Success))]
            }
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                self.open.retain(|(number, _)| *number != ack.packet_id.get());
                Vec::new()
            }
            Packet::PubRec(ack) => {
                assert!(!ack.reason.is_error(), "{:?}", ack.reason);
                let number = ack.packet_id.get();
                for open in self.open.iter_mut().filter(|(open, _)| *open == number) {
                    open.1 = None;
                }
                vec![Packet::PubRel(Ack::new(ack.packet_id, ReasonCode::Success))]
            }
            _ => Vec::new(),
        }
    }

    fn hear_message(&mut self, publish: &Publish) -> Vec<Packet> {
        let number = number(&publish.payload);
        let Some(packet_id) = publish.packet_id else {
            self.heard.push(number);
            return Vec::new();
        };
        let ack = Ack::new(packet_id, ReasonCode::Success);
        if publish.qos == QoS::AtLeastOnce {
            self.heard.push(number);
            return vec![Packet::PubAck(ack)];
        }
        if let Entry::Vacant(entry) = self.received.entry(packet_id.get()) {
            entry.insert(number);
            self.heard.extend((!self.takes_at_release).then_some(number));
        }
        vec![Packet::PubRec(ack)]
    }
}

/// The number with which a payload begins.
pub(super) fn number(payload: &Bytes) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().expect("8 bytes"))
}
