//! Messages as Mosquitto stores them, and as MQTT 5 has them.

use anyhow::Context;
use bytes::{BufMut, Bytes, BytesMut};
use client::protocol::TopicName;
use client::protocol::packet::{Decoder, Packet, Publish};
use client::{Message, QoS};
use server::clock;

use super::database::Stored;
use crate::import::carrier::{Carrier, too_large};

/// Carries a retained message over.
pub(super) async fn carry(
    stored: Stored,
    payload_bytes_max: u64,
    carrier: &mut Carrier,
) -> anyhow::Result<()> {
    let topic = Bytes::from(stored.topic.clone());
    if topic.starts_with(b"$SYS") {
        carrier.passed_over("of $SYS, which each server says of itself");
        return Ok(());
    }
    if stored.payload.len() as u64 > payload_bytes_max {
        return carrier.left_out(&topic, too_large(payload_bytes_max));
    }
    let now = clock::wall() / 1_000;
    if stored.expires_at.is_some_and(|at| at <= now) {
        carrier.passed_over("had expired");
        return Ok(());
    }
    carrier.retained(&topic, |name| message(&stored, name, now)).await
}

/// The message under another name.
fn message(stored: &Stored, name: &str, now: u64) -> anyhow::Result<Message> {
    let mut message = parsed(stored, name)?;
    message.retain = true;
    // Of one with QoS 0 no server says whether it has it.
    message.qos = qos(stored.qos.max(1));
    if let Some(at) = stored.expires_at {
        let left = at.saturating_sub(now);
        message.properties.message_expiry = Some(u32::try_from(left).unwrap_or(u32::MAX));
    }
    Ok(message)
}

pub(super) fn qos(number: u8) -> QoS {
    match number {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

fn parsed(stored: &Stored, name: &str) -> anyhow::Result<Message> {
    let publish = decoded(name, &stored.properties, &stored.payload)?;
    Ok(Message {
        properties: publish.properties.clone(),
        ..Message::new(TopicName::parse(publish.topic)?, publish.payload)
    })
}

/// Reads the properties as those of a packet: the decoder of packets knows what is legal.
pub(super) fn decoded(name: &str, properties: &[u8], payload: &[u8]) -> anyhow::Result<Publish> {
    let mut body = BytesMut::new();
    let name_bytes = u16::try_from(name.len()).context("its topic is too long")?;
    body.put_u16(name_bytes);
    body.put_slice(name.as_bytes());
    body.put_slice(properties);
    body.put_slice(payload);
    let mut packet = BytesMut::new();
    packet.put_u8(PUBLISH);
    put_length(&mut packet, body.len());
    packet.unsplit(body);
    match Decoder::for_client(u32::MAX).decode(&mut packet) {
        Ok(Some(Packet::Publish(publish))) => Ok(*publish),
        _ => anyhow::bail!("its topic or its properties are not as MQTT wants them"),
    }
}

/// The first byte of a packet with QoS 0, which has no number of its own.
const PUBLISH: u8 = 0x30;

/// A length of 7 bits in each byte, the lowest first.
fn put_length(packet: &mut BytesMut, mut length: usize) {
    loop {
        let low = (length & 0x7F) as u8;
        length >>= 7;
        packet.put_u8(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(properties: &[u8]) -> Stored {
        Stored {
            number: 1,
            topic: b"a/b".to_vec(),
            payload: vec![7; 300],
            qos: 1,
            expires_at: Some(1_000),
            properties: properties.to_vec(),
        }
    }

    #[test]
    fn properties_come_along_and_expiry_is_what_is_left() {
        // Content Type "t".
        let message = message(&stored(&[4, 3, 0, 1, b't']), "c", 400).expect("a message");
        assert_eq!(message.topic.as_str(), "c");
        assert_eq!(message.properties.content_type.as_deref(), Some("t"));
        assert_eq!(message.properties.message_expiry, Some(600));
        assert_eq!(
            (message.payload.len(), message.qos, message.retain),
            (300, QoS::AtLeastOnce, true)
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(message(&stored(&[4, 3, 0, 9, b't']), "c", 400).is_err());
        assert!(message(&stored(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), "c", 400).is_err());
        assert!(message(&stored(&[0]), "a/#", 400).is_err());
        assert!(message(&stored(&[0]), &"x".repeat(70_000), 400).is_err());
    }
}
