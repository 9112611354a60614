//! Adversaries whose sessions are large when they end, come back, or begin.

use std::time::Duration;

use anyhow::Context;
use client::protocol::packet::{Connect, ConnectProperties, Disconnect, Packet, PacketId, QoS, Subscribe};
use client::protocol::{ReasonCode, Text};

use super::adversary::{Arena, Outcome};
use super::attacker::{Attacker, Next, connect, encoded, publish, subscribe};
use super::work::{FILTERS_MAX, LEVELS_MAX};

/// Sessions that one message is for.
const SESSIONS: usize = 10_000;

/// Shared subscriptions of a session at most.
const SHARES_MAX: usize = 1_000;

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

/// As [`session_end`], with shared subscriptions as deep as may be.
pub(super) fn session_end_shared(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-end")?;
    // `$share`, the share name, the number and the wildcard are levels, too.
    let below = vec!["a"; LEVELS_MAX - 4].join("/");
    let filters = (0..SHARES_MAX).map(|number| format!("$share/s/{number:04x}/+/{below}"));
    let became = subscribed(&mut attacker, filters)?;
    let packet = encoded(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    arena.begin();
    attacker.send(&packet)?;
    attacker.outcome(|_| false)?;
    Ok(Outcome::new(became, packet.len()))
}

pub(super) fn clean_start(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let durable = large_session(arena, "open-clean")?;
    let again = Connect {
        clean_start: true,
        ..durable
    };
    arena.begin();
    Attacker::connect_as(arena.mqtt(), &again)?;
    Ok(Outcome::new("connected", 64))
}

pub(super) fn connect_again(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let durable = large_session(arena, "open-again")?;
    arena.begin();
    let mut attacker = Attacker::connect_as(arena.mqtt(), &durable)?;
    let became = attacker.outcome(|packet| matches!(packet, Packet::Publish(_)))?;
    Ok(Outcome::new(became, 64))
}

/// Leaves a durable session with as many subscriptions and messages as may be. How its client comes back.
fn large_session(arena: &Arena<'_>, client_id: &str) -> anyhow::Result<Connect> {
    let durable = durable(client_id)?;
    let mut attacker = Attacker::connect_as(arena.mqtt(), &durable)?;
    subscribed(
        &mut attacker,
        (1..FILTERS_MAX).map(|number| format!("{number:04x}/+/x")),
    )?;
    attacker.send(&subscribe_one("queue")?)?;
    attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))?;
    attacker.send(&encoded(&Packet::Disconnect(Disconnect::new(
        ReasonCode::Success,
    ))))?;
    attacker.outcome(|_| false)?;
    let mut publisher = arena.client("open-publisher")?;
    let batch = publish("queue")?.repeat(100);
    for _ in 0..100 {
        publisher.send(&batch)?;
        for _ in 0..100 {
            publisher.outcome(|packet| matches!(packet, Packet::PubAck(_)))?;
        }
    }
    Ok(durable)
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
    let filter = subscribe_one("fan")?;
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

/// SUBSCRIBE of QoS 1 with one filter.
fn subscribe_one(filter: &'static str) -> anyhow::Result<Vec<u8>> {
    let packet_id = PacketId::new(1).context("not zero")?;
    let subscribe = Subscribe::new(packet_id, QoS::AtLeastOnce, [Text::from_static(filter)]);
    Ok(encoded(&Packet::Subscribe(subscribe)))
}

fn subscribed(attacker: &mut Attacker, filters: impl Iterator<Item = String>) -> anyhow::Result<String> {
    attacker.send(&subscribe(filters)?)?;
    attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))
}
