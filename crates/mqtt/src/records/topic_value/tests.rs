use std::time::Duration;

use proptest::prelude::*;
use protocol::packet::QoS;
use protocol::properties::MessageProperties;
use protocol::{Text, TopicName};

use super::*;
use crate::memory::Held;
use crate::now::epoch;

fn now() -> Now {
    Now {
        instant: epoch(),
        wall: 1_000_000,
        system_wall: 1_000_000,
    }
}

fn message(now: Now) -> Message {
    Message {
        topic: TopicName::parse(Text::new("line/1").unwrap()).unwrap(),
        payload: Bytes::from_static(b"running"),
        properties: MessageProperties::default(),
        qos: QoS::AtLeastOnce,
        retain: true,
        publisher: None,
        expires_at: Some(now.instant + Duration::from_secs(10)),
        received_at: now.instant,
        held: Held::default(),
    }
}

#[test]
fn a_value_says_who_was_told_and_what_is_retained() {
    let now = now();
    let message = message(now);
    let told = Told::Some(vec![NodeId(1), NodeId(3)]);
    let value = decode(encode(&told, None, Some(&message), now)).expect("a value");
    assert_eq!((&value.told, value.taken_over), (&told, None));
    assert!(value.told.contains(NodeId(3)) && !value.told.contains(NodeId(2)));
    assert_eq!(value.message(b"line/1", now), Some(message));
    assert_eq!(value.message(b"line/2", now), None);

    let edition = Edition::of_old(NodeId(9));
    let value = decode(encode(&Told::All, Some(edition), None, now)).expect("a value");
    assert_eq!((&value.told, value.taken_over), (&Told::All, Some(edition)));
    assert_eq!(value.message(b"line/1", now), None);
}

#[test]
fn more_nodes_than_it_can_name_are_all() {
    let nodes = |count| Told::Some((1..=count).map(NodeId).collect());
    let most = decode(encode(&nodes(254), None, None, now())).expect("a value");
    assert_eq!(most.told, nodes(254));
    let more = decode(encode(&nodes(255), None, None, now())).expect("a value");
    assert_eq!(more.told, Told::All);
}

/// What was written once is read for ever.
#[test]
fn the_bytes_are_those_that_were_written() {
    let told = Told::Some(vec![NodeId(1)]);
    let edition = Edition::of_old(NodeId(2));
    let now = now();
    let bytes = encode(&told, Some(edition), Some(&message(now)), now);
    let golden = "01010000000000000001010000000000000000000000000000000200000000010045000\
                  66c696e652f310000000772756e6e696e6700000000000f6950";
    assert_eq!(hex(&bytes), golden);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

proptest! {
    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut all = vec![VERSION];
        all.extend(bytes);
        if let Ok(value) = decode(all.into()) {
            value.message(b"a", now());
        }
    }

    #[test]
    fn a_value_that_is_cut_is_refused(length in 0_usize..54) {
        let now = now();
        let whole = encode(&Told::All, None, Some(&message(now)), now);
        prop_assume!(length < whole.len());
        prop_assert!(decode(whole.slice(..length)).is_err());
    }
}
