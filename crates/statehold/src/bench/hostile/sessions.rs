//! Adversaries whose sessions are large when they end, come back, or begin.

use std::time::Duration;

use anyhow::Context;
use client::protocol::packet::{Connect, ConnectProperties, Disconnect, Packet, PacketId, QoS, Subscribe};
use client::protocol::{ReasonCode, Text};

use super::adversary::{Arena, Outcome};
use super::attacker::{Attacker, Next, connect, encoded, publish, subscribe};
use super::work::FILTERS_MAX;

/// Sessions that one message is for.
const SESSIONS: usize = 10_000;

pub(super) fn session_end(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-end")?;
    subscribed(
        &mut attacker,
        (0..FILTERS_MAX).map(|number| format!("{number:04x}/+/x")),
    )?;
    let packet = encoded(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    arena.begin();
    attacker.send(&packet)?;
    let became = attacker.outcome(|_| false)?;
    Ok(Outcome::new(became, packet.len()))
}

pub(super) fn clean_start(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let durable = durable("open-clean")?;
    let mut attacker = Attacker::connect_as(arena.mqtt(), &durable)?;
    subscribed(
        &mut attacker,
        (1..FILTERS_MAX).map(|number| format!("{number:04x}/+/x")),
    )?;
    subscribed(&mut attacker, ["queue".to_owned()].into_iter())?;
    attacker.send(&encoded(&Packet::Disconnect(Disconnect::new(
        ReasonCode::Success,
    ))))?;
    let mut publisher = arena.client("open-publisher")?;
    let batch = publish("queue")?.repeat(100);
    for _ in 0..100 {
        publisher.send(&batch)?;
        for _ in 0..100 {
            publisher.outcome(|packet| matches!(packet, Packet::PubAck(_)))?;
        }
    }
    let again = Connect {
        clean_start: true,
        ..durable
    };
    arena.begin();
    Attacker::connect_as(arena.mqtt(), &again)?;
    Ok(Outcome::new("connected", 64))
}

pub(super) fn shared_sessions(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let durable = durable("open-shared")?;
    let mut attacker = Attacker::connect_as(arena.mqtt(), &durable)?;
    let filters = (0..FILTERS_MAX).map(|number| format!("$share/s/{number:04x}/+"));
    let became = subscribed(&mut attacker, filters)?;
    arena.begin();
    for _ in 0..20 {
        attacker = Attacker::connect_as(arena.mqtt(), &durable)?;
        attacker.send(&encoded(&Packet::Disconnect(Disconnect::new(
            ReasonCode::Success,
        ))))?;
        attacker.outcome(|_| false)?;
    }
    Ok(Outcome::new(became, 20 * 64))
}

pub(super) fn fan_out(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let packet_id = PacketId::new(1).context("not zero")?;
    let subscribe = Subscribe::new(packet_id, QoS::AtLeastOnce, [Text::from_static("fan")]);
    let filter = encoded(&Packet::Subscribe(subscribe));
    for number in 0..SESSIONS {
        let mut attacker = Attacker::connect_as(arena.mqtt(), &durable(&format!("open-{number}"))?)?;
        attacker.send(&filter)?;
        attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))?;
    }
    let mut publisher = arena.client("open-publisher")?;
    let packet = publish("fan")?;
    arena.begin();
    publisher.send(&packet)?;
    let became = publisher.outcome(|packet| matches!(packet, Packet::PubAck(_)))?;
    Ok(Outcome::new(became, packet.len()))
}

pub(super) fn retained_for_many(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut publisher = arena.client("open-publisher")?;
    for part in 0..100 {
        let mut batch = Vec::new();
        for number in 0..100 {
            let mut packet = publish(&format!("retained/{part}/{number}"))?;
            // RETAIN, and a payload, without which it would take the message away.
            packet[0] |= 1;
            packet[1] += 1;
            packet.push(b'x');
            batch.extend(packet);
        }
        publisher.send(&batch)?;
        for _ in 0..100 {
            publisher.outcome(|packet| matches!(packet, Packet::PubAck(_)))?;
        }
    }
    let mut attackers: Vec<_> = (0..50)
        .map(|number| arena.client(&format!("open-{number}")))
        .collect::<anyhow::Result<_>>()?;
    let packet = subscribe(["#".to_owned()])?;
    arena.begin();
    for attacker in &mut attackers {
        attacker.send(&packet)?;
    }
    let mut received = 0;
    for attacker in &mut attackers {
        attacker
            .stream
            .set_read_timeout(Some(Duration::from_millis(500)))?;
        while let Next::Packet(_) = attacker.next()? {
            received += 1;
        }
    }
    Ok(Outcome::new(
        format!("{received} packets received"),
        50 * packet.len(),
    ))
}

/// A client whose session stays.
fn durable(client_id: &str) -> anyhow::Result<Connect> {
    Ok(Connect {
        clean_start: false,
        properties: ConnectProperties {
            session_expiry: Some(3_600),
            ..ConnectProperties::default()
        },
        ..connect(client_id)?
    })
}

fn subscribed(attacker: &mut Attacker, filters: impl Iterator<Item = String>) -> anyhow::Result<String> {
    attacker.send(&subscribe(filters)?)?;
    attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))
}
