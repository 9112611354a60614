//! A delivery's way through a session: pushed, sent, acknowledged.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use mqtt::ids::SessionNumber;
use mqtt::limits::Limits;
use mqtt::memory::Held;
use mqtt::message::{Delivery, DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::session::{Outgoing, Session};
use protocol::packet::QoS;
use protocol::properties::MessageProperties;
use protocol::{Text, TopicName};
use smallvec::SmallVec;
use std::hint::black_box;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way"
)]
fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall: 0,
        system_wall: 0,
    }
}

fn delivery(now: Now, qos: QoS) -> Delivery {
    let message = Message {
        topic: TopicName::parse(Text::from_static("plant/line/1")).expect("valid"),
        payload: Bytes::from_static(&[7; 100]),
        properties: MessageProperties::default(),
        qos,
        retain: false,
        publisher: None,
        expires_at: None,
        received_at: now.instant,
        origin: mqtt::origin::Origin::Unknown,
        id: None,
        is_passing: false,
        held: Held::default(),
    };
    Delivery {
        message: Arc::new(message),
        qos,
        retain: false,
        subscription_ids: SmallVec::new(),
        share: None,
        durable: None,
        kind: DeliveryKind::Message,
        dup: false,
        is_resumed: false,
    }
}

/// With `window` deliveries on their way all the time.
fn way_of_a_delivery(criterion: &mut Criterion, name: &str, qos: QoS, is_durable: bool, window: usize) {
    let now = now();
    let delivery = delivery(now, qos);
    let mut session = Session::new(
        SessionNumber(1),
        Text::from_static("c"),
        Limits::default().of_session(),
    );
    session.connect(u16::MAX, is_durable);
    let mut dropped = vec![];
    let mut sent = std::collections::VecDeque::new();
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            black_box(session.push(now, delivery.clone(), &mut dropped));
            while let Some(outgoing) = session.next(now, &mut dropped) {
                if let Outgoing::Publish {
                    packet_id: Some(packet_id),
                    ..
                } = outgoing
                {
                    sent.push_back(packet_id);
                }
            }
            if sent.len() >= window
                && let Some(packet_id) = sent.pop_front()
            {
                black_box(session.puback(packet_id).is_ok());
            }
        });
    });
}

fn ways(criterion: &mut Criterion) {
    way_of_a_delivery(criterion, "QoS 0", QoS::AtMostOnce, false, 1);
    way_of_a_delivery(criterion, "QoS 1, one on its way", QoS::AtLeastOnce, false, 1);
    way_of_a_delivery(criterion, "QoS 1, 100 on their way", QoS::AtLeastOnce, false, 100);
    way_of_a_delivery(
        criterion,
        "QoS 1, durable, 100 on their way",
        QoS::AtLeastOnce,
        true,
        100,
    );
}

criterion_group!(benches, ways);
criterion_main!(benches);
