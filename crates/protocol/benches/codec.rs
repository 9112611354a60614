//! How long it takes to decode and encode one packet.
//!
//! The PUBLISH has 560 bytes: QoS 1, with the properties of a state store request. The goals are 0.3 µs each way.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use smallvec::SmallVec;
use statehold_protocol::packet::{
    Ack, Decoder, Packet, PacketId, ProtocolVersion, Publish, QoS, encode, encode_publish_head,
};
use statehold_protocol::properties::{MessageProperties, UserProperties};
use statehold_protocol::{ReasonCode, Text};

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, packet) in packets() {
        let mut wire = BytesMut::new();
        encode(&packet, ProtocolVersion::V5, u32::MAX, &mut wire).expect("fits");
        group.throughput(Throughput::Bytes(wire.len() as u64));

        // A read of a busy connection brings many packets; what is timed is one of them, the buffer included.
        let many = wire.repeat(PACKETS_PER_READ);
        let mut decoder = Decoder::new(1 << 20);
        decoder.set_version(ProtocolVersion::V5);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = std::time::Duration::ZERO;
                for _ in 0..iterations.div_ceil(PACKETS_PER_READ as u64) {
                    let mut buffer = BytesMut::from(&many[..]);
                    spent += timed(|| {
                        while let Some(packet) = decoder.decode(&mut buffer).expect("valid") {
                            black_box(&packet);
                        }
                    });
                }
                spent
            });
        });
    }
    group.finish();
}

fn encoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (name, packet) in packets() {
        group.bench_function(name, |bencher| {
            let mut out = BytesMut::with_capacity(1 << 12);
            bencher.iter(|| {
                out.clear();
                encode(black_box(&packet), ProtocolVersion::V5, u32::MAX, &mut out).expect("fits");
                black_box(&out);
            });
        });
    }
    let publish = publish();
    group.bench_function("publish head", |bencher| {
        let mut out = BytesMut::with_capacity(1 << 12);
        bencher.iter(|| {
            out.clear();
            encode_publish_head(black_box(&publish), ProtocolVersion::V5, u32::MAX, &mut out).expect("fits");
            black_box(&out);
        });
    });
    group.finish();
}

fn user_properties(criterion: &mut Criterion) {
    let properties = publish().properties.user_properties;
    criterion.bench_function("find the last of four user properties", |bencher| {
        bencher.iter(|| black_box(&properties).find(black_box("__srcId")));
    });
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn timed(work: impl FnOnce()) -> std::time::Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}

fn packets() -> [(&'static str, Packet); 3] {
    let small = Publish {
        topic: Text::from_static("sensors/7/temperature"),
        qos: QoS::AtMostOnce,
        packet_id: None,
        properties: MessageProperties::default(),
        payload: Bytes::from_static(b"21.5"),
        ..publish()
    };
    let ack = Ack::new(PacketId::new(7).expect("not 0"), ReasonCode::Success);
    [
        ("publish of 560 bytes", Packet::Publish(Box::new(publish()))),
        ("publish without properties", Packet::Publish(Box::new(small))),
        ("puback", Packet::PubAck(ack)),
    ]
}

/// A PUBLISH of 560 bytes.
fn publish() -> Publish {
    let user_properties = UserProperties::from_pairs([
        ("__ts", "1763712000123:00042:StateStore-client-7"),
        ("__ft", "1763711999000:00001:StateStore-client-7"),
        ("__protVer", "1.0"),
        ("__srcId", "client-7"),
    ]);
    let mut publish = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: Text::from_static("statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke"),
        packet_id: PacketId::new(4711),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties {
            payload_is_utf8: None,
            message_expiry: Some(10),
            content_type: Some(Text::from_static("application/octet-stream")),
            response_topic: Some(Text::from_static(
                "clients/client-7/services/statestore/command/invoke/response",
            )),
            correlation_data: Some(Bytes::from_static(b"0123456789abcdef")),
            user_properties: user_properties.expect("are strings"),
        },
        payload: Bytes::new(),
    };
    let head = statehold_protocol::packet::encoded_len(
        &Packet::Publish(Box::new(publish.clone())),
        ProtocolVersion::V5,
    );
    publish.payload = Bytes::from(vec![b'v'; 560 - head]);
    let size = statehold_protocol::packet::encoded_len(
        &Packet::Publish(Box::new(publish.clone())),
        ProtocolVersion::V5,
    );
    assert_eq!(size, 560, "the packet whose time is a goal");
    publish
}

const PACKETS_PER_READ: usize = 32;

criterion_group!(benches, decoding, encoding, user_properties);
criterion_main!(benches);
