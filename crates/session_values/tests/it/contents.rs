//! Contents: where they come from, what identifies them, and what is delivered of them.

use std::time::Duration;

use bytes::Bytes;
use mqtt::memory::Held;
use mqtt::message::Message;
use mqtt::records::message::MessageParts;
use proptest::prelude::*;
use protocol::packet::{QoS, Will};
use protocol::{Text, TopicName};
use session_values::{Content, ContentParts};

use super::samples::{WALL, bare, bare_parts, full, full_parts, now, text};
use super::strategies::{contents, parts};

fn is_within(part: &[u8], whole: &[u8]) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

#[test]
fn the_parts_of_a_content_share_its_memory() {
    let parts = full_parts();
    let content = Content::new(&parts);
    assert!(
        !is_within(&parts.message.payload, content.encoded()),
        "it has memory of its own"
    );
    let properties = content.properties();
    let texts = [&properties.content_type, &properties.response_topic];
    let texts = texts.into_iter().flatten().chain(content.publisher());
    let texts = texts.chain([content.topic().text()]).map(Text::as_bytes);
    let others = [content.payload(), properties.user_properties.encoded()];
    for part in texts.chain(others).chain(&properties.correlation_data) {
        assert!(is_within(part, content.encoded()), "{part:?}");
    }
    let message = content.to_message(now());
    assert!(
        is_within(&message.payload, content.encoded()),
        "delivery copies no payload"
    );
    let clone = content.clone();
    assert!(
        is_within(clone.encoded(), content.encoded()),
        "a clone is the same memory"
    );
}

#[test]
fn a_content_says_what_it_was_made_of() {
    let (parts, content) = (full_parts(), full());
    assert_eq!(content.parts(), &parts);
    assert_eq!(content.topic(), &parts.message.topic);
    assert_eq!(content.payload(), &parts.message.payload);
    assert_eq!(content.properties(), &parts.message.properties);
    assert_eq!((content.qos(), content.retain()), (QoS::ExactlyOnce, true));
    assert_eq!(content.expires_at(), Some(WALL + 60_000));
    assert_eq!(content.publisher(), Some(&text("press-7")));
    assert_eq!((bare().expires_at(), bare().publisher()), (None, None));
}

#[test]
fn a_message_is_delivered_as_after_a_restart() {
    let mut now = now();
    let message = full().to_message(now);
    let parts = full_parts().message;
    let expected = Message {
        topic: parts.topic,
        payload: parts.payload,
        properties: parts.properties,
        qos: QoS::ExactlyOnce,
        retain: true,
        publisher: None,
        expires_at: Some(now.instant + Duration::from_secs(60)),
        received_at: now.instant,
        held: Held::default(),
    };
    assert_eq!(message, expected);
    now.wall += 45_500;
    assert_eq!(full().to_message(now).remaining_expiry(now), Some(15));
    now.wall += 20_000;
    assert!(full().to_message(now).is_expired(now));
    assert_eq!(bare().to_message(now).expires_at, None);
}

#[test]
fn the_interval_of_a_will_begins_when_it_is_published() {
    let parts = full_parts().message;
    let will = Will {
        topic: parts.topic.clone(),
        payload: parts.payload.clone(),
        qos: parts.qos,
        retain: parts.retain,
        delay: Some(30),
        properties: parts.properties.clone(),
    };
    let content = Content::of_will(&will, Some(text("press-7")));
    assert_eq!((&content.parts().message, content.expires_at()), (&parts, None));
    let published = content.published_at(WALL);
    assert_eq!(published, full());
    assert_eq!(published.published_at(WALL + 5), published, "it begins once");
    assert_eq!(
        bare().published_at(WALL),
        bare(),
        "a message without an interval has no end"
    );
    assert_eq!(content.published_at(u64::MAX).expires_at(), Some(u64::MAX));
}

/// A PUBLISH with DUP comes later, by way of another node perhaps.
#[test]
fn an_id_ignores_expiry_and_publisher() {
    let id = full().id();
    for (expires_at, publisher) in [(None, None), (Some(0), None), (None, Some(text("panel")))] {
        let parts = ContentParts {
            expires_at,
            publisher,
            ..full_parts()
        };
        assert_eq!(Content::new(&parts).id(), id);
    }
}

#[test]
fn an_id_ignores_nothing_that_the_publisher_said() {
    let changes: [fn(&mut MessageParts); 11] = [
        |parts| parts.topic = TopicName::parse(text("line/8")).expect("a topic"),
        |parts| parts.payload = Bytes::from_static(b"stopped"),
        |parts| parts.qos = QoS::AtLeastOnce,
        |parts| parts.retain = false,
        |parts| parts.properties.payload_is_utf8 = None,
        |parts| parts.properties.payload_is_utf8 = Some(false),
        |parts| parts.properties.message_expiry = Some(61),
        |parts| parts.properties.content_type = None,
        |parts| parts.properties.response_topic = Some(text("line/8/answers")),
        |parts| parts.properties.correlation_data = Some(Bytes::new()),
        |parts| parts.properties.user_properties = bare_parts().message.properties.user_properties,
    ];
    let mut ids = vec![full().id()];
    for change in changes {
        let mut parts = full_parts();
        change(&mut parts.message);
        ids.push(Content::new(&parts).id());
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

proptest! {
    #[test]
    fn ids_are_equal_where_messages_are(one in parts(), other in parts()) {
        let is_equal = one.message == other.message;
        prop_assert_eq!(Content::new(&one).id() == Content::new(&other).id(), is_equal);
        let again = ContentParts { message: one.message.clone(), ..other };
        prop_assert_eq!(Content::new(&one).id(), Content::new(&again).id());
    }

    #[test]
    fn a_content_is_equal_to_itself_however_it_was_made(content in contents()) {
        let copy = Content::decode(Bytes::copy_from_slice(content.encoded())).expect("a content");
        prop_assert_eq!(copy.cmp(&content), std::cmp::Ordering::Equal);
        prop_assert_eq!(copy, content);
    }
}
