//! Several connections, a clock and a disk.
//!
//! Each step of an input is a byte: below, what happens; above, to which client. Packets are made by the codec or are
//! bytes of the input. After each step the server is within its limits and has sent whole packets that clients
//! understand; at the end the power fails, and it finds its way back.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::{
    Connect, ConnectProperties, Disconnect, PacketId, ProtocolVersion, Publish, QoS, RetainHandling,
    Subscribe, SubscribeFilter, SubscriptionId, SubscriptionOptions, Unsubscribe, Will,
};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::state_store::INVOKE_TOPIC;
use protocol::{Packet, ReasonCode, Text, TopicName};

use super::client::Client;
use super::config;
use super::cursor::Cursor;
use super::records::records_input;
use crate::machine::Machine;

/// Plays an input. `origin` is any instant; only differences matter.
pub fn conversation(input: &[u8], origin: Instant) {
    play(input, origin).end();
}

/// The input of [`records`](super::records) that means what is on the disk after this conversation.
pub fn disk_after(input: &[u8], origin: Instant) -> Vec<u8> {
    records_input(play_machine(input, origin).disk())
}

/// The server after this conversation.
pub(super) fn play_machine(input: &[u8], origin: Instant) -> Machine {
    play(input, origin).machine
}

fn play(input: &[u8], origin: Instant) -> Stage {
    let mut input = Cursor::new(input);
    let mut stage = Stage::new(Machine::new(config(input.byte()), origin));
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        stage = stage.step(&mut input);
        stage.settle();
        stage.check();
    }
    stage
}

/// The server and its clients.
struct Stage {
    machine: Machine,
    clients: Vec<Client>,
}

impl Stage {
    fn new(machine: Machine) -> Self {
        Self {
            machine,
            clients: (0..CLIENTS).map(|_| Client::new()).collect(),
        }
    }

    #[must_use]
    fn step(mut self, input: &mut Cursor<'_>) -> Self {
        let step = input.byte();
        let machine = &mut self.machine;
        let client = &mut self.clients[usize::from(step >> 4) % CLIENTS];
        match step & 0x0F {
            0 => {
                client.open(machine);
                client.send_bytes(machine, input.chunk());
            }
            1 => {
                client.open(machine);
                let connect = connect(input);
                client.version = connect.version;
                client.send(machine, &Packet::Connect(Box::new(connect)));
            }
            2 | 3 => client.send(machine, &Packet::Publish(Box::new(publish(input)))),
            4 => client.send(machine, &subscribe(input)),
            5 => other_packet(client, machine, input),
            6 | 7 => {
                let choices = input.byte();
                let reason = if choices & 0x80 == 0 {
                    ReasonCode::Success
                } else {
                    ReasonCode::UnspecifiedError
                };
                client.answer(machine, usize::from(choices & 0x7F) + 1, reason);
            }
            8 => client.lose(machine),
            9 => client.stall_or_resume(machine),
            10 => machine.advance(Duration::from_millis(input.pick(&DURATIONS_MS))),
            11 => {
                machine.write_one();
            }
            12 => machine.write_all(),
            13 if input.byte() & 1 == 0 => machine.finish_snapshot(),
            13 => {
                machine.fail_snapshot();
            }
            14 => machine.flush(),
            _ => return self.end_of_server(input),
        }
        self
    }

    /// The server stops, or the power fails.
    #[must_use]
    fn end_of_server(mut self, input: &mut Cursor<'_>) -> Self {
        let choice = input.byte();
        if choice & 1 == 0 {
            self.machine.stop();
            self.settle();
            self.machine.write_all();
        }
        let down = DURATIONS_MS[usize::from(choice >> 1) % DURATIONS_MS.len()];
        self.crash(Duration::from_millis(down))
    }

    /// Everybody who reads has read, and the server has taken what it wants to take.
    fn settle(&mut self) {
        for client in &mut self.clients {
            client.listen(&mut self.machine);
            client.be_read(&mut self.machine);
            client.listen(&mut self.machine);
        }
    }

    #[must_use]
    fn crash(self, down: Duration) -> Self {
        Self::new(self.machine.crash_for(down))
    }

    /// Every limit holds.
    fn check(&self) {
        check_limits(&self.machine);
        let limits = self.machine.limits();
        for client in &self.clients {
            // What is over the limit: one message, as much of answers, and an acknowledgement for each message that the client may have sent.
            let sent_max = 2 * limits.outbound_bytes_max + 2 * limits.packet_size_max;
            let sent = client.sent_bytes(&self.machine);
            assert!(
                sent <= sent_max as usize,
                "{sent} bytes wait for a client that does not read"
            );
        }
    }

    /// The power fails; what is on disk is understood, and serves.
    fn end(mut self) {
        self.machine.write_all();
        let mut again = self.crash(Duration::ZERO);
        again.machine.advance(Duration::from_secs(3_600));
        again.machine.write_all();
        again.check();
    }
}

/// What the node holds is within what it was told.
pub(super) fn check_limits(machine: &Machine) {
    check_limits_of_all(machine);
    let limits = machine.limits();
    let gauges = machine.node().gauges();
    let sessions_max = limits.sessions_max as usize;
    assert!(
        gauges.subscriptions <= sessions_max * limits.subscriptions_per_session_max as usize,
        "{gauges:?}"
    );
    let queued_max = sessions_max * limits.queue_messages_max as usize;
    assert!(gauges.waiting_messages <= queued_max, "{gauges:?}");
    let queued_bytes_max = u64::from(limits.sessions_max) * limits.queue_bytes_max;
    assert!(gauges.waiting_bytes <= queued_bytes_max, "{gauges:?}");
    let inflight_max = sessions_max * usize::from(limits.inflight_max);
    assert!(gauges.inflight <= inflight_max, "{gauges:?}");
}

/// Without those of a single session, which one that comes from elsewhere may have passed there.
pub(super) fn check_limits_of_all(machine: &Machine) {
    let limits = machine.limits();
    let gauges = machine.node().gauges();
    assert!(gauges.sessions <= limits.sessions_max as usize, "{gauges:?}");
    let retained = gauges.retained_messages - gauges.retained_own_messages;
    assert!(retained as u64 <= limits.retained_messages_max, "{gauges:?}");
    let retained_bytes = gauges.retained_bytes - gauges.retained_own_bytes;
    assert!(retained_bytes <= limits.retained_bytes_max, "{gauges:?}");
    assert!(gauges.store.keys <= gauges.store_quota.keys_max, "{gauges:?}");
    assert!(gauges.store.bytes <= gauges.store_quota.bytes_max, "{gauges:?}");
}

fn connect(input: &mut Cursor<'_>) -> Connect {
    let (client_id, choices) = (input.pick(&CLIENT_IDS), input.byte());
    let is_chosen = |bit: u8| choices & 1 << bit != 0;
    let version = if is_chosen(0) {
        ProtocolVersion::V311
    } else {
        ProtocolVersion::V5
    };
    let mut properties = ConnectProperties::default();
    if version == ProtocolVersion::V5 {
        properties.session_expiry = is_chosen(3).then(|| input.pick(&SECONDS));
        properties.receive_maximum = is_chosen(4).then(|| input.pick(&[1, 2, 3, 65_535]));
        properties.packet_size_max = is_chosen(5).then(|| input.pick(&[20, 64, 200, 1_000]));
        properties.topic_alias_maximum = is_chosen(6).then(|| input.pick(&[0, 1, 2, 65_535]));
        properties.request_problem_information = is_chosen(7).then_some(false);
    }
    Connect {
        version,
        clean_start: is_chosen(1),
        keep_alive: input.pick(&[0, 1, 30, 65_535]),
        will: is_chosen(2).then(|| will(input, version)),
        properties,
        ..Connect::new(Text::from_static(client_id))
    }
}

fn will(input: &mut Cursor<'_>, version: ProtocolVersion) -> Will {
    let choices = input.byte();
    let topic = Text::from_static(TOPICS[usize::from(choices >> 4) % TOPICS.len()]);
    Will {
        topic: TopicName::parse(topic).expect("all of them are"),
        payload: Bytes::from_static(b"will"),
        qos: qos(choices),
        retain: choices & 4 != 0,
        delay: (choices & 8 != 0 && version == ProtocolVersion::V5).then(|| input.pick(&SECONDS)),
        properties: MessageProperties::default(),
    }
}

pub(super) fn publish(input: &mut Cursor<'_>) -> Publish {
    let (choices, topic) = (input.byte(), input.pick(&TOPICS));
    let qos = qos(choices);
    let topic_alias = (choices & 0x10 != 0)
        .then(|| NonZeroU16::new(input.pick(&[1, 2, 3, 4])))
        .flatten();
    let is_alias_alone = topic_alias.is_some() && choices & 0x20 != 0;
    let length = usize::from(input.byte());
    let length = if length > 200 { length * 20 - 3_900 } else { length };
    let is_expiring = choices & 0x40 != 0;
    Publish {
        dup: choices & 8 != 0 && qos != QoS::AtMostOnce,
        qos,
        retain: choices & 4 != 0,
        topic: Text::from_static(if is_alias_alone { "" } else { topic }),
        packet_id: packet_id(input).filter(|_| qos != QoS::AtMostOnce),
        topic_alias,
        subscription_ids: [].into_iter().collect(),
        properties: MessageProperties {
            message_expiry: is_expiring.then(|| input.pick(&SECONDS)),
            response_topic: (choices & 0x80 != 0).then(|| Text::from_static("a/reply")),
            correlation_data: (choices & 0x80 != 0).then(|| Bytes::from_static(b"1")),
            ..MessageProperties::default()
        },
        payload: Bytes::from(vec![b'.'; length]),
    }
}

fn subscribe(input: &mut Cursor<'_>) -> Packet {
    let choices = input.byte();
    let filters = (0..=choices & 3).map(|_| {
        let (filter, options) = (input.pick(&FILTERS), input.byte());
        let options = SubscriptionOptions {
            qos: qos(options),
            // [MQTT-3.8.3-4]
            no_local: options & 4 != 0 && !filter.starts_with("$share"),
            retain_as_published: options & 8 != 0,
            retain_handling: match options >> 4 & 3 {
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => RetainHandling::Send,
            },
        };
        let filter = Text::from_static(filter);
        SubscribeFilter { filter, options }
    });
    Packet::Subscribe(Subscribe {
        filters: filters.collect(),
        packet_id: PacketId::new(100).expect("not 0"),
        subscription_id: SubscriptionId::new((choices >> 2).into()),
        user_properties: UserProperties::EMPTY,
    })
}

/// The rest of what clients say, and packets of the right length whose content is up to the input.
fn other_packet(client: &mut Client, machine: &mut Machine, input: &mut Cursor<'_>) {
    let choices = input.byte();
    match choices & 3 {
        0 => {
            let unsubscribe = Unsubscribe {
                packet_id: PacketId::new(101).expect("not 0"),
                user_properties: UserProperties::EMPTY,
                filters: vec![Text::from_static(input.pick(&FILTERS))],
            };
            client.send(machine, &Packet::Unsubscribe(unsubscribe));
        }
        1 => {
            let disconnect = Disconnect {
                session_expiry: (choices & 8 != 0).then(|| input.pick(&SECONDS)),
                ..Disconnect::new(if choices & 4 == 0 {
                    ReasonCode::Success
                } else {
                    ReasonCode::DisconnectWithWillMessage
                })
            };
            client.send(machine, &Packet::Disconnect(disconnect));
        }
        2 => client.send(machine, &Packet::PingReq),
        _ => {
            let first = input.byte();
            let content = input.chunk();
            let mut bytes = vec![first];
            if content.len() > 127 {
                bytes.extend([0x80 | (content.len() & 0x7F) as u8, (content.len() >> 7) as u8]);
            } else {
                bytes.push(content.len() as u8);
            }
            bytes.extend_from_slice(content);
            client.send_bytes(machine, &bytes);
        }
    }
}

fn qos(choices: u8) -> QoS {
    QoS::from_u8(choices & 3).unwrap_or(QoS::AtLeastOnce)
}

fn packet_id(input: &mut Cursor<'_>) -> Option<PacketId> {
    PacketId::new(u16::from(input.byte() % 12) + 1)
}

/// Steps of an input at most.
const STEPS_MAX: usize = 600;

/// One more than may be connected.
const CLIENTS: usize = 5;

const CLIENT_IDS: [&str; 8] = ["", "a", "b", "c", "d", "e", "f", "\u{1F980}"];

const TOPICS: [&str; 8] = [
    "a",
    "a/b",
    "a/b/c",
    "b",
    "/",
    "$SYS/x",
    "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/x",
    INVOKE_TOPIC,
];

const FILTERS: [&str; 14] = [
    "a",
    "a/b",
    "a/+",
    "#",
    "+/b",
    "+/+/c",
    "$share/g/a/#",
    "$share/g/#",
    "$share/h/a",
    "$SYS/#",
    "a/#/b",
    "$share//a",
    "/",
    INVOKE_TOPIC,
];

const SECONDS: [u32; 6] = [0, 1, 5, 60, 7_200, u32::MAX];

const DURATIONS_MS: [u64; 8] = [1, 100, 1_000, 2_000, 60_000, 600_000, 3_600_000, 700_000_000];
