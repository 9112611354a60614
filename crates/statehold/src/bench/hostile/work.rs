//! Adversaries that cost time: packets of a legal size that are much work.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use client::protocol::Text;
use client::protocol::packet::{Packet, PacketId, Unsubscribe};
use client::protocol::properties::{MessageProperties, UserProperties};

use super::adversary::{Adversary, Arena, Outcome, World};
use super::attacker::{encoded, publish, publish_with, subscribe};
use super::{requests, sessions};
use crate::bench::clock;

pub(super) const ADVERSARIES: &[Adversary] = &[
    Adversary {
        name: "nothing",
        about: "no adversary at all for 2 seconds: what the machine itself costs",
        world: World::Alone,
        settings: "",
        act: nothing,
    },
    Adversary {
        name: "subscribe_repeats",
        about: "one SUBSCRIBE with 10,000 filters and repeats of them up to 1 MiB",
        world: World::Alone,
        settings: "",
        act: subscribe_repeats,
    },
    Adversary {
        name: "subscribe_repeats_policy",
        about: "the same under a policy that allows it",
        world: World::Policy,
        settings: "",
        act: subscribe_repeats,
    },
    Adversary {
        name: "subscribe_repeats_cluster",
        about: "the same at one of three nodes",
        world: World::Cluster,
        settings: "",
        act: subscribe_repeats,
    },
    Adversary {
        name: "subscribe_denied",
        about: "one SUBSCRIBE with 270,000 filters that a policy denies",
        world: World::Policy,
        settings: "",
        act: subscribe_denied,
    },
    Adversary {
        name: "subscribe_distinct",
        about: "one SUBSCRIBE with 10,000 filters, in the opposite of their order",
        world: World::Alone,
        settings: "",
        act: subscribe_distinct,
    },
    Adversary {
        name: "publish_many_plus",
        about: "one PUBLISH of 261 bytes, against 10,000 filters of 128 levels that all but match it",
        world: World::Alone,
        settings: "",
        act: publish_many_plus,
    },
    Adversary {
        name: "websocket_empty_frames",
        about: "16 connections over WebSocket that send empty frames for 2 seconds",
        world: World::Alone,
        settings: "",
        act: |arena| websocket_frames(arena, EMPTY_BINARY),
    },
    Adversary {
        name: "websocket_pings",
        about: "16 connections over WebSocket that send control frames for 2 seconds",
        world: World::Alone,
        settings: "",
        act: |arena| websocket_frames(arena, EMPTY_PING),
    },
    Adversary {
        name: "unsubscribe_many",
        about: "one UNSUBSCRIBE with 10,000 filters",
        world: World::Alone,
        settings: "",
        act: unsubscribe_many,
    },
    Adversary {
        name: "user_properties",
        about: "one PUBLISH with a MiB of user properties",
        world: World::Alone,
        settings: "",
        act: user_properties,
    },
    Adversary {
        name: "session_end",
        about: "the end of a session with 10,000 subscriptions",
        world: World::Alone,
        settings: "",
        act: sessions::session_end,
    },
    Adversary {
        name: "session_end_cluster",
        about: "the same at one of three nodes",
        world: World::Cluster,
        settings: "",
        act: sessions::session_end,
    },
    Adversary {
        name: "session_end_shared",
        about: "the end of a session with 1,000 shared subscriptions of 128 levels",
        world: World::Alone,
        settings: "",
        act: sessions::session_end_shared,
    },
    Adversary {
        name: "connect_again",
        about: "a client that comes back to 10,000 subscriptions and 10,000 messages",
        world: World::Alone,
        settings: "",
        act: sessions::connect_again,
    },
    Adversary {
        name: "connect_again_policy",
        about: "the same under a policy that allows it",
        world: World::Policy,
        settings: "",
        act: sessions::connect_again,
    },
    Adversary {
        name: "clean_start",
        about: "a clean start over a durable session with 10,000 subscriptions and 10,000 messages",
        world: World::Alone,
        settings: "",
        act: sessions::clean_start,
    },
    Adversary {
        name: "shared_sessions",
        about: "a session with 1,000 shared subscriptions that comes and goes",
        world: World::Alone,
        settings: "",
        act: sessions::shared_sessions,
    },
    Adversary {
        name: "fan_out",
        about: "one PUBLISH for 10,000 durable sessions that are away",
        world: World::Alone,
        settings: "",
        act: sessions::fan_out,
    },
    Adversary {
        name: "retained_for_many",
        about: "50 clients that subscribe at once to 10,000 retained messages",
        world: World::Alone,
        settings: "",
        act: sessions::retained_for_many,
    },
    Adversary {
        name: "scan_long_keys",
        about: "64 SCANs at once over 4,000 keys of 16 KiB",
        world: World::Alone,
        settings: "",
        act: requests::scan_long_keys,
    },
    Adversary {
        name: "scan_costly_pattern",
        about: "16 SCANs whose patterns have as many wildcards as may be",
        world: World::Alone,
        settings: "",
        act: requests::scan_costly_pattern,
    },
    Adversary {
        name: "keynotify_many",
        about: "a client that watches 10,000 keys and goes",
        world: World::Alone,
        settings: "",
        act: requests::keynotify_many,
    },
    Adversary {
        name: "expiry_at_once",
        about: "10,000 keys and 10,000 retained messages that expire in one moment",
        world: World::Alone,
        settings: "",
        act: requests::expiry_at_once,
    },
];

fn nothing(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    arena.begin();
    std::thread::sleep(Duration::from_secs(2));
    Ok(Outcome::new("was not there", 0))
}

fn subscribe_repeats(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    // Three bytes and an octet of options beside the length: as many as the packet holds.
    let names = (0..FILTERS_MAX).map(|number| format!("{number:04x}"));
    let last = format!("{:04x}", FILTERS_MAX - 1);
    let repeats = (PACKET_BYTES - 7 * FILTERS_MAX) / 7;
    let packet = subscribe(names.chain(std::iter::repeat_n(last, repeats)))?;
    send_one(arena, "open-repeats", &packet)
}

fn subscribe_denied(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let packet = subscribe(std::iter::repeat_n("a".to_owned(), PACKET_BYTES / 4))?;
    send_one(arena, "hostile-denied", &packet)
}

fn subscribe_distinct(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let names = (0..FILTERS_MAX).rev().map(|number| format!("{number:04x}"));
    send_one(arena, "open-distinct", &subscribe(names)?)
}

fn unsubscribe_many(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client("open-unsubscribe")?;
    let names = (0..FILTERS_MAX).map(|number| format!("{number:04x}"));
    attacker.send(&subscribe(names.clone())?)?;
    attacker.outcome(|packet| matches!(packet, Packet::SubAck(_)))?;
    let filters = names.map(Text::new).collect::<Result<_, _>>()?;
    let packet = encoded(&Packet::Unsubscribe(Unsubscribe {
        packet_id: PacketId::new(2).context("not zero")?,
        user_properties: UserProperties::EMPTY,
        filters,
    }));
    arena.begin();
    attacker.send(&packet)?;
    let became = attacker.outcome(|packet| matches!(packet, Packet::UnsubAck(_)))?;
    Ok(Outcome::new(became, packet.len()))
}

fn user_properties(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let pairs = vec![("", ""); PACKET_BYTES / 5 - 16];
    let properties = MessageProperties {
        user_properties: UserProperties::from_pairs(pairs)?,
        ..MessageProperties::default()
    };
    send_one(
        arena,
        "open-properties",
        &publish_with("t", properties, Bytes::new())?,
    )
}

fn publish_many_plus(arena: &Arena<'_>) -> anyhow::Result<Outcome> {
    let mut subscriber = arena.client("open-plus")?;
    let shapes: Vec<_> = (0..FILTERS_MAX).map(many_plus).collect();
    for part in shapes.chunks(1_000) {
        subscriber.send(&subscribe(part.iter().cloned())?)?;
        subscriber.outcome(|packet| matches!(packet, Packet::SubAck(_)))?;
    }
    let packet = publish(&vec!["a"; LEVELS_MAX].join("/"))?;
    send_one(arena, "open-publisher", &packet)
}

/// A filter that differs from all others in its first levels, and from the topic in its last one.
fn many_plus(number: usize) -> String {
    let first = (0..FILTERS_MAX.ilog2() + 1).map(|bit| if number >> bit & 1 == 1 { "+" } else { "a" });
    let mut levels: Vec<_> = first.collect();
    levels.resize(LEVELS_MAX - 1, "a");
    levels.push("b");
    levels.join("/")
}

fn websocket_frames(arena: &Arena<'_>, frame: [u8; 6]) -> anyhow::Result<Outcome> {
    let address = arena.websocket()?;
    let attackers: Vec<_> = (0..16)
        .map(|_| open_websocket(address))
        .collect::<anyhow::Result<_>>()?;
    let frames = frame.repeat(10_000);
    arena.begin();
    let until = clock::now() + Duration::from_secs(2);
    let threads = attackers.into_iter().map(|mut stream| {
        let frames = frames.clone();
        std::thread::spawn(move || {
            let mut sent = 0;
            while clock::now() < until && stream.write_all(&frames).is_ok() {
                sent += frames.len();
            }
            sent
        })
    });
    let threads: Vec<_> = threads.collect();
    let sent: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_default())
        .sum();
    Ok(Outcome::new(format!("{} frames read", sent / frame.len()), sent))
}

/// Shakes hands; what the server sends after that is left unread.
fn open_websocket(address: std::net::SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_write_timeout(Some(Duration::from_secs(3)))?;
    stream.write_all(
        format!(
            "GET /mqtt HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
        )
        .as_bytes(),
    )?;
    let mut answer = [0; 1024];
    let count = stream.read(&mut answer)?;
    anyhow::ensure!(answer[..count].starts_with(b"HTTP/1.1 101 "), "no WebSocket");
    Ok(stream)
}

/// Sends one packet, and waits for the acknowledgement of it.
fn send_one(arena: &Arena<'_>, client_id: &str, packet: &[u8]) -> anyhow::Result<Outcome> {
    let mut attacker = arena.client(client_id)?;
    arena.begin();
    attacker.send(packet)?;
    let became = attacker.outcome(|packet| {
        matches!(
            packet,
            Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PubAck(_) | Packet::PubRec(_)
        )
    })?;
    Ok(Outcome::new(became, packet.len()))
}

/// Subscriptions that a session may have.
pub(super) const FILTERS_MAX: usize = 10_000;

/// Levels that a topic may have.
pub(super) const LEVELS_MAX: usize = 128;

/// Masked frames without a byte in them.
const EMPTY_BINARY: [u8; 6] = [0x82, 0x80, 0, 0, 0, 0];
const EMPTY_PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];

/// What fits into a packet, without the room for its header.
const PACKET_BYTES: usize = 1_048_576 + 65_536 - 64;
