//! Values as the plane reads and makes them.

use std::time::Duration;

use protocol::packet::QoS;
use session_plane::delivering::{DeliveryQos, DeliveryValue};
use session_plane::expiring::{LifetimeValue, SessionExpiry};
use session_plane::plane::{NumberedValue, PlaneValue};
use session_plane::publishing::{NumberedMessage, PacketUse, WillNumber};
use session_plane::queue_limits::QueueValue;
use session_plane::transfer::TransferBytes;
use session_plane::wills::{WillPart, WillValue};
use session_plane::wire::WireValue;
use session_plane::{RecordValue, sessions};
use session_values::{Content, QueuedMessage, SessionTerms, Value};

use super::samples::{clock, full, number, packet_id, used, values};

/// Bounds that the plane and its sessions have.
fn is_for_sessions<V, M>(_: &V, _: &M)
where
    V: sessions::SessionsValue<M> + PlaneValue<M> + WireValue + RecordValue,
    M: TransferBytes + WireValue + RecordValue + Clone,
{
}

#[test]
fn values_and_contents_are_what_sessions_ask_for() {
    is_for_sessions::<Value, Content>(&Value::Blank, &full());
}

#[test]
fn the_plane_reads_what_it_has_made() {
    let content = full();
    let message = NumberedMessage {
        number: number(5),
        content: content.id(),
    };
    let in_use = PacketUse {
        packet_id: packet_id(12),
        connection_clock: clock(7),
        message: Some(message),
        message_clock: None,
    };
    let value = Value::of_use(in_use, Some(content.clone()));
    assert_eq!((value.packet_use(), value.body()), (Some(in_use), Some(content)));
    let free = PacketUse {
        message: None,
        ..in_use
    };
    let value = Value::of_use(free, None);
    assert_eq!((value.packet_use(), value.body()), (Some(free), None));

    let will_number = WillNumber {
        number: number(6),
        message_clock: Some(clock(1)),
    };
    let value = Value::of_will_number(will_number);
    assert_eq!(value.will_part(), Some(WillPart::Number(will_number)));
    for delay in [None, Some(Duration::from_millis(1_500))] {
        let value = Value::of_will_end(delay);
        assert_eq!(value.will_part(), Some(WillPart::End { delay }));
    }
}

#[test]
fn each_form_says_what_is_of_it_and_nothing_else() {
    for (name, value) in values() {
        let is_will = matches!(value, Value::Will(_) | Value::WillEnd(_) | Value::WillNumber(_));
        assert_eq!(value.will_part().is_some(), is_will, "{name}");
        let is_use = matches!(value, Value::Use(_));
        assert_eq!(value.packet_use().is_some(), is_use, "{name}");
        let has_body = matches!(value, Value::Will(_)) || name == "value-use";
        assert_eq!(value.body().is_some(), has_body, "{name}");
        let is_message = matches!(value, Value::Message(_));
        assert_eq!(value.content().is_some(), is_message, "{name}");
        assert_eq!(value.queue_bytes() > 0, is_message, "{name}");
        let has_qos = is_message && name != "value-message";
        assert_eq!(value.delivery_qos().is_some(), has_qos, "{name}");
        let has_expiry = matches!(value, Value::Session(_) | Value::Expiry(_));
        assert_eq!(value.session_expiry().is_some(), has_expiry, "{name}");
        let delivery = value.packet_delivery();
        assert_eq!(
            delivery.map(Value::of_delivery).is_some_and(|of| of == value),
            matches!(value, Value::Delivery(_)),
            "{name}"
        );
    }
}

#[test]
fn a_will_names_its_content_and_its_delay() {
    let will = values().into_iter().find(|(name, _)| *name == "value-will");
    let part = WillPart::Text {
        content: full().id(),
        delay: Duration::from_secs(30),
    };
    assert_eq!(will.and_then(|(_, will)| will.will_part()), Some(part));
}

#[test]
fn a_session_and_its_expiry_say_their_interval() {
    for seconds in [0, 30, u32::MAX] {
        let expiry = SessionExpiry::of_seconds(seconds);
        let session = Value::Session(SessionTerms::new(seconds, None));
        assert_eq!(session.session_expiry(), Some(expiry));
        assert_eq!(Value::of_expiry(expiry).session_expiry(), Some(expiry));
    }
}

#[test]
fn a_message_has_a_packet_id_from_qos_1_on() {
    let qos = values().into_iter();
    let qos = qos.filter(|(_, value)| matches!(value, Value::Message(_)));
    let qos: Vec<_> = qos.map(|(_, value)| value.delivery_qos()).collect();
    let (once, exactly) = (DeliveryQos::AtLeastOnce, DeliveryQos::ExactlyOnce);
    assert_eq!(qos, [None, Some(once), Some(exactly)]);
}

/// The limits of queues count what the settings say, and nothing of the encoding.
#[test]
fn a_queued_message_counts_its_topic_payload_and_properties() {
    let content = full();
    let parts = content.parts();
    let expected = mqtt::message::size(
        parts.message.topic.as_str(),
        &parts.message.payload,
        &parts.message.properties,
    );
    let message = QueuedMessage::new(content.clone(), QoS::AtLeastOnce, false, &[]);
    let value = Value::Message(message);
    assert_eq!(value.queue_bytes(), expected as u64);
    assert_eq!(value.expires_at(), content.expires_at());
    assert!(value.expires_at().is_some(), "the sample expires");
}

/// A pending message and the queues that it comes to name one content.
#[test]
fn a_message_and_its_queues_share_one_content() {
    let values = values();
    let (_, value) = values
        .iter()
        .find(|(name, _)| *name == "value-message-one")
        .expect("a sample");
    let content = RecordValue::content(&full());
    assert_eq!((value.content(), full().to_record().len()), (content.clone(), 0));
    let read = Value::from_record(value.to_record(), content.clone());
    assert_eq!(read.as_ref(), Some(value));
    let shared = read.and_then(|read| read.content()).map(|read| read.as_ptr());
    assert_eq!(shared, content.map(|content| content.as_ptr()), "not copied");
    assert!(value.to_record().len() < 16, "the record has what differs");
}

#[test]
fn bytes_count_contents_and_texts() {
    let of = |content: Option<Content>| used(content, None).bytes();
    let content = full();
    assert_eq!(of(Some(content.clone())), of(None) + content.bytes());
    assert!(content.bytes() > content.encoded().len());
    for (name, value) in values() {
        assert!(value.bytes() >= value.to_bytes().len(), "{name}");
        assert!(value.bytes() >= size_of::<Value>(), "{name}");
    }
}
