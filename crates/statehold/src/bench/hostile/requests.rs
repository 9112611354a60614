//! Adversaries that ask the state store for much.

use std::time::Duration;

use bytes::Bytes;
use client::protocol::Text;
use client::protocol::packet::Packet;
use client::protocol::properties::{MessageProperties, UserProperties};
use client::protocol::state_store::properties::TIMESTAMP;
use client::protocol::state_store::{Condition, INVOKE_TOPIC, Request};

use super::adversary::{Arena, Outcome};
use super::attacker::{Attacker, publish_with};
use crate::bench::clock;

pub(super) fn scan_long_keys(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-scan")?;
    let long = "k".repeat(16_000);
    for number in 0..4_000 {
        ask(
            &mut attacker,
            "open-scan",
            &set(format!("{long}{number}"), None),
            1,
        )?;
    }
    arena.begin();
    let became = ask(&mut attacker, "open-scan", &scan("*x".to_owned()), 64)?;
    Ok(Outcome::new(became, 64 * 256))
}

pub(super) fn scan_costly_pattern(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-pattern")?;
    let key = "\u{e9}".repeat(8_000);
    for number in 0..64 {
        ask(
            &mut attacker,
            "open-pattern",
            &set(format!("{key}{number}"), None),
            1,
        )?;
    }
    let class: String = (0..250_u32)
        .filter_map(|number| char::from_u32(0x1000 + 2 * number))
        .collect();
    let pattern = format!("*{}[{class}]?*x", "?".repeat(120));
    arena.begin();
    let became = ask(&mut attacker, "open-pattern", &scan(pattern), 16)?;
    Ok(Outcome::new(became, 16 * 1_024))
}

pub(super) fn keynotify_many(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-watch")?;
    let mut became = String::new();
    for number in 0..10_000 {
        let request = Request::KeyNotify {
            key: Bytes::from(format!("key/{number}")),
            stop: false,
        };
        became = ask(&mut attacker, "open-watch", &request, 1)?;
    }
    arena.begin();
    drop(attacker);
    std::thread::sleep(Duration::from_secs(1));
    Ok(Outcome::new(became, 0))
}

pub(super) fn expiry_at_once(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-expiry")?;
    let until = clock::now() + EXPIRES_AFTER;
    let mut became = String::new();
    for number in 0..10_000 {
        let left = until.saturating_duration_since(clock::now()).as_millis();
        let expires_in = u64::try_from(left).unwrap_or(1).max(1);
        became = ask(
            &mut attacker,
            "open-expiry",
            &set(format!("key/{number}"), Some(expires_in)),
            1,
        )?;
        let properties = MessageProperties {
            message_expiry: Some(u32::try_from(left / 1_000).unwrap_or(1).max(1)),
            ..MessageProperties::default()
        };
        let mut packet = publish_with(&format!("r/{number}"), properties, Bytes::from_static(b"x"))?;
        packet[0] |= 1;
        attacker.send(&packet)?;
        attacker.outcome(|packet| matches!(packet, Packet::PubAck(_)))?;
    }
    std::thread::sleep(until.saturating_duration_since(clock::now() + Duration::from_millis(500)));
    arena.begin();
    std::thread::sleep(Duration::from_millis(1_500));
    Ok(Outcome::new(became, 0))
}

/// Setting all of them takes less.
const EXPIRES_AFTER: Duration = Duration::from_secs(20);

fn set(key: String, expires_in: Option<u64>) -> Request {
    Request::Set {
        key: Bytes::from(key),
        value: Bytes::from_static(b"v"),
        condition: Condition::None,
        expires_in,
    }
}

fn scan(pattern: String) -> Request {
    Request::Scan {
        pattern: Bytes::from(pattern),
        token: None,
    }
}

/// Sends a request so many times at once, and waits until all are acknowledged. Responses are not subscribed to.
fn ask(attacker: &mut Attacker, client_id: &str, request: &Request, times: usize) -> anyhow::Result<String> {
    let timestamp = format!("{:015}:0:{client_id}", clock::wall_ms());
    let topic = format!("clients/{client_id}/services/statestore/_any_/command/invoke/response");
    let properties = MessageProperties {
        response_topic: Some(Text::new(topic)?),
        correlation_data: Some(Bytes::from_static(b"1")),
        user_properties: UserProperties::from_pairs([(TIMESTAMP, timestamp.as_str())])?,
        ..MessageProperties::default()
    };
    let packet = publish_with(INVOKE_TOPIC, properties, request.encode())?;
    attacker.send(&packet.repeat(times))?;
    let mut became = String::new();
    for _ in 0..times {
        became = attacker.outcome(|packet| matches!(packet, Packet::PubAck(_)))?;
    }
    Ok(became)
}
