//! Packets with the bytes that the specification gives them, and how decoding stops and goes on.

use bytes::{BufMut, BytesMut};

use super::*;
use crate::packet::{Ack, PacketId};
use crate::reason_code::ReasonCode;

/// Decodes one packet that a client sends to a server, of a connection that speaks `version`.
fn from_client(version: ProtocolVersion, bytes: &[u8]) -> Result<Option<Packet>, DecodeError> {
    let mut decoder = Decoder::for_server(LIMIT);
    if bytes
        .first()
        .is_some_and(|byte| byte >> 4 != PacketType::Connect as u8)
    {
        decoder.set_version(version);
    }
    decoder.decode(&mut BytesMut::from(bytes))
}

/// Decodes one packet that a server sends to a client.
fn from_server(version: ProtocolVersion, bytes: &[u8]) -> Result<Option<Packet>, DecodeError> {
    let mut decoder = Decoder::for_client(LIMIT);
    decoder.set_version(version);
    decoder.decode(&mut BytesMut::from(bytes))
}

const LIMIT: u32 = 1 << 20;

#[test]
fn a_puback_is_complete_with_its_last_byte() {
    let mut decoder = Decoder::new(LIMIT);
    decoder.set_version(ProtocolVersion::V5);
    let mut buffer = BytesMut::new();

    for byte in [0x40, 0x02, 0x00] {
        buffer.put_u8(byte);
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
    }
    buffer.put_u8(0x07);

    let ack = Ack::new(PacketId::new(7).unwrap(), ReasonCode::Success);
    assert_eq!(decoder.decode(&mut buffer), Ok(Some(Packet::PubAck(ack))));
    assert!(buffer.is_empty());
}

#[test]
fn a_publish_is_cut_out_without_copying() {
    let bytes = b"\x32\x0d\x00\x03a/b\x00\x01\x02\x01\x01hi\x30";
    let packet = from_client(ProtocolVersion::V5, bytes).unwrap().unwrap();
    let Packet::Publish(publish) = packet else {
        panic!("{packet:?}")
    };

    assert_eq!(publish.topic.as_str(), "a/b");
    assert_eq!(publish.properties.payload_is_utf8, Some(true));
    assert_eq!(publish.packet_id, PacketId::new(1));
    assert_eq!(&publish.payload[..], b"hi\x30");
    assert_eq!(
        from_server(ProtocolVersion::V5, b"\xd0\x00"),
        Ok(Some(Packet::PingResp))
    );
}
