//! Topics of the state store: where requests go, and where notifications come from.

use crate::text::Text;
use crate::topic::{TopicFilter, TopicName};

/// Where requests are published to. The store is its only subscriber.
pub const INVOKE_TOPIC: &str = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";

/// What the topics of notifications begin with. Clients may not publish there.
pub const NOTIFY_PREFIX: &str = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";

/// Whether the topic is [`NOTIFY_PREFIX`] or below it.
pub fn is_reserved(topic: &str) -> bool {
    match topic.strip_prefix(NOTIFY_PREFIX) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// Whether no request may ask for its reply on this topic name, as the published text has it: it is the invoke topic, or
/// begins with [`NOTIFY_PREFIX`], also within a level. A client that asks for one is disconnected.
pub fn is_refused_response_topic(topic: &str) -> bool {
    topic == INVOKE_TOPIC || topic.starts_with(NOTIFY_PREFIX)
}

/// Where a client is notified of changes of a key. `None` if the topic would be longer than 65,535 bytes: such
/// a key can be stored but not watched.
pub fn notification_topic(client_id: &str, key: &[u8]) -> Option<TopicName> {
    let hex_length = 2_usize.checked_mul(client_id.len().checked_add(key.len())?)?;
    let length = hex_length.checked_add(NOTIFY_PREFIX.len() + "/".len() + NOTIFY_INFIX.len())?;
    if length > Text::LENGTH_MAX {
        return None;
    }
    let mut topic = String::with_capacity(length);
    topic.push_str(NOTIFY_PREFIX);
    topic.push('/');
    push_hex(&mut topic, client_id.as_bytes());
    topic.push_str(NOTIFY_INFIX);
    push_hex(&mut topic, key);
    TopicName::parse(Text::new(topic).ok()?).ok()
}

/// A filter for all notifications of a client. `None` if the client id is too long for it.
pub fn notification_filter(client_id: &str) -> Option<TopicFilter> {
    let mut filter = format!("{NOTIFY_PREFIX}/");
    push_hex(&mut filter, client_id.as_bytes());
    filter.push_str(NOTIFY_INFIX);
    filter.push('+');
    TopicFilter::parse(Text::new(filter).ok()?).ok()
}

/// The key that a notification on this topic is about; `None` if it is not a topic of notifications to this
/// client.
pub fn notified_key(topic: &str, client_id: &str) -> Option<Vec<u8>> {
    let rest = topic.strip_prefix(NOTIFY_PREFIX)?.strip_prefix('/')?;
    let (client, key) = rest.split_once(NOTIFY_INFIX)?;
    if decode_hex(client)? != client_id.as_bytes() {
        return None;
    }
    decode_hex(key)
}

/// The key that a notification on this topic is about, whoever it is for.
pub fn key_of_notification(topic: &str) -> Option<Vec<u8>> {
    let rest = topic.strip_prefix(NOTIFY_PREFIX)?.strip_prefix('/')?;
    let (client, key) = rest.split_once(NOTIFY_INFIX)?;
    decode_hex(client)?;
    decode_hex(key)
}

/// Where the published text advises a client to receive its replies.
pub fn response_topic(client_id: &str) -> Option<TopicName> {
    let topic = format!("clients/{client_id}/services/statestore/_any_/command/invoke/response");
    TopicName::parse(Text::new(topic).ok()?).ok()
}

/// Whether this is a topic on which shipped clients receive their replies, of this client. A client id that is no level of a
/// topic has only those with its base 16.
pub fn is_own_response_topic(topic: &str, client_id: &str) -> bool {
    let Some((level, end)) = topic
        .strip_prefix("clients/")
        .and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    RESPONSE_ENDS.contains(&end) && !client_id.is_empty() && is_name_of(level, client_id)
}

/// Whether this is a topic on which a client receives its replies, by the base 16 of its client id, while the same level is
/// another client's id as it is: `632D31` is both a client id and the base 16 of `c-1`.
pub fn is_response_topic_of_namesake(topic: &str, client_id: &str, other: &str) -> bool {
    let level = topic
        .strip_prefix("clients/")
        .and_then(|rest| rest.split('/').next());
    client_id != other && level == Some(other) && is_own_response_topic(topic, client_id)
}

/// Whether a level is the client id, or its base 16.
fn is_name_of(level: &str, client_id: &str) -> bool {
    let is_raw = level == client_id && !client_id.contains(['+', '#']);
    is_raw || decode_hex(level).is_some_and(|decoded| decoded == client_id.as_bytes())
}

/// RFC 4648 base 16: upper case.
fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for nibble in [byte >> 4, byte & 0x0f] {
            let digit = if nibble < 10 {
                b'0' + nibble
            } else {
                b'A' + nibble - 10
            };
            out.push(char::from(digit));
        }
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    pairs
        .iter()
        .map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?))
        .collect()
}

/// Between the client id and the key.
const NOTIFY_INFIX: &str = "/command/notify/";

/// What comes after the client id: of the Rust client, the Go client, the .NET client, and the published text.
const RESPONSE_ENDS: [&str; 4] = [
    "services/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response",
    "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response",
    "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke",
    "services/statestore/_any_/command/invoke/response",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the published text.
    const TEXT_EXAMPLE: &str = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/\
                                636C69656E742D696431/command/notify/534F4D454B4559";

    #[test]
    fn the_topic_of_a_notification_is_that_of_the_text() {
        assert_eq!(
            notification_topic("client-id1", b"SOMEKEY").unwrap().as_str(),
            TEXT_EXAMPLE
        );
        assert_eq!(notified_key(TEXT_EXAMPLE, "client-id1").unwrap(), b"SOMEKEY");
        assert!(notification_filter("client-id1").unwrap().matches(TEXT_EXAMPLE));
        assert_eq!(notified_key(TEXT_EXAMPLE, "client-id2"), None);
        assert_eq!(key_of_notification(TEXT_EXAMPLE).unwrap(), b"SOMEKEY");
        assert_eq!(key_of_notification("clients/c/command/notify/00"), None);
    }

    #[test]
    fn a_key_may_be_any_bytes() {
        let topic = notification_topic("é", b"\x00\xff/").unwrap();
        assert!(topic.as_str().ends_with("/C3A9/command/notify/00FF2F"));
        assert_eq!(notified_key(topic.as_str(), "é").unwrap(), b"\x00\xff/");
    }

    #[test]
    fn a_key_is_too_long_to_watch_when_its_topic_passes_65_535_bytes() {
        let fixed = NOTIFY_PREFIX.len() + 1 + NOTIFY_INFIX.len();
        let room = Text::LENGTH_MAX - fixed;
        let longest = vec![b'k'; (room - 2) / 2];
        assert!(notification_topic("c", &longest).is_some());
        let longer = vec![b'k'; (room - 2) / 2 + 1];
        assert_eq!(notification_topic("c", &longer), None);
    }

    #[test]
    fn the_reserved_topics_end_on_a_level_boundary() {
        assert!(is_reserved(NOTIFY_PREFIX));
        assert!(is_reserved(&format!("{NOTIFY_PREFIX}/")));
        assert!(is_reserved(TEXT_EXAMPLE));
        assert!(!is_reserved(&format!("{NOTIFY_PREFIX}x")));
        assert!(!is_reserved("clients/statestore/v1"));
        assert!(!is_reserved(INVOKE_TOPIC));
    }

    #[test]
    fn a_client_has_response_topics_of_its_own() {
        for end in RESPONSE_ENDS {
            assert!(is_own_response_topic(&format!("clients/c-1/{end}"), "c-1"));
            assert!(is_own_response_topic(&format!("clients/632D31/{end}"), "c-1"));
            assert!(!is_own_response_topic(&format!("clients/632d31/{end}"), "c-1"));
            assert!(!is_own_response_topic(&format!("clients/c-1/{end}"), "c-2"));
            assert!(!is_own_response_topic(&format!("clients/c-1/{end}/x"), "c-1"));
            assert!(!is_own_response_topic(&format!("clients/c-1/x/{end}"), "c-1"));
            assert!(!is_own_response_topic(&format!("clients//{end}"), ""));
        }
        assert!(!is_own_response_topic("clients/c-1/#", "c-1"));
    }

    #[test]
    fn a_client_id_may_look_like_the_base_16_of_another() {
        let end = RESPONSE_ENDS[0];
        let topic = format!("clients/632D31/{end}");
        assert!(is_response_topic_of_namesake(&topic, "c-1", "632D31"));
        for (client_id, other) in [
            ("632D31", "c-1"),
            ("c-1", "c-1"),
            ("632D31", "632D31"),
            ("c-2", "632D31"),
        ] {
            assert!(
                !is_response_topic_of_namesake(&topic, client_id, other),
                "{client_id} {other}"
            );
        }
        assert!(!is_response_topic_of_namesake(
            "clients/632D31/x",
            "c-1",
            "632D31"
        ));
        assert!(!is_response_topic_of_namesake(
            &format!("clients/c-1/{end}"),
            "c-1",
            "632D31"
        ));
    }

    #[test]
    fn a_client_id_with_a_wildcard_or_a_slash_is_no_level() {
        for (level, client_id) in [("+", "+"), ("#", "#"), ("a", "a/b"), ("a/b", "a/b")] {
            for end in RESPONSE_ENDS {
                assert!(!is_own_response_topic(
                    &format!("clients/{level}/{end}"),
                    client_id
                ));
            }
        }
        let end = RESPONSE_ENDS[0];
        assert!(is_own_response_topic(&format!("clients/612F62/{end}"), "a/b"));
    }

    #[test]
    fn a_response_topic_may_not_begin_with_the_prefix_of_notifications() {
        let within_a_level = format!("{NOTIFY_PREFIX}x/y");
        for topic in [INVOKE_TOPIC, NOTIFY_PREFIX, TEXT_EXAMPLE, &within_a_level] {
            assert!(is_refused_response_topic(topic), "{topic}");
        }
        let below_invoke = format!("{INVOKE_TOPIC}/response");
        for topic in ["r", "/", "clients/statestore/v1", &below_invoke] {
            assert!(!is_refused_response_topic(topic), "{topic}");
        }
        assert!(!is_refused_response_topic(response_topic("c").unwrap().as_str()));
    }
}
