//! Requests to the state store.
//!
//! Two clients send requests that are well-formed, or bytes; what they were told is remembered. A request that is
//! acknowledged is answered once, by a reply that fits it; the same request again by the same reply; and a value that was
//! set is got, after a power cut too, until it is changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::{Connect, PacketId, Publish, QoS, Subscribe};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::state_store::{Condition, INVOKE_TOPIC, Reply, Request, properties};
use protocol::{Packet, ReasonCode, Text};

use super::client::Client;
use super::config;
use super::conversation::check_limits;
use super::cursor::Cursor;
use crate::machine::Machine;

/// Plays an input. `origin` is any instant; only differences matter.
pub fn requests(input: &[u8], origin: Instant) {
    let mut input = Cursor::new(input);
    let mut stage = Stage::new(Machine::new(
        config(input.byte() & !PACED_OR_SHORT_OF_MEMORY),
        origin,
    ));
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        stage = stage.step(&mut input);
        check_limits(&stage.machine);
    }
    stage.end();
}

/// The server, its clients, and what is known of its keys.
struct Stage {
    machine: Machine,
    clients: Vec<Client>,
    /// Keys whose value, or absence, is known.
    known: BTreeMap<Bytes, Option<Bytes>>,
    asked: u32,
    /// The latest request that was decided, and what it was answered.
    latest: Option<(usize, Publish, Bytes)>,
}

impl Stage {
    fn new(machine: Machine) -> Self {
        let mut stage = Self {
            machine,
            clients: (0..CLIENTS).map(|_| Client::new()).collect(),
            known: BTreeMap::new(),
            asked: 0,
            latest: None,
        };
        stage.connect();
        stage
    }

    #[must_use]
    fn step(mut self, input: &mut Cursor<'_>) -> Self {
        let step = input.byte();
        let who = usize::from(step >> 4) % CLIENTS;
        match step & 0x0F {
            0..8 => {
                let payload = request(input).encode();
                self.ask(who, &payload, input);
            }
            8 | 9 => {
                let payload = Bytes::copy_from_slice(input.chunk());
                self.ask(who, &payload, input);
            }
            10 => self.ask_again(),
            11 => {
                self.machine
                    .advance(Duration::from_millis(input.pick(&DURATIONS_MS)));
                // Keys may have expired, and outcomes may be forgotten.
                self.known.clear();
                self.latest = None;
                // Who has said nothing for too long was disconnected.
                self.listen(who);
                self.connect();
            }
            12 => {
                self.clients[who].lose(&mut self.machine);
                self.connect();
            }
            13 => self.machine.finish_snapshot(),
            14 => {
                self.machine.fail_snapshot();
            }
            _ => return self.crash(),
        }
        self
    }

    /// Sends a request, and looks at its answer.
    fn ask(&mut self, who: usize, payload: &Bytes, input: &mut Cursor<'_>) {
        self.asked += 1;
        let publish = Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: Text::from_static(INVOKE_TOPIC),
            packet_id: PacketId::new(1),
            topic_alias: None,
            subscription_ids: [].into_iter().collect(),
            properties: MessageProperties {
                response_topic: Some(Text::from_static(RESPONSE_TOPICS[who])),
                correlation_data: Some(Bytes::copy_from_slice(&self.asked.to_be_bytes())),
                user_properties: self.user_properties(input),
                ..MessageProperties::default()
            },
            payload: payload.clone(),
        };
        let reply = self.exchange(who, &publish);
        match Request::parse(payload) {
            Ok(request) => {
                let reply_parsed = Reply::parse(&reply, request.kind());
                let parsed = reply_parsed.unwrap_or_else(|error| panic!("{request:?}: {reply:?}: {error}"));
                self.learn(&request, &parsed);
                let is_write = !matches!(request, Request::Get { .. } | Request::Scan { .. });
                self.latest =
                    (is_write && !matches!(parsed, Reply::Error(_))).then_some((who, publish, reply));
            }
            Err(_) => assert!(reply.starts_with(b"-ERR"), "{payload:?}: {reply:?}"),
        }
    }

    /// The latest request comes again, and is answered as it was.
    fn ask_again(&mut self) {
        if let Some((who, publish, reply)) = self.latest.take() {
            assert_eq!(self.exchange(who, &publish), reply, "{publish:?}");
            self.latest = Some((who, publish, reply));
        }
    }

    /// The one reply to a request that is in order.
    fn exchange(&mut self, who: usize, publish: &Publish) -> Bytes {
        self.clients[who].send(&mut self.machine, &Packet::Publish(Box::new(publish.clone())));
        let (mut acknowledged, mut replies) = (0, Vec::new());
        for packet in self.listen(who) {
            match packet {
                Packet::PubAck(ack) => {
                    assert_eq!(ack.reason, ReasonCode::Success, "{publish:?}");
                    acknowledged += 1;
                }
                Packet::Publish(reply) if reply.topic.as_str() == RESPONSE_TOPICS[who] => {
                    let (asked, answered) = (&publish.properties, &reply.properties);
                    assert_eq!(asked.correlation_data, answered.correlation_data);
                    replies.push(reply.payload);
                }
                Packet::Publish(_) => {}
                other => panic!("{publish:?}: {other:?}"),
            }
        }
        assert_eq!((acknowledged, replies.len()), (1, 1), "{publish:?}");
        replies.remove(0)
    }

    /// Everybody answers everything that comes; what one of them got.
    fn listen(&mut self, who: usize) -> Vec<Packet> {
        let mut heard = Vec::new();
        loop {
            self.machine.write_all();
            let mut is_quiet = true;
            for (place, client) in self.clients.iter_mut().enumerate() {
                let packets = client.listen(&mut self.machine);
                is_quiet &= packets.is_empty();
                client.answer(&mut self.machine, usize::MAX, ReasonCode::Success);
                if place == who {
                    heard.extend(packets);
                }
            }
            if is_quiet {
                return heard;
            }
        }
    }

    /// What a reply says about keys must be what was known, and is known from now on.
    fn learn(&mut self, request: &Request, reply: &Reply) {
        match (request, reply) {
            (Request::Get { key }, Reply::Value(value)) => self.found(key, Some(value)),
            (Request::Get { key }, Reply::Missing) => self.found(key, None),
            (Request::Set { key, value, .. }, Reply::Ok) => {
                self.known.insert(key.clone(), Some(value.clone()));
            }
            (Request::Del { key } | Request::VDel { key, .. }, Reply::Deleted(_)) => {
                self.known.insert(key.clone(), None);
            }
            (Request::Scan { pattern, token: None }, Reply::Keys { keys, token: None }) if pattern == "*" => {
                for (key, value) in &self.known {
                    let is_text = std::str::from_utf8(key).is_ok();
                    assert_eq!(keys.contains(key), value.is_some() && is_text, "{key:?}");
                }
            }
            _ => {}
        }
    }

    fn found(&mut self, key: &Bytes, value: Option<&Bytes>) {
        let before = self.known.insert(key.clone(), value.cloned());
        assert!(before.is_none_or(|before| before.as_ref() == value), "{key:?}");
    }

    fn user_properties(&self, input: &mut Cursor<'_>) -> UserProperties {
        let choices = input.byte();
        let now = self.machine.now().wall;
        let mut pairs = vec![("x", String::new())];
        match choices & 7 {
            0 => {}
            1 => pairs.push((properties::TIMESTAMP, text(input.chunk()))),
            2 => pairs.push((properties::TIMESTAMP, format!("{}:1:n", now + 3_600_000))),
            3 => pairs.push((properties::TIMESTAMP, format!("{}:4294967295:n", now + 50_000))),
            _ => pairs.push((properties::TIMESTAMP, format!("{now}:{}:n", self.asked))),
        }
        match choices >> 3 & 7 {
            0 => pairs.push((properties::FENCING_TOKEN, text(input.chunk()))),
            1 => pairs.push((properties::FENCING_TOKEN, format!("{}:1:n", now + 3_600_000))),
            2 => pairs.push((properties::FENCING_TOKEN, format!("{now}:{}:n", input.byte()))),
            _ => {}
        }
        match choices >> 6 {
            1 => pairs.push((properties::PROTOCOL_VERSION, "1.0".to_owned())),
            2 => pairs.push((properties::PERSIST, "true".to_owned())),
            _ => {}
        }
        UserProperties::from_pairs(pairs.iter().map(|(name, value)| (*name, value.as_str())))
            .expect("texts without U+0000")
    }

    /// Those who are not connected connect, and subscribe to their replies.
    fn connect(&mut self) {
        for (client, topic) in self.clients.iter_mut().zip(RESPONSE_TOPICS) {
            if !client.is_connected() {
                client.open(&mut self.machine);
                client.send(&mut self.machine, &connect(topic));
                client.send(&mut self.machine, &subscribe(topic));
            }
        }
        self.listen(0);
    }

    /// The power fails; what is known stays.
    #[must_use]
    fn crash(self) -> Self {
        let Self {
            known, latest, asked, ..
        } = self;
        let stage = Self::new(self.machine.crash());
        Self {
            known,
            latest,
            asked,
            ..stage
        }
    }

    /// After a power cut, everything that is known is found.
    fn end(self) {
        let mut stage = self.crash();
        let keys: Vec<Bytes> = stage.known.keys().cloned().collect();
        for key in keys {
            stage.ask(
                0,
                &Request::Get { key }.encode(),
                &mut Cursor::new(&[0x80 | 0x38]),
            );
        }
    }
}

fn request(input: &mut Cursor<'_>) -> Request {
    let choices = input.byte();
    let key = key(input);
    match choices & 7 {
        0..3 => Request::Set {
            key,
            value: value(input),
            condition: match choices >> 4 & 3 {
                0 => Condition::None,
                1 => Condition::NotExists,
                2 => Condition::NotExistsOrEqual,
                _ => Condition::NotExistsOrEqualTo(value(input)),
            },
            expires_in: (choices & 8 != 0).then(|| input.pick(&[1, 100, 5_000, Request::EXPIRES_IN_MAX_MS])),
        },
        3 => Request::Get { key },
        4 => Request::Del { key },
        5 => Request::VDel {
            key,
            value: value(input),
        },
        6 => Request::KeyNotify {
            key,
            stop: choices & 8 != 0,
        },
        _ if choices & 8 == 0 => Request::Scan {
            pattern: Bytes::from_static(b"*"),
            token: None,
        },
        _ => Request::Scan {
            pattern: Bytes::copy_from_slice(input.chunk()),
            token: (choices & 16 != 0).then(|| Bytes::copy_from_slice(input.chunk())),
        },
    }
}

/// Mostly one of a few.
fn key(input: &mut Cursor<'_>) -> Bytes {
    match input.byte() {
        choice @ 0..250 => Bytes::copy_from_slice(&[b'a' + choice % 20]),
        _ => Bytes::from([b"k", input.chunk()].concat()),
    }
}

fn value(input: &mut Cursor<'_>) -> Bytes {
    match input.byte() {
        choice @ 0..200 => Bytes::copy_from_slice(&[choice % 4]),
        choice => Bytes::from(vec![choice; usize::from(choice - 200) * 20]),
    }
}

/// Any text that may be a user property's value.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "0")
}

fn connect(client_id: &'static str) -> Packet {
    Packet::Connect(Box::new(Connect::new(Text::from_static(client_id))))
}

fn subscribe(filter: &'static str) -> Packet {
    let packet_id = PacketId::new(100).expect("not 0");
    let filter = Text::from_static(filter);
    Packet::Subscribe(Subscribe::new(packet_id, QoS::AtLeastOnce, [filter]))
}

/// Settings with which requests wait, or are refused.
const PACED_OR_SHORT_OF_MEMORY: u8 = 0x41;

/// Steps of an input at most.
const STEPS_MAX: usize = 300;

const CLIENTS: usize = 2;

/// Of each client, and its client id.
const RESPONSE_TOPICS: [&str; CLIENTS] = ["r/0", "r/1"];

const DURATIONS_MS: [u64; 4] = [1, 200, 6_000, 700_000];
