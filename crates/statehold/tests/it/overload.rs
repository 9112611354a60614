//! More is published than the server may hold: it stays within its bound, serves who matters, and goes on when there is room.

use client::protocol::ReasonCode;
use client::protocol::packet::{Ack, Packet, PacketId, QoS};
use client::protocol::properties::UserProperties;
use client::{Client, Options, SetOptions};

use crate::configured::Configured;
use crate::raw::{Raw, connect, connect_durably, packet_id, publish};

/// What the server may hold by its own account.
const MEMORY_MAX: u64 = 64 << 20;

/// What the process may have: twice as much, for the allocator, and room for the program, its threads and the disk engine.
const RESIDENT_MAX: u64 = 2 * MEMORY_MAX + (160 << 20);

/// Of how many bytes in all it is flooded with, in messages of so many.
const FLOOD: u64 = 6 * MEMORY_MAX;
const MESSAGE: usize = 64 << 10;

/// Sessions that are away; each gets all messages.
const AWAY: usize = 4;

const SETTINGS: &str = r#"
[limits]
memory_max = "64 MiB"
[[listeners]]
address = "127.0.0.1:0"
allow_anonymous = true
"#;

#[test]
fn a_flooded_server_stays_within_its_memory_and_goes_on_when_there_is_room() {
    let server = Configured::start(SETTINGS);
    let address = server.at("mqtt").to_owned();
    for number in 0..AWAY {
        let mut away = Raw::connect(&address, connect_durably(&format!("away-{number}")));
        away.subscribe("flood", QoS::AtLeastOnce);
    }

    let mut publisher = Raw::connect(&address, connect("publisher"));
    let mut refused = 0;
    for _ in 0..FLOOD / MESSAGE as u64 {
        match published(&mut publisher, "flood", MESSAGE, false) {
            ReasonCode::Success => assert_eq!(refused, 0, "nothing has made room"),
            ReasonCode::QuotaExceeded => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0, "{FLOOD} bytes do not fit");
    // What was being written counted as well, and has left room for small ones.
    let mut taken = FLOOD / MESSAGE as u64 - refused;
    while published(&mut publisher, "flood", 16, false) == ReasonCode::Success {
        taken += 1;
    }
    assert!(server.figure("statehold_memory_level") >= 1.0);
    assert!(server.figure("statehold_memory_refused_total") > 0.0);
    let resident = server.resident_kib() * 1_024;
    assert!(resident < RESIDENT_MAX, "{resident} bytes are resident");

    // What matters goes on.
    assert_eq!(published(&mut publisher, "flood", 16, true), ReasonCode::Success);
    taken += 1;
    assert_eq!(
        published(&mut publisher, "nobody", 16, false),
        ReasonCode::Success
    );
    ask_the_store(&address);

    // Those who were away come back and take everything: nothing that was acknowledged is missing.
    for number in 0..AWAY {
        let mut back = Raw::begin(&address, connect_durably(&format!("away-{number}")));
        assert!(back.accepted(), "the session is there");
        for _ in 0..taken {
            let Packet::Publish(publish) = back.receive() else {
                panic!("only messages wait");
            };
            acknowledge(&mut back, publish.packet_id);
        }
        // What was acknowledged has arrived when this is answered.
        back.send(&Packet::PingReq);
        assert!(matches!(back.receive(), Packet::PingResp));
    }
    assert!(server.figure("statehold_memory_level") < 1.0, "there is room");
    assert_eq!(
        published(&mut publisher, "flood", MESSAGE, false),
        ReasonCode::Success
    );
}

/// Publishes a message of QoS 1, and waits for its PUBACK.
fn published(publisher: &mut Raw, topic: &'static str, size: usize, is_urgent: bool) -> ReasonCode {
    let mut packet = publish(topic, Some(packet_id(1)), &vec![b'x'; size]);
    if let (Packet::Publish(publish), true) = (&mut packet, is_urgent) {
        publish.properties.user_properties =
            UserProperties::from_pairs([("$high_priority", "true")]).expect("short");
    }
    publisher.send(&packet);
    match publisher.receive() {
        Packet::PubAck(ack) => ack.reason,
        other => panic!("no PUBACK: {other:?}"),
    }
}

fn acknowledge(subscriber: &mut Raw, packet_id: Option<PacketId>) {
    if let Some(packet_id) = packet_id {
        subscriber.send(&Packet::PubAck(Ack::new(packet_id, ReasonCode::Success)));
    }
}

/// A key is set and read by a client that comes now.
fn ask_the_store(address: &str) {
    let asked = async {
        let client = Client::connect(Options::new(address)).await.expect("let in");
        let store = client.state_store();
        store.set("key", "value", SetOptions::new()).await.expect("set");
        let found = store.get("key").await.expect("asked");
        assert_eq!(found.expect("it was set").value, "value");
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(asked);
}
