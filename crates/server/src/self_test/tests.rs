//! Rounds with a server that does what it must not do. One with a real server is in `crates/statehold/tests/it/self_test.rs`.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use mqtt::authorization::{Access, Subject};
use protocol::packet::{
    Ack, ConnAck, ConnAckProperties, Decoder, Packet, ProtocolVersion, Publish, SubAck, encode,
};
use protocol::properties::{Explanation, MessageProperties, UserProperties};
use protocol::state_store::properties::TIMESTAMP;
use protocol::state_store::{Dialect, ErrorText, INVOKE_TOPIC, Reply, Request};
use protocol::{ReasonCode, TopicFilter, TopicName};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

/// What is not as it should be with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    RefusesConnect,
    /// SUBACK with 0x87 for the topic.
    RefusesSubscription,
    /// The PUBACK comes, the message does not.
    LosesMessage,
    /// A byte of it is another one.
    ChangesMessage,
    NeverAcknowledges,
    /// GET gets the value of an earlier round.
    ForgetsSet,
    /// The version of a key is the same each time.
    VersionStays,
    /// No majority, say.
    StoreUnavailable,
    ClosesAfterSubscribe,
}

/// Answers one round.
async fn serve(mut stream: DuplexStream, flaw: Flaw, round: u64) {
    let mut decoder = Decoder::for_server(1 << 16);
    let (mut received, mut stored) = (BytesMut::new(), Bytes::new());
    loop {
        let packet = match decoder.decode(&mut received).expect("the probe speaks MQTT") {
            Some(packet) => packet,
            None if stream.read_buf(&mut received).await.unwrap_or(0) > 0 => continue,
            None => return,
        };
        let answers = match packet {
            Packet::Connect(_) => vec![Packet::ConnAck(Box::new(ConnAck {
                session_present: false,
                reason: match flaw {
                    Flaw::RefusesConnect => ReasonCode::ServerBusy,
                    _ => ReasonCode::Success,
                },
                properties: ConnAckProperties::default(),
            }))],
            Packet::Subscribe(subscribe) => {
                let first = match flaw {
                    Flaw::RefusesSubscription => ReasonCode::NotAuthorized,
                    _ => ReasonCode::GrantedQos1,
                };
                vec![Packet::SubAck(SubAck {
                    packet_id: subscribe.packet_id,
                    explanation: Explanation::default(),
                    reasons: vec![first, ReasonCode::GrantedQos1],
                })]
            }
            Packet::Publish(_) if flaw == Flaw::ClosesAfterSubscribe => return,
            Packet::Publish(_) if flaw == Flaw::NeverAcknowledges => continue,
            Packet::Publish(publish) if publish.topic.as_str() == INVOKE_TOPIC => {
                vec![
                    reply(&publish, flaw, round, &mut stored),
                    acknowledgement(&publish),
                ]
            }
            Packet::Publish(publish) => match flaw {
                Flaw::LosesMessage => vec![acknowledgement(&publish)],
                // Before its PUBACK, as a server may.
                _ => vec![echo(&publish, flaw), acknowledgement(&publish)],
            },
            Packet::Disconnect(_) => return,
            _ => continue,
        };
        for answer in answers {
            let mut bytes = BytesMut::new();
            encode(&answer, ProtocolVersion::V5, 1 << 16, &mut bytes).expect("it can be said");
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

fn acknowledgement(publish: &Publish) -> Packet {
    Packet::PubAck(Ack::new(publish.packet_id.expect("QoS 1"), ReasonCode::Success))
}

fn echo(publish: &Publish, flaw: Flaw) -> Packet {
    let mut payload = publish.payload.to_vec();
    if flaw == Flaw::ChangesMessage {
        payload[100] ^= 1;
    }
    Packet::Publish(Box::new(Publish {
        payload: payload.into(),
        ..publish.clone()
    }))
}

fn reply(publish: &Publish, flaw: Flaw, round: u64, stored: &mut Bytes) -> Packet {
    let request = Request::parse(&publish.payload).expect("a request");
    let said = match request {
        _ if flaw == Flaw::StoreUnavailable => Reply::Error(ErrorText::QuotaExceeded),
        Request::Set { value, .. } => {
            *stored = value;
            Reply::Ok
        }
        Request::Get { .. } if flaw == Flaw::ForgetsSet => Reply::Value(Bytes::from_static(b"before")),
        Request::Get { .. } => Reply::Value(stored.clone()),
        _ => Reply::Deleted(1),
    };
    let version = match flaw {
        Flaw::VersionStays => "5:0:node".to_owned(),
        _ => format!("{}:0:node", 5 + round),
    };
    let pairs = [(TIMESTAMP, version.as_str())];
    Packet::Publish(Box::new(Publish {
        topic: publish.properties.response_topic.clone().expect("asked for"),
        properties: MessageProperties {
            correlation_data: publish.properties.correlation_data.clone(),
            user_properties: UserProperties::from_pairs(pairs).expect("short"),
            ..MessageProperties::default()
        },
        payload: said.encode(Dialect::Sdk),
        ..publish.clone()
    }))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// The steps of the last of so many rounds, as in "publish wrong".
fn rounds_with(flaw: Flaw, rounds: u64) -> Vec<String> {
    // Long enough for what does come, and waited for only where nothing does.
    let timeout = match flaw {
        Flaw::LosesMessage | Flaw::NeverAcknowledges => Duration::from_millis(100),
        _ => Duration::from_secs(20),
    };
    let mut tester = Rounds::new(NodeId(7), timeout, 42);
    let steps = block_on(async {
        let mut steps = Vec::new();
        for round in 1..=rounds {
            let (near, far) = tokio::io::duplex(1 << 16);
            let served = serve(far, flaw, round);
            (steps, _) = tokio::join!(tester.run(near, 1_700_000_000_000), served);
        }
        steps
    });
    let line = |result: &StepResult| format!("{} {}", result.step.name(), result.verdict.name());
    steps.iter().map(line).collect()
}

/// All steps go well but for these, and those in `lacking` are not tried.
fn check(flaw: Flaw, expected: &[&str], lacking: &[Step]) {
    let steps = rounds_with(flaw, 1);
    let of_step = |step: Step| {
        let named = expected.iter().find(|line| line.starts_with(step.name()));
        named.map_or_else(|| format!("{} ok", step.name()), |line| (*line).to_owned())
    };
    let tried = Step::ALL.into_iter().filter(|step| !lacking.contains(step));
    assert_eq!(steps, tried.map(of_step).collect::<Vec<_>>(), "{flaw:?}");
}

#[test]
fn with_a_server_that_works_all_is_well() {
    check(Flaw::None, &[], &[]);
}

#[test]
fn each_flaw_is_told_apart_and_found_at_its_step() {
    let (messages, keys) = ([Step::Receive], [Step::Get, Step::Delete]);
    check(Flaw::RefusesConnect, &["connect failed"], &Step::ALL[1..]);
    check(Flaw::RefusesSubscription, &["subscribe failed"], &Step::ALL[2..]);
    check(Flaw::LosesMessage, &["receive timed_out"], &[]);
    check(Flaw::ChangesMessage, &["receive wrong"], &[]);
    check(Flaw::ForgetsSet, &["get wrong"], &[Step::Delete]);
    check(Flaw::StoreUnavailable, &["set failed"], &keys);
    let all = [messages.as_slice(), &keys].concat();
    check(
        Flaw::NeverAcknowledges,
        &["publish timed_out", "set timed_out"],
        &all,
    );
    check(Flaw::ClosesAfterSubscribe, &["publish failed"], &Step::ALL[3..]);
}

#[test]
fn a_version_that_does_not_rise_is_found_when_the_key_has_its_turn_again() {
    assert_eq!(rounds_with(Flaw::VersionStays, 16).len(), Step::COUNT);
    let steps = rounds_with(Flaw::VersionStays, 17);
    assert_eq!(steps.last().map(String::as_str), Some("set wrong"));
    assert_eq!(
        rounds_with(Flaw::None, 17).last().map(String::as_str),
        Some("delete ok")
    );
}

#[test]
fn its_policy_allows_what_is_its_own_and_nothing_else() {
    let node = NodeId(7);
    let subject = Subject {
        client_id: client_id(node),
        ..Subject::default()
    };
    let mut access = Access::new(policy().policy, subject);
    let topic = |topic: &str| TopicName::parse(Text::new(topic).expect("short")).expect("a topic");
    let filter = |filter: &str| TopicFilter::parse(Text::new(filter).expect("short")).expect("a filter");
    let own = format!("{}1", topic_prefix(node));

    assert!(access.may_connect().is_allowed());
    for (name, expected) in [(own.as_str(), true), ("plant/1", false), ("$SYS/broker", false)] {
        assert_eq!(access.may_publish(&topic(name)).is_allowed(), expected, "{name}");
        assert_eq!(
            access.may_subscribe(&filter(name)).is_allowed(),
            expected,
            "{name}"
        );
    }
    assert!(!access.may_subscribe(&filter("#")).is_allowed());
    let own = format!("{}1", key_prefix(node));
    for (key, expected) in [(own.as_str(), true), ("pump", false), ("*", false)] {
        assert_eq!(
            access.may_read_key(key.as_bytes()).is_allowed(),
            expected,
            "{key}"
        );
        assert_eq!(
            access.may_write_key(key.as_bytes()).is_allowed(),
            expected,
            "{key}"
        );
    }
}
