//! Both codecs read the same bytes, valid and damaged. Where they differ, the difference must be a known one.
//!
//! Where both take a packet, they must have understood the same: the oracle reads what we write for the packet that
//! we read, and that must be the packet that it read itself. So no field of one has to be mapped to the other's.
#![allow(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "../../../crates/protocol/tests/it/check.rs"]
mod check;
#[path = "../../../crates/protocol/tests/it/mutation.rs"]
mod mutation;
#[path = "../../../crates/protocol/tests/it/packets.rs"]
mod packets;

use std::collections::BTreeMap;
use std::path::Path;

use bytes::BytesMut;
use check::{PACKET_SIZE_MAX, Receiver, decoder, is_connect};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use statehold_differential::{Verdict, ask};
use statehold_protocol::packet::{DecodeError, Packet, PacketType, ProtocolVersion, Violation, encode};
use statehold_protocol::text::TextError;

/// Why the oracle may take what we refuse.
fn known_leniency(error: &DecodeError) -> Option<&'static str> {
    use PacketType::{
        Auth, ConnAck, Connect, Disconnect, PingReq, PingResp, Publish, SubAck, Subscribe, UnsubAck,
    };

    Some(match (error.violation(), error.packet()?) {
        (Violation::WrongDirection, _) => "it does not ask which side sends a packet",
        (Violation::SecondConnect | Violation::FirstPacketNotConnect, _) => "it keeps no order of packets",
        (
            Violation::Text {
                error: TextError::Null,
                ..
            },
            _,
        ) => "it takes U+0000 [MQTT-1.5.4-2]",
        (Violation::VariableByteIntegerNotMinimal { .. }, _) => {
            "it takes lengths with a byte too many [MQTT-1.5.5-1]"
        }
        (Violation::TrailingBytes { .. }, Connect | ConnAck | Disconnect | PingReq | PingResp) => {
            "it does not look at what follows the last field"
        }
        (Violation::Truncated { .. }, Auth) => "it takes an AUTH with a reason code and no property length",
        (Violation::ReasonCode { .. }, Auth | Disconnect) => "it does not ask which side sends a reason code",
        (Violation::ReasonCode { .. }, ConnAck) => "it takes return codes that 3.1.1 reserves",
        (Violation::AuthenticationMethodMissing, _) => {
            "it takes an AUTH without a method, section 3.15.2.2.2"
        }
        (Violation::AuthenticationDataWithoutMethod, _) => {
            "it takes data without a method, section 3.1.2.11.10"
        }
        (Violation::PropertyFromWrongSide { .. }, Publish | Disconnect) => {
            "it does not ask which side sends a property"
        }
        (Violation::SessionPresentWithError, _) => "it takes a session in a refusal [MQTT-3.2.2-6]",
        (Violation::DupWithQos0, _) => "it takes DUP with QoS 0 [MQTT-3.3.1-2]",
        (Violation::TopicNameMissing, _) => "it takes a PUBLISH of no topic",
        (Violation::TopicNameWildcard { .. } | Violation::TopicNameEmpty { .. }, Publish | Connect) => {
            "it takes some topic names that are none [MQTT-4.7.0-1] [MQTT-4.7.3-1]"
        }
        (Violation::NoLocalShared, _) => "it takes No Local on a shared subscription [MQTT-3.8.3-4]",
        (Violation::NoReasonCode, SubAck | UnsubAck) => "it takes an answer to no topic filter",
        (Violation::WillFlagsWithoutWill, _) => {
            "it takes will flags without a will [MQTT-3.1.2-11] [MQTT-3.1.2-13]"
        }
        (Violation::PasswordWithoutUserName, _) => {
            "it takes a password without a user name in 3.1.1, [MQTT-3.1.2-22] there"
        }
        (Violation::ReservedSubscriptionOptions, Subscribe) => {
            "it takes reserved options in 3.1.1 [MQTT-3-8.3-4]"
        }
        _ => return None,
    })
}

/// Why the oracle may refuse what we take.
fn known_strictness(packet: &Packet, message: &str) -> Option<&'static str> {
    Some(match (packet, message) {
        (Packet::Connect(connect), "Invalid client id") if connect.client_id.is_empty() => {
            "it applies a rule of 3.1.1 to version 5, where an empty client identifier needs no clean start"
        }
        (Packet::Subscribe(_) | Packet::Unsubscribe(_), "Invalid topic filter") => {
            "it refuses the packet for one wrong filter; we leave the answer 0x8F to the broker"
        }
        (Packet::Publish(publish), _) if publish.properties.message_expiry == Some(0) => {
            "it refuses a Message Expiry Interval of 0, which is legal"
        }
        (Packet::Connect(connect), _)
            if connect
                .will
                .as_ref()
                .is_some_and(|will| will.properties.message_expiry == Some(0)) =>
        {
            "it refuses a Message Expiry Interval of 0 in a will, which is legal"
        }
        _ => return None,
    })
}

/// What came of comparing: how often both agreed, how often each known difference was seen, and the unknown ones.
#[derive(Debug, Default)]
struct Comparison {
    both_take: usize,
    both_refuse: usize,
    known: BTreeMap<&'static str, usize>,
    unknown: Vec<String>,
}

impl Comparison {
    fn add(&mut self, receiver: Receiver, version: ProtocolVersion, bytes: &[u8]) {
        let ours = decoder(receiver, version, is_connect(bytes)).decode(&mut BytesMut::from(bytes));
        let is_v5 = match &ours {
            Ok(Some(Packet::Connect(connect))) => connect.version == ProtocolVersion::V5,
            Err(error) if error.in_connect() && bytes.get(8) == Some(&4) => false,
            _ => version == ProtocolVersion::V5,
        };
        let theirs = ask(is_v5, bytes);
        let known = match (&ours, &theirs) {
            (Ok(Some(packet)), Verdict::Refused(message)) => known_strictness(packet, message),
            (Ok(Some(packet)), Verdict::V311(_) | Verdict::V5(_)) => {
                if ask(is_v5, &written(packet, is_v5)) == theirs {
                    self.both_take += 1;
                    return;
                }
                None
            }
            (Err(error), Verdict::V311(_) | Verdict::V5(_)) => known_leniency(error),
            (Ok(None), Verdict::Incomplete) | (Err(_), Verdict::Refused(_) | Verdict::Incomplete) => {
                self.both_refuse += 1;
                return;
            }
            _ => None,
        };
        match known {
            Some(reason) => *self.known.entry(reason).or_default() += 1,
            None => self.unknown.push(format!(
                "{receiver:?} {version:?} {bytes:02x?}\n  we: {ours:?}\n  it: {theirs:?}"
            )),
        }
    }

    fn check(&self, at_least: usize) {
        println!("both take {}, both refuse {}", self.both_take, self.both_refuse);
        for (reason, count) in &self.known {
            println!("{count:7} times {reason}");
        }
        let (count, first) = (self.unknown.len(), self.unknown.iter().take(5));
        assert_eq!(
            count,
            0,
            "unknown differences, the first of them:\n{}",
            first.cloned().collect::<Vec<_>>().join("\n")
        );
        assert!(
            self.both_take >= at_least,
            "only {} packets were taken by both",
            self.both_take
        );
    }
}

#[test]
fn valid_and_damaged_packets_are_read_alike() {
    let cases = std::env::var("CASES").map_or(5_000, |cases| cases.parse().expect("CASES is a number"));
    let mut runner = TestRunner::deterministic();
    let mut random = runner.new_rng();
    let mut comparison = Comparison::default();
    for receiver in [Receiver::Server, Receiver::Client] {
        for version in [ProtocolVersion::V5, ProtocolVersion::V311] {
            let packets = packets::packet(receiver, version);
            for _ in 0..cases {
                let packet = packets.new_tree(&mut runner).unwrap().current();
                let mut bytes = written(&packet, version == ProtocolVersion::V5).to_vec();
                comparison.add(receiver, version, &bytes);
                for _ in 0..DAMAGED_COPIES {
                    mutation::mutate(&mut bytes, &mut random);
                    comparison.add(receiver, version, &bytes);
                }
            }
        }
    }
    comparison.check(cases * 3);
}

#[test]
fn the_corpus_is_read_alike() {
    let mut comparison = Comparison::default();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/decode")).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        let Some((connection, bytes)) = input.split_first() else {
            continue;
        };
        let receiver = if connection & 1 == 0 {
            Receiver::Server
        } else {
            Receiver::Client
        };
        let version = if connection & 2 == 0 {
            ProtocolVersion::V5
        } else {
            ProtocolVersion::V311
        };
        comparison.add(receiver, version, bytes);
    }
    comparison.check(20);
}

fn written(packet: &Packet, is_v5: bool) -> BytesMut {
    let version = if is_v5 {
        ProtocolVersion::V5
    } else {
        ProtocolVersion::V311
    };
    let mut bytes = BytesMut::new();
    encode(packet, version, PACKET_SIZE_MAX, &mut bytes).unwrap();
    bytes
}

/// Of each valid packet, each more damaged than the one before.
const DAMAGED_COPIES: usize = 3;
