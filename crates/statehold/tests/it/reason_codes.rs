//! Every reason code that says no is in the log: one line of level `info`, with the client id, its address, the topic or filter, and why.
//!
//! [`code_of`] has all codes of the specification, so that a new one cannot be forgotten: each is provoked at a server, or never sent.

mod settings;

use std::collections::BTreeSet;
use std::io::Write as _;

use client::protocol::packet::{Ack, Connect, Packet, Publish, QoS, TopicAlias, Unsubscribe, Will};
use client::protocol::properties::{MessageProperties, UserProperties};
use client::protocol::{ReasonCode, Text, TopicName};

use crate::configured::Configured;
use crate::raw::{self, Raw, connect, packet_id};

/// Where a code is provoked.
#[derive(Debug, PartialEq, Eq)]
enum Code {
    /// It says yes, and is no line.
    Success,
    /// By what a client sends, at a server of [`CASES`].
    Packets,
    /// At a server with settings of its own, of [`settings::CASES`].
    Settings,
    /// The server never sends it, for this reason.
    Never(&'static str),
}

fn code_of(code: ReasonCode) -> Code {
    use Code::{Never, Packets, Settings, Success};
    match code {
        ReasonCode::Success
        | ReasonCode::GrantedQos1
        | ReasonCode::GrantedQos2
        | ReasonCode::DisconnectWithWillMessage
        | ReasonCode::NoMatchingSubscribers
        | ReasonCode::NoSubscriptionExisted
        | ReasonCode::ContinueAuthentication
        | ReasonCode::Reauthenticate => Success,
        ReasonCode::MalformedPacket
        | ReasonCode::ProtocolError
        | ReasonCode::ImplementationSpecificError
        | ReasonCode::UnsupportedProtocolVersion
        | ReasonCode::ClientIdentifierNotValid
        | ReasonCode::BadAuthenticationMethod
        | ReasonCode::NotAuthorized
        | ReasonCode::KeepAliveTimeout
        | ReasonCode::SessionTakenOver
        | ReasonCode::TopicFilterInvalid
        | ReasonCode::TopicNameInvalid
        | ReasonCode::PacketIdentifierNotFound
        | ReasonCode::ReceiveMaximumExceeded
        | ReasonCode::TopicAliasInvalid
        | ReasonCode::PacketTooLarge
        | ReasonCode::QuotaExceeded
        | ReasonCode::ServerShuttingDown => Packets,
        ReasonCode::UnspecifiedError
        | ReasonCode::BadUserNameOrPassword
        | ReasonCode::ServerUnavailable
        | ReasonCode::ServerBusy
        | ReasonCode::Banned
        | ReasonCode::AdministrativeAction
        | ReasonCode::UseAnotherServer
        | ReasonCode::ServerMoved
        | ReasonCode::ConnectionRateExceeded
        | ReasonCode::MaximumConnectTime => Settings,
        ReasonCode::PacketIdentifierInUse => {
            Never("A packet id that is in use names the same message again, and is acknowledged again.")
        }
        ReasonCode::MessageRateTooHigh => Never("The server reads slowly from a client that sends too fast."),
        ReasonCode::PayloadFormatInvalid => Never("The server does not look at payloads."),
        ReasonCode::RetainNotSupported => Never("Retained messages are supported."),
        ReasonCode::QosNotSupported => Never("Each QoS is supported."),
        ReasonCode::SharedSubscriptionsNotSupported => Never("Shared subscriptions are supported."),
        ReasonCode::SubscriptionIdentifiersNotSupported => Never("Subscription identifiers are supported."),
        ReasonCode::WildcardSubscriptionsNotSupported => Never("Filters with wildcards are supported."),
    }
}

/// Codes that are provoked there.
fn codes_of(place: &Code) -> BTreeSet<ReasonCode> {
    let all = (0..=u8::MAX).filter_map(|code| ReasonCode::try_from(code).ok());
    all.filter(|code| code_of(*code) == *place).collect()
}

/// A client that is refused something, and the line about it.
struct Case {
    code: ReasonCode,
    /// Provokes it.
    provoke: fn(&str) -> Vec<Raw>,
    /// What the line says, beside code, client and address.
    says: &'static [&'static str],
}

const SETTINGS: &str = r#"
[[listeners]]
address = "127.0.0.1:0"
[limits]
topic_levels_max = 3
subscriptions_per_session_max = 1
receive_maximum = 2
topic_alias_maximum = 1
packet_size_max = "64 KiB"
"#;

fn publish(topic: &'static str, change: impl FnOnce(&mut Publish)) -> Packet {
    let mut packet = raw::publish(topic, Some(packet_id(1)), b"");
    if let Packet::Publish(publish) = &mut packet {
        change(publish);
    }
    packet
}

/// A client that sends this, up to the answer to the last of it.
fn sends(address: &str, client_id: &str, packets: &[Packet]) -> Vec<Raw> {
    let mut client = Raw::connect(address, connect(client_id));
    for packet in packets {
        client.send(packet);
        client.try_receive();
    }
    vec![client]
}

fn refused_connect(address: &str, connect: Connect) -> Vec<Raw> {
    let mut client = Raw::begin(address, connect);
    client.try_receive();
    vec![client]
}

const CASES: &[Case] = &[
    Case {
        code: ReasonCode::MalformedPacket,
        provoke: |address| {
            let mut client = Raw::connect(address, connect("c-81"));
            client.stream.write_all(b"\x00\x00").expect("sent");
            vec![client]
        },
        says: &["closed connection: ", "client_id=c-81"],
    },
    Case {
        code: ReasonCode::ProtocolError,
        provoke: |address| sends(address, "c-82", &[Packet::Connect(Box::new(connect("c-82")))]),
        says: &["closed connection: ", "CONNECT", "client_id=c-82"],
    },
    Case {
        code: ReasonCode::ImplementationSpecificError,
        provoke: |address| {
            let topic = client::protocol::state_store::INVOKE_TOPIC;
            sends(address, "c-83", &[publish(topic, |_| ())])
        },
        says: &["rejected PUBLISH: ", "topic=statestore/", "client_id=c-83"],
    },
    Case {
        code: ReasonCode::UnsupportedProtocolVersion,
        provoke: |address| {
            let mut client = Raw::open(address);
            let packet = b"\x10\x0f\0\x04MQTT\x09\x02\0\x3c\0\0\x04c-84";
            client.stream.write_all(packet).expect("sent");
            vec![client]
        },
        says: &["rejected CONNECT: "],
    },
    Case {
        code: ReasonCode::ClientIdentifierNotValid,
        provoke: |address| {
            let mut client = Raw::open(address);
            let packet = b"\x10\x0c\0\x04MQTT\x04\x00\0\x3c\0\0";
            client.stream.write_all(packet).expect("sent");
            vec![client]
        },
        says: &["rejected CONNECT: ", "the client identifier is empty"],
    },
    Case {
        code: ReasonCode::BadAuthenticationMethod,
        provoke: |address| {
            let mut connect = connect("c-8c");
            connect.properties.authentication_method = Some(Text::from_static("GUESS"));
            refused_connect(address, connect)
        },
        says: &["rejected CONNECT: ", "client_id=c-8c"],
    },
    Case {
        code: ReasonCode::NotAuthorized,
        provoke: |address| sends(address, "c-87", &[publish("$SYS/a", |_| ())]),
        says: &["rejected PUBLISH: ", "topic=$SYS/a", "client_id=c-87"],
    },
    Case {
        code: ReasonCode::KeepAliveTimeout,
        provoke: |address| {
            let mut connect = connect("c-8d");
            connect.keep_alive = 1;
            vec![Raw::connect(address, connect)]
        },
        says: &["closed connection: ", "Keep Alive", "client_id=c-8d"],
    },
    Case {
        code: ReasonCode::SessionTakenOver,
        provoke: |address| {
            let first = Raw::connect(address, connect("c-8e"));
            vec![first, Raw::connect(address, connect("c-8e"))]
        },
        says: &["closed connection: another connection", "client_id=c-8e"],
    },
    Case {
        code: ReasonCode::TopicFilterInvalid,
        provoke: |address| sends(address, "c-8f", &[raw::subscribe("a/#/b", QoS::AtLeastOnce)]),
        says: &["rejected SUBSCRIBE: ", "filter=a/#/b", "client_id=c-8f"],
    },
    Case {
        code: ReasonCode::TopicFilterInvalid,
        provoke: |address| {
            let unsubscribe = Packet::Unsubscribe(Unsubscribe {
                packet_id: packet_id(1),
                user_properties: UserProperties::EMPTY,
                filters: vec![Text::from_static("a+")],
            });
            sends(address, "u-8f", &[unsubscribe])
        },
        says: &["rejected UNSUBSCRIBE: ", "filter=a+", "client_id=u-8f"],
    },
    Case {
        code: ReasonCode::TopicNameInvalid,
        provoke: |address| sends(address, "c-90", &[publish("a/+", |_| ())]),
        says: &["closed connection: ", "topic=a/+", "client_id=c-90"],
    },
    Case {
        code: ReasonCode::PacketIdentifierNotFound,
        provoke: |address| {
            let pubrel = Packet::PubRel(Ack::new(packet_id(7), ReasonCode::Success));
            sends(address, "c-92", &[pubrel])
        },
        says: &["rejected PUBREL: ", "packet_id=7", "client_id=c-92"],
    },
    Case {
        code: ReasonCode::ReceiveMaximumExceeded,
        provoke: |address| {
            let one = |number| {
                publish("a", |publish| {
                    publish.qos = QoS::ExactlyOnce;
                    publish.packet_id = Some(packet_id(number));
                })
            };
            sends(address, "c-93", &[one(1), one(2), one(3)])
        },
        says: &[
            "closed connection: ",
            "Receive Maximum",
            "topic=a",
            "client_id=c-93",
        ],
    },
    Case {
        code: ReasonCode::TopicAliasInvalid,
        provoke: |address| {
            let alias = TopicAlias::new(2);
            sends(
                address,
                "c-94",
                &[publish("a/b", |publish| publish.topic_alias = alias)],
            )
        },
        says: &["closed connection: ", "alias", "topic=a/b", "client_id=c-94"],
    },
    Case {
        code: ReasonCode::PacketTooLarge,
        provoke: |address| {
            let large = publish("a", |publish| publish.payload = vec![0; 70_000].into());
            let mut client = Raw::connect(address, connect("c-95"));
            // It may be closed before all is sent.
            let _ = client.stream.write_all(&raw::bytes(&large));
            vec![client]
        },
        says: &["closed connection: ", "client_id=c-95"],
    },
    Case {
        code: ReasonCode::QuotaExceeded,
        provoke: |address| {
            let filters = ["a", "b"].map(|filter| raw::subscribe(filter, QoS::AtLeastOnce));
            sends(address, "c-97", &filters)
        },
        says: &[
            "rejected SUBSCRIBE: ",
            "limits.subscriptions_per_session_max",
            "filter=b",
            "client_id=c-97",
        ],
    },
];

/// Looks for the line of a code with all of these texts, and with the address of one of the clients.
fn check_line(server: &mut Configured, clients: &[Raw], code: ReasonCode, says: &[&str]) {
    let line = line_of(server, code, says);
    let is_from = |client: &Raw| {
        let own = client.stream.local_addr().expect("an address");
        line.contains(&format!("peer={own} "))
    };
    assert!(clients.iter().any(is_from), "{code:?} has no address: {line}");
    assert!(line.contains(" INFO "), "{line}");
}

/// The line of a code with all of these texts.
fn line_of(server: &mut Configured, code: ReasonCode, says: &[&str]) -> String {
    let code = format!("reason=\"0x{:02X} {code}\"", code as u8);
    loop {
        let line = server.logged(&code);
        if says.iter().all(|text| line.contains(text)) {
            return line;
        }
    }
}

#[test]
fn every_code_that_answers_a_packet_has_a_line_that_says_to_whom_about_what_and_why() {
    let mut server = Configured::start(SETTINGS);
    let address = server.at("mqtt").to_owned();
    let mut provoked = BTreeSet::new();
    for case in CASES {
        let clients = (case.provoke)(&address);
        check_line(&mut server, &clients, case.code, case.says);
        provoked.insert(case.code);
    }
    // A will that may not be published.
    let mut with_will = connect("c-will");
    with_will.will = Some(Will {
        topic: TopicName::parse(Text::from_static("$SYS/broker/uptime")).expect("a topic"),
        payload: Default::default(),
        qos: QoS::AtMostOnce,
        retain: false,
        delay: None,
        properties: MessageProperties::default(),
    });
    let refused = refused_connect(&address, with_will);
    let says = [
        "rejected CONNECT: ",
        "topic=$SYS/broker/uptime",
        "client_id=c-will",
    ];
    check_line(&mut server, &refused, ReasonCode::NotAuthorized, &says);
    // Everybody is told so when the server stops.
    let stays = [Raw::connect(&address, connect("c-8b"))];
    server.signal("TERM");
    let says = ["closed connection: ", "client_id=c-8b"];
    check_line(&mut server, &stays, ReasonCode::ServerShuttingDown, &says);
    provoked.insert(ReasonCode::ServerShuttingDown);
    assert_eq!(provoked, codes_of(&Code::Packets));
}

/// What a client chooses reaches the log in one form: no line of its own, no colour, no field, and no more of it than somebody reads. A
/// thousand lines of one kind are twenty, and one that says how many there were.
#[test]
fn a_hostile_client_id_forges_nothing_and_a_flood_is_counted() {
    let mut server = Configured::start("[[listeners]]\naddress = \"127.0.0.1:0\"\n");
    let address = server.at("mqtt").to_owned();
    let hostile = format!(
        "x\u{1b}[2J\nINFO server: forged client_id=\"admin\"\u{2028}\u{202e}{}",
        "y".repeat(1_000)
    );
    let mut clients: Vec<Raw> = (0..2)
        .map(|_| Raw::connect(&address, connect(&hostile)))
        .collect();
    let line = server.logged("another connection uses this client id");
    let shown = "client_id=\"x\\u{1b}[2J\\nINFO server: forged client_id=\\\"admin\\\"\\u{2028}\\u{202e}yyy";
    assert!(line.contains(shown), "{line}");
    assert!(line.contains("…(1049 bytes)"), "{line}");
    clients.clear();
    for _ in 0..200 {
        let mut connect = connect("stranger");
        connect.properties.authentication_method = Some(Text::from_static("GUESS"));
        Raw::begin(&address, connect).closed();
    }
    let log = server.stop();
    let count = log.matches("rejected CONNECT: ").count();
    assert!((20..=40).contains(&count), "{count} lines");
    let said = "left out lines: too many of one kind kind=\"rejected CONNECT\" of=127.0.0.1 left_out=";
    assert!(log.contains(said), "{log}");
}
