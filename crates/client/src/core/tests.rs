//! Sessions on virtual time, driven packet by packet.

mod connection;
mod delivery;
mod state_store;

use std::time::{Duration, Instant};

use protocol::hlc::Hlc;
use protocol::packet::SubscriptionOptions;
use protocol::packet::{
    Ack, ConnAck, ConnAckProperties, Packet, PacketId, Publish, QoS, SubAck, SubscribeFilter,
};
use protocol::properties::{Explanation, MessageProperties, UserProperties};
use protocol::{ReasonCode, Text};

use super::*;

/// Where virtual time starts; only differences matter.
#[expect(clippy::disallowed_methods, reason = "an origin for virtual time")]
pub(crate) fn origin() -> Instant {
    Instant::now()
}

/// A session whose server is the test.
struct Client {
    session: Session,
    start: Instant,
    seconds: f64,
    last_operation: u64,
}

/// What a step did, sorted.
#[derive(Debug, Default)]
struct Done {
    sent: Vec<Packet>,
    completed: Vec<(u64, Result<Outcome, OperationError>)>,
    delivered: Vec<(DeliveryId, Vec<u32>, Item)>,
    gaps: Vec<u32>,
    ended_streams: Vec<u32>,
    states: Vec<ConnectionState>,
    opens: usize,
    closes: usize,
}

impl Client {
    fn with(change: impl FnOnce(&mut SessionOptions)) -> Self {
        let mut options = SessionOptions::new(Text::from_static("pump"), 7);
        change(&mut options);
        Self {
            session: Session::new(options),
            start: origin(),
            seconds: 0.0,
            last_operation: 0,
        }
    }

    /// Connected to a server that had no session.
    fn connected() -> Self {
        Self::connected_with(|_| {}, ConnAckProperties::default())
    }

    fn connected_with(change: impl FnOnce(&mut SessionOptions), properties: ConnAckProperties) -> Self {
        let mut client = Self::with(change);
        client.step(Event::Start);
        client.step(Event::TransportOpened);
        client.receive(connack(false, properties));
        client
    }

    fn step(&mut self, event: Event) -> Done {
        let mut actions = Vec::new();
        let instant = self.start + Duration::from_secs_f64(self.seconds);
        let wall = 1_000_000 + (self.seconds * 1000.0) as u64;
        self.session.step(Now { instant, wall }, event, &mut actions);
        let mut done = Done::default();
        for action in actions {
            match action {
                Action::Open => done.opens += 1,
                Action::Close => done.closes += 1,
                Action::Send(packet) => done.sent.push(packet),
                Action::Deliver {
                    delivery,
                    streams,
                    item,
                } => {
                    done.delivered
                        .push((delivery, streams.iter().map(|stream| stream.0).collect(), item));
                }
                Action::Gap(stream) => done.gaps.push(stream.0),
                Action::EndStream { stream, .. } => done.ended_streams.push(stream.0),
                Action::Complete { operation, result } => done.completed.push((operation.0, result)),
                Action::StateChanged(state) => done.states.push(state),
            }
        }
        done
    }

    fn receive(&mut self, packet: Packet) -> Done {
        self.step(Event::Received(packet))
    }

    /// Moves time to the deadline.
    fn wait(&mut self) -> Done {
        let deadline = self.session.deadline().expect("something is to happen");
        self.seconds = (deadline - self.start).as_secs_f64() + 1e-6;
        self.step(Event::Timeout)
    }

    fn deadline(&self) -> Option<f64> {
        self.session
            .deadline()
            .map(|deadline| (deadline - self.start).as_secs_f64())
    }

    fn submit(&mut self, request: Operation) -> Done {
        self.last_operation += 1;
        let operation = OperationId(self.last_operation);
        self.step(Event::Submit {
            operation,
            request,
            timeout: Duration::from_secs(5),
        })
    }

    /// Loses the connection, waits, and connects again.
    fn reconnect(&mut self, session_present: bool) -> Done {
        self.step(Event::TransportClosed);
        assert_eq!(self.wait().opens, 1);
        self.step(Event::TransportOpened);
        self.receive(connack(session_present, ConnAckProperties::default()))
    }
}

fn connack(session_present: bool, properties: ConnAckProperties) -> Packet {
    Packet::ConnAck(Box::new(ConnAck {
        session_present,
        reason: ReasonCode::Success,
        properties,
    }))
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("not zero")
}

fn ack(number: u16, reason: ReasonCode) -> Ack {
    Ack::new(id(number), reason)
}

fn suback(number: u16, reason: ReasonCode) -> Packet {
    Packet::SubAck(SubAck {
        packet_id: id(number),
        explanation: Explanation::default(),
        reasons: vec![reason],
    })
}

fn message(topic: &str, qos: QoS) -> Message {
    Message::to(topic, "payload").expect("a topic").with_qos(qos)
}

fn subscribe(stream: u32, filter: &'static str) -> Operation {
    let filter = SubscribeFilter {
        filter: Text::from_static(filter),
        options: SubscriptionOptions::default(),
    };
    Operation::Subscribe {
        stream: StreamId(stream),
        filters: vec![filter],
    }
}

/// A PUBLISH from the server.
fn publish(topic: &str, qos: QoS, packet_id: u16) -> Publish {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: Text::new(topic).expect("a string"),
        packet_id: PacketId::new(packet_id),
        topic_alias: None,
        subscription_ids: smallvec::SmallVec::new(),
        properties: MessageProperties::default(),
        payload: bytes::Bytes::from_static(b"payload"),
    }
}

/// What kinds of packets these are, with packet identifiers and DUP.
fn kinds(packets: &[Packet]) -> Vec<String> {
    let kind = |packet: &Packet| match packet {
        Packet::Connect(_) => "CONNECT".to_owned(),
        Packet::Publish(publish) => {
            let id = publish.packet_id.map_or(0, PacketId::get);
            format!("PUBLISH {id}{}", if publish.dup { " dup" } else { "" })
        }
        Packet::PubAck(ack) => format!("PUBACK {}", ack.packet_id.get()),
        Packet::PubRec(ack) => format!("PUBREC {}", ack.packet_id.get()),
        Packet::PubRel(ack) => format!("PUBREL {}", ack.packet_id.get()),
        Packet::PubComp(ack) => format!("PUBCOMP {}", ack.packet_id.get()),
        Packet::Subscribe(subscribe) => format!("SUBSCRIBE {}", subscribe.filters[0].filter),
        Packet::Unsubscribe(unsubscribe) => format!("UNSUBSCRIBE {}", unsubscribe.filters[0]),
        Packet::PingReq => "PINGREQ".to_owned(),
        Packet::Disconnect(disconnect) => format!("DISCONNECT {:?}", disconnect.reason),
        other => format!("{other:?}"),
    };
    packets.iter().map(kind).collect()
}
