//! Adversaries that cost memory: what a server must keep for those who send it little, or nothing whole.
//!
//! Each fills a server with `memory_max = "256 MiB"` as far as it gets, and then stays for a moment.

use std::io::Write;
use std::time::Duration;

use client::protocol::packet::{Connect, ConnectProperties, Packet, QoS, Will};
use client::protocol::{ReasonCode, Text, TopicName};

use super::adversary::{Adversary, Arena, Outcome, World};
use super::attacker::{Attacker, Next, connect, encoded, subscribe};

pub(super) const ADVERSARIES: &[Adversary] = &[
    Adversary {
        name: "memory_filters",
        about: "clients subscribe to filters of 128 levels, a thousand in each SUBSCRIBE",
        world: World::Alone,
        settings: SETTINGS,
        act: filters,
    },
    Adversary {
        name: "memory_subscribes",
        about: "300 clients send a SUBSCRIBE of 10,000 filters and 900 KB each at the same time",
        world: World::Alone,
        settings: SETTINGS,
        act: subscribes,
    },
    Adversary {
        name: "memory_unfinished_publishes",
        about: "300 clients send 1 MiB of a PUBLISH each, and not its end",
        world: World::Alone,
        settings: SETTINGS,
        act: unfinished_publishes,
    },
    Adversary {
        name: "memory_unfinished_connects",
        about: "300 strangers send 1 MiB of a CONNECT each, and not its end",
        world: World::Alone,
        settings: SETTINGS,
        act: unfinished_connects,
    },
    Adversary {
        name: "memory_small_unfinished_connects",
        about: "1,000 strangers send 100 KiB of a CONNECT each, and not its end",
        world: World::Alone,
        settings: SETTINGS,
        act: small_unfinished_connects,
    },
    Adversary {
        name: "memory_topic_aliases",
        about: "300 clients give 32 aliases each to topics of 60,000 bytes",
        world: World::Alone,
        settings: SETTINGS,
        act: topic_aliases,
    },
    Adversary {
        name: "memory_client_ids",
        about: "8,000 clients with ids of 60,000 bytes leave sessions behind",
        world: World::Alone,
        settings: SETTINGS,
        act: client_ids,
    },
    Adversary {
        name: "memory_wills",
        about: "8,000 clients leave sessions behind with wills of 60,000 bytes that wait for an hour",
        world: World::Alone,
        settings: SETTINGS,
        act: wills,
    },
    Adversary {
        name: "memory_subscription_identifiers",
        about: "messages of 210 bytes wait for sessions with 100 filters that match, each with an identifier",
        world: World::Alone,
        settings: SETTINGS,
        act: subscription_identifiers,
    },
    Adversary {
        name: "memory_retained_topics",
        about: "retained messages of one byte with topics of 60,000 bytes",
        world: World::Alone,
        settings: SETTINGS,
        act: retained_topics,
    },
    Adversary {
        name: "memory_unacknowledged",
        about: "one message of 100 bytes in each 64 KiB that are read is for clients that acknowledge nothing",
        world: World::Alone,
        settings: SETTINGS,
        act: unacknowledged,
    },
];

const SETTINGS: &str = "[limits]\nmemory_max = \"256 MiB\"\n";

/// How long an adversary stays when it has sent everything: longer than a packet may take while others wait.
const STAYS: Duration = Duration::from_secs(3);

/// A topic, client id or payload that nearly is as long as MQTT allows.
const LONG: usize = 60_000;

fn filters(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    arena.begin();
    let (mut sent, mut clients) = (0, Vec::new());
    for client in 0..50 {
        let mut attacker = arena.client(&format!("filters-{client}"))?;
        for part in 0..10 {
            let filter = |number: usize| format!("{client}-{part}-{number}{}/+", "/a".repeat(126));
            let packet = subscribe((0..1_000).map(filter))?;
            sent += packet.len();
            attacker.send(&packet)?;
            match attacker.next()? {
                Next::Packet(Packet::SubAck(suback))
                    if !suback.reasons.contains(&ReasonCode::QuotaExceeded) => {}
                Next::Packet(Packet::SubAck(_)) => return stay(&clients, "SUBACK 0x97", sent),
                other => return stay(&clients, &format!("{other:?}"), sent),
            }
        }
        clients.push(attacker);
    }
    stay(&clients, "took everything", sent)
}

fn subscribes(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut clients: Vec<_> = (0..300)
        .map(|number| arena.client(&format!("subscribes-{number}")))
        .collect::<anyhow::Result<_>>()?;
    arena.begin();
    let mut sent = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        let filter = |filter: usize| format!("{number}/{filter}/{}", "x".repeat(70));
        let packet = subscribe((0..10_000).map(filter))?;
        sent += packet.len();
        pour_all(std::slice::from_mut(client), &packet);
    }
    let became = format!("{} of 300 closed", closed_after(&mut clients)?);
    Ok(Outcome::new(became, sent))
}

fn unfinished_publishes(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut clients: Vec<_> = (0..300)
        .map(|number| arena.client(&format!("unfinished-{number}")))
        .collect::<anyhow::Result<_>>()?;
    arena.begin();
    // A PUBLISH of QoS 0 to `a`, of 1 MiB and a byte that does not come.
    let mut packet = vec![0x30];
    put_length(&mut packet, (1 << 20) + 1);
    packet.extend_from_slice(&[0, 1, b'a', 0]);
    packet.resize((1 << 20) + 4, b'x');
    pour_all(&mut clients, &packet);
    let became = format!("{} of 300 closed", closed_after(&mut clients)?);
    Ok(Outcome::new(became, 300 * packet.len()))
}

fn unfinished_connects(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    strangers(arena, 300, 1 << 20)
}

fn small_unfinished_connects(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    strangers(arena, 1_000, 100 << 10)
}

/// Connections that send a CONNECT of so many bytes without the last one.
fn strangers(arena: &Arena<'_>, count: usize, bytes: usize) -> anyhow::Result<Outcome> {
    arena.begin();
    let mut strangers: Vec<_> = (0..count)
        .map(|_| Attacker::open(arena.mqtt()))
        .collect::<anyhow::Result<_>>()?;
    let mut packet = vec![0x10];
    put_length(&mut packet, bytes + 1);
    packet.extend_from_slice(b"\0\x04MQTT\x05\x02\0\x3c");
    packet.resize(bytes, 0);
    pour_all(&mut strangers, &packet);
    let became = format!("{} of {count} closed", closed_after(&mut strangers)?);
    Ok(Outcome::new(became, count * packet.len()))
}

fn topic_aliases(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut clients: Vec<_> = (0..300)
        .map(|number| arena.client(&format!("aliases-{number}")))
        .collect::<anyhow::Result<_>>()?;
    arena.begin();
    let mut sent = 0;
    for alias in 1..=32_u8 {
        // PUBLISH of QoS 0 without a payload, with a Topic Alias.
        let topic = vec![b'a' + alias % 26; LONG];
        let body = [&u16_bytes(topic.len()), &topic[..], &[3, 0x23, 0, alias]].concat();
        let mut packet = vec![0x30];
        put_length(&mut packet, body.len());
        packet.extend_from_slice(&body);
        pour_all(&mut clients, &packet);
        sent += clients.len() * packet.len();
    }
    let became = format!("{} of 300 closed", closed_after(&mut clients)?);
    Ok(Outcome::new(became, sent))
}

fn client_ids(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    leave_sessions(arena, 8_000, |number| leaving(&format!("{number:0LONG$}"), None))
}

fn wills(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    leave_sessions(arena, 8_000, |number| {
        let will = Will {
            topic: TopicName::parse(Text::from_static("wills"))?,
            payload: vec![b'x'; LONG].into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay: Some(3_600),
            properties: client::protocol::properties::MessageProperties::default(),
        };
        leaving(&format!("will-{number}"), Some(will))
    })
}

/// Clients connect one after the other, and go without a word, until one is refused.
fn leave_sessions(
    arena: &Arena<'_>,
    count: usize,
    connect: impl Fn(usize) -> anyhow::Result<Connect>,
) -> anyhow::Result<Outcome> {
    arena.begin();
    let mut sent = 0;
    for number in 0..count {
        let packet = encoded(&Packet::Connect(Box::new(connect(number)?)));
        let mut attacker = Attacker::open(arena.mqtt())?;
        attacker.send(&packet)?;
        sent += packet.len();
        match attacker.next()? {
            Next::Packet(Packet::ConnAck(connack)) if connack.reason == ReasonCode::Success => {}
            Next::Packet(Packet::ConnAck(connack)) => {
                return stay(&[], &format!("CONNACK {:#04x}", connack.reason as u8), sent);
            }
            other => return stay(&[], &format!("{other:?}"), sent),
        }
    }
    stay(&[], "took everything", sent)
}

fn subscription_identifiers(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    for session in 0..20 {
        let mut attacker = Attacker::connect_as(arena.mqtt(), &leaving(&format!("ids-{session}"), None)?)?;
        for level in 0..100_u8 {
            let filter = format!("{}#", "+/".repeat(level.into()));
            let mut packet = subscribe_qos_1(&filter, 128 + u16::from(level))?;
            attacker.send(&std::mem::take(&mut packet))?;
            attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))?;
        }
    }
    let mut publisher = arena.client("ids-publisher")?;
    let packet = super::attacker::publish(&("a/".repeat(100) + "a"))?;
    arena.begin();
    publish_until_refused(&mut publisher, 9_000, &packet)
}

fn retained_topics(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut publisher = arena.client("retained-topics")?;
    arena.begin();
    let mut sent = 0;
    for number in 0..6_000 {
        let topic = format!("{number:0LONG$}");
        let body = [&u16_bytes(topic.len()), topic.as_bytes(), &[0, 1, 0, b'x']].concat();
        let mut packet = vec![0x33];
        put_length(&mut packet, body.len());
        packet.extend_from_slice(&body);
        sent += packet.len();
        publisher.send(&packet)?;
        match publisher.next()? {
            Next::Packet(Packet::PubAck(ack)) if !ack.reason.is_error() => {}
            Next::Packet(Packet::PubAck(ack)) => {
                return stay(&[], &format!("PUBACK {:#04x}", ack.reason as u8), sent);
            }
            other => return stay(&[], &format!("{other:?}"), sent),
        }
    }
    stay(&[], "took everything", sent)
}

/// Sends one message of QoS 1 again and again.
fn publish_until_refused(publisher: &mut Attacker, count: usize, packet: &[u8]) -> anyhow::Result<Outcome> {
    for number in 1..=count {
        publisher.send(packet)?;
        match publisher.next()? {
            Next::Packet(Packet::PubAck(ack)) if !ack.reason.is_error() => {}
            Next::Packet(Packet::PubAck(ack)) => {
                return stay(
                    &[],
                    &format!("PUBACK {:#04x}", ack.reason as u8),
                    number * packet.len(),
                );
            }
            other => return stay(&[], &format!("{other:?}"), number * packet.len()),
        }
    }
    stay(&[], "took everything", count * packet.len())
}

fn unacknowledged(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut silent = Vec::new();
    for number in 0..10 {
        let mut attacker = arena.client(&format!("silent-{number}"))?;
        attacker.send(&subscribe_qos_1("silent", 0)?)?;
        attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))?;
        silent.push(attacker);
    }
    let mut publisher = arena.client("wasteful")?;
    arena.begin();
    // What nobody is subscribed to fills the rest of what is read at once.
    let mut filling = vec![0x30];
    put_length(&mut filling, 60_000 + 4);
    filling.extend_from_slice(&[0, 1, b'z', 0]);
    filling.resize(filling.len() + 60_000, b'x');
    let message = super::attacker::publish("silent")?;
    let turn = [message, filling].concat();
    let mut sent = 0;
    for _ in 0..8_000 {
        publisher.send(&turn)?;
        sent += turn.len();
        match publisher.next()? {
            Next::Packet(Packet::PubAck(ack)) if !ack.reason.is_error() => {}
            Next::Packet(Packet::PubAck(ack)) => {
                return stay(&silent, &format!("PUBACK {:#04x}", ack.reason as u8), sent);
            }
            other => return stay(&silent, &format!("{other:?}"), sent),
        }
    }
    stay(&silent, "took everything", sent)
}

/// CONNECT of a client whose session stays for an hour.
fn leaving(client_id: &str, will: Option<Will>) -> anyhow::Result<Connect> {
    Ok(Connect {
        will,
        properties: ConnectProperties {
            session_expiry: Some(3_600),
            ..ConnectProperties::default()
        },
        ..connect(client_id)?
    })
}

/// SUBSCRIBE of QoS 1 with one filter, and with a Subscription Identifier that is not 0.
fn subscribe_qos_1(filter: &str, identifier: u16) -> anyhow::Result<Vec<u8>> {
    let mut properties = Vec::new();
    if identifier > 0 {
        properties.push(0x0B);
        put_length(&mut properties, identifier.into());
    }
    let mut body = vec![0, 1];
    put_length(&mut body, properties.len());
    body.extend_from_slice(&properties);
    body.extend_from_slice(&u16_bytes(filter.len()));
    body.extend_from_slice(filter.as_bytes());
    body.push(1);
    let mut packet = vec![0x82];
    put_length(&mut packet, body.len());
    packet.extend_from_slice(&body);
    Ok(packet)
}

/// Gives every connection as much as it takes within a moment.
fn pour_all(clients: &mut [Attacker], packet: &[u8]) {
    for client in clients {
        let _ = client.stream.set_write_timeout(Some(Duration::from_millis(100)));
        // What is not taken would not be taken later, either.
        let _ = client.stream.write_all(packet);
    }
}

/// Waits for a while; how many connections are closed then.
fn closed_after(clients: &mut [Attacker]) -> anyhow::Result<usize> {
    std::thread::sleep(STAYS);
    let mut closed = 0;
    for client in clients {
        client.stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        loop {
            match client.next()? {
                Next::Packet(_) => {}
                Next::Silent => break,
                Next::Closed => {
                    closed += 1;
                    break;
                }
            }
        }
    }
    Ok(closed)
}

/// Holds what it has for a while.
fn stay(_held: &[Attacker], became: &str, sent: usize) -> anyhow::Result<Outcome> {
    std::thread::sleep(STAYS);
    Ok(Outcome::new(became, sent))
}

fn u16_bytes(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// A Variable Byte Integer.
fn put_length(packet: &mut Vec<u8>, mut length: usize) {
    loop {
        let low = u8::try_from(length % 128).unwrap_or_default();
        length /= 128;
        packet.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            return;
        }
    }
}
