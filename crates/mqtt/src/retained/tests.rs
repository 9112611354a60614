use bytes::Bytes;
use proptest::prelude::*;
use protocol::Text;
use protocol::packet::QoS;
use protocol::properties::MessageProperties;
use std::time::Duration;

use super::*;
use crate::memory::Held;
use crate::now::epoch;

fn message(topic: &str, payload: &'static str, expires_at: Option<Instant>) -> Arc<Message> {
    Arc::new(Message {
        topic: topic_name(topic),
        payload: Bytes::from_static(payload.as_bytes()),
        properties: MessageProperties::default(),
        qos: QoS::AtLeastOnce,
        retain: true,
        publisher: None,
        expires_at,
        received_at: epoch(),
        held: Held::default(),
    })
}

fn topic_name(topic: &str) -> TopicName {
    TopicName::parse(Text::new(topic).unwrap()).unwrap()
}

fn filter(filter: &str) -> TopicFilter {
    TopicFilter::parse(Text::new(filter).unwrap()).unwrap()
}

fn now() -> Now {
    Now {
        instant: epoch(),
        wall: 0,
        system_wall: 0,
    }
}

fn retained(topics: &[&str]) -> Retained {
    let mut retained = Retained::new(&Limits::default());
    for topic in topics {
        retained.set(message(topic, "x", None)).unwrap();
    }
    retained
}

fn matching(retained: &Retained, text: &str) -> Vec<String> {
    matching_in_pages(retained, text, usize::MAX, usize::MAX)
}

/// Looks at so many topics and takes so many messages at a time.
fn matching_in_pages(retained: &Retained, text: &str, lookups: usize, messages: usize) -> Vec<String> {
    let mut found = vec![];
    let mut search = retained.search(&filter(text));
    loop {
        let mut taken = 0;
        let (is_last, _) = retained.go_on(now(), &mut search, lookups, &mut |message| {
            if taken == messages {
                return ControlFlow::Break(());
            }
            taken += 1;
            found.push(message.topic.as_str().to_owned());
            ControlFlow::Continue(())
        });
        if is_last {
            return found;
        }
        // As after a restart.
        search = retained.search_from(&filter(text), search.place().to_vec());
    }
}

#[test]
fn what_is_set_after_a_search_began_is_not_found() {
    let mut retained = retained(&["a", "b", "c"]);
    let mut search = retained.search(&filter("#"));
    retained.set(message("b", "new", None)).unwrap();
    retained.set(message("d", "new", None)).unwrap();
    let mut found = vec![];
    let (is_last, _) = retained.go_on(now(), &mut search, usize::MAX, &mut |message| {
        found.push(message.topic.as_str().to_owned());
        ControlFlow::Continue(())
    });
    assert!(is_last);
    assert_eq!(found, ["a", "c"]);
}

#[test]
fn mqtt_3_3_1_5_the_last_message_of_a_topic_is_kept() {
    let mut retained = Retained::new(&Limits::default());
    assert_eq!(retained.set(message("a", "1", None)), Ok(None));
    let bytes = retained.bytes();
    assert_eq!(
        retained.set(message("a", "2", None)).unwrap().unwrap().payload,
        "1"
    );
    assert_eq!(retained.get("a", now()).unwrap().payload, "2");
    assert_eq!((retained.len(), retained.bytes()), (1, bytes));
    assert!(retained.remove(&topic_name("a")).is_some());
    assert_eq!((retained.len(), retained.bytes()), (0, 0));
}

#[test]
fn what_the_server_says_of_itself_takes_no_room_of_clients() {
    let limits = Limits {
        retained_messages_max: 1,
        retained_bytes_max: 2 * message("a", "x", None).size() as u64,
        ..Limits::default()
    };
    let mut retained = Retained::new(&limits);
    for topic in ["$SYS/broker/uptime", "$SYS/broker/version", "$SYS/broker/uptime"] {
        retained.keep_own(message(topic, "x", None));
    }
    assert_eq!(retained.set(message("a", "x", None)), Ok(None));
    assert_eq!(
        retained.set(message("b", "x", None)),
        Err(RetainedFull::Messages { limit: 1 })
    );
    assert!(retained.remove(&topic_name("a")).is_some());
    let large = "0123456789".repeat(100).leak();
    assert!(matches!(
        retained.set(message("b", large, None)),
        Err(RetainedFull::Bytes { .. })
    ));
    assert!(retained.remove(&topic_name("$SYS/broker/uptime")).is_some());
    assert_eq!(retained.set(message("b", "x", None)), Ok(None));
    assert_eq!(retained.len(), 2);
}

#[test]
fn wildcards_find_their_topics_and_no_others() {
    let retained = retained(&[
        "a", "a/b", "a!", "a/b/c", "a//c", "a/x/c", "b", "/", "$SYS/x", "$SYS",
    ]);
    assert_eq!(matching(&retained, "a/#"), ["a", "a//c", "a/b", "a/b/c", "a/x/c"]);
    assert_eq!(matching(&retained, "a/+/c"), ["a//c", "a/b/c", "a/x/c"]);
    assert_eq!(matching(&retained, "+"), ["a", "a!", "b"]);
    assert_eq!(matching(&retained, "+/+"), ["/", "a/b"]);
    assert_eq!(matching(&retained, "a/b"), ["a/b"]);
    assert_eq!(matching(&retained, "#").len(), 8);
}

#[test]
fn mqtt_4_7_2_1_wildcards_at_the_start_find_no_dollar_topics() {
    let retained = retained(&["$SYS/x", "$SYS", "a/x"]);
    assert_eq!(matching(&retained, "+/x"), ["a/x"]);
    assert_eq!(matching(&retained, "#"), ["a/x"]);
    assert_eq!(matching(&retained, "$SYS/#"), ["$SYS", "$SYS/x"]);
}

#[test]
fn expired_messages_are_not_found_and_come_out_once() {
    let mut retained = Retained::new(&Limits::default());
    let t0 = epoch();
    let at = |seconds| Now {
        instant: t0 + Duration::from_secs(seconds),
        wall: 0,
        system_wall: 0,
    };
    retained
        .set(message("a", "x", Some(t0 + Duration::from_secs(5))))
        .unwrap();
    retained
        .set(message("b", "x", Some(t0 + Duration::from_secs(3))))
        .unwrap();
    retained
        .set(message("b", "y", Some(t0 + Duration::from_secs(9))))
        .unwrap();
    assert_eq!(retained.next_expiry(), Some(t0 + Duration::from_secs(5)));

    assert!(retained.get("a", at(4)).is_some());
    assert!(retained.get("a", at(5)).is_none());
    assert_eq!(retained.pop_expired(at(5)).unwrap().0.topic.as_str(), "a");
    assert_eq!(retained.pop_expired(at(5)), None);
    assert_eq!(retained.len(), 1);
    assert_eq!(retained.next_expiry(), Some(t0 + Duration::from_secs(9)));
}

#[test]
fn at_the_limit_topics_may_change_but_not_grow() {
    let limits = Limits {
        retained_messages_max: 2,
        retained_bytes_max: 600,
        ..Limits::default()
    };
    let mut retained = Retained::new(&limits);
    retained.set(message("a", "1", None)).unwrap();
    retained.set(message("b", "1", None)).unwrap();
    assert_eq!(
        retained.set(message("c", "1", None)),
        Err(RetainedFull::Messages { limit: 2 })
    );
    assert!(retained.set(message("b", "2", None)).is_ok());

    let large: &'static str = Box::leak("x".repeat(200).into_boxed_str());
    assert_eq!(
        retained.set(message("b", large, None)),
        Err(RetainedFull::Bytes { limit: 600 })
    );
    assert_eq!(retained.get("b", now()).unwrap().payload, "2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn a_filter_finds_what_it_matches(
        topics in prop::collection::vec("(\\$?[ab!]{0,2})(/[ab!]{0,1}){0,3}", 0..30),
        filter_text in "(\\+|#|\\$?[ab]{0,2})(/(\\+|[ab!]{0,1})){0,3}(/#)?",
    ) {
        prop_assume!(!filter_text.is_empty() && TopicFilter::parse(Text::new(filter_text.as_str()).unwrap()).is_ok());
        let topics: Vec<&str> = topics.iter().map(String::as_str).filter(|topic| !topic.is_empty()).collect();
        let retained = retained(&topics);
        let mut expected: Vec<&str> = topics.into_iter().filter(|topic| filter(&filter_text).matches(topic)).collect();
        expected.sort_unstable();
        expected.dedup();
        let found = matching(&retained, &filter_text);
        for (lookups, messages) in [(1, usize::MAX), (3, 2), (usize::MAX, 1)] {
            prop_assert_eq!(&matching_in_pages(&retained, &filter_text, lookups, messages), &found);
        }
        let mut found = found;
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
