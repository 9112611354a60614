//! Topic aliases of one connection, in both directions.
//!
//! They live as long as the connection. Nothing is allocated until the first alias is used.

use protocol::packet::{Publish, TopicAlias};
use protocol::{ReasonCode, Text, TopicName};

use crate::memory::footprint::{cloned_text, places};
use crate::memory::{Held, MessageBytes};

/// The aliases that the client has set for topics of its own messages.
#[derive(Debug)]
pub struct Inbound {
    /// The topic of alias n + 1.
    topics: Vec<Option<TopicName>>,
    maximum: u16,
    held: Held,
}

/// The aliases that the server has set for topics of messages to the client: those that were used last.
#[derive(Debug)]
pub struct Outbound {
    /// Of alias n + 1. Separate from the topics: they are searched for each message.
    fingerprints: Vec<u64>,
    topics: Vec<Used>,
    maximum: usize,
    uses: u64,
    held: Held,
}

#[derive(Debug)]
struct Used {
    topic: TopicName,
    last: u64,
}

impl Inbound {
    /// No alias yet; at most `maximum`, the Topic Alias Maximum that the server told. What they take counts in `bytes`.
    pub fn new(maximum: u16, bytes: &MessageBytes) -> Self {
        Self {
            topics: Vec::new(),
            maximum,
            held: bytes.hold(0),
        }
    }

    /// The topic name of a received PUBLISH. Sets its alias if it has both; takes the alias out of the packet.
    ///
    /// With `is_full` no alias may get a topic that takes more memory than the one before.
    ///
    /// The error is for the DISCONNECT: 0x94 for an alias over the maximum [MQTT-3.3.2-9], 0x82 for no topic at all or an
    /// alias that was not set (section 3.3.2.3.4), 0x90 for a text that is no topic name, 0x97 for
    /// lack of memory.
    pub fn resolve(&mut self, publish: &mut Publish, is_full: bool) -> Result<TopicName, ReasonCode> {
        let alias = publish.topic_alias.take();
        if alias.is_some_and(|alias| alias.get() > self.maximum) {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        let topic = std::mem::take(&mut publish.topic);
        match (alias, topic.is_empty()) {
            (None, true) => Err(ReasonCode::ProtocolError),
            (None, false) => parse(topic),
            (Some(alias), true) => {
                let known = self.topics.get(position(alias)).cloned().flatten();
                known.ok_or(ReasonCode::ProtocolError)
            }
            (Some(alias), false) => {
                let topic = parse(topic)?;
                let position = position(alias);
                let before = self.topics.get(position).and_then(Option::as_ref);
                let (before, after) = (before.map_or(0, memory), memory(&topic));
                if is_full && after > before {
                    return Err(ReasonCode::QuotaExceeded);
                }
                let capacity = self.topics.capacity();
                if self.topics.len() <= position {
                    self.topics.resize(position + 1, None);
                }
                // In memory of its own: it stays for as long as the connection.
                self.topics[position] = Some(topic.detached());
                let grown = places::<Option<TopicName>>(self.topics.capacity() - capacity);
                self.held.replace(self.held.bytes() + grown + after - before);
                Ok(topic)
            }
        }
    }
}

impl Outbound {
    /// No alias yet; at most `maximum`: the lower of the client's Topic Alias Maximum [MQTT-3.1.2-26]
    /// [MQTT-3.1.2-27] and [`crate::limits::Limits::topic_alias_outbound_max`].
    pub fn new(maximum: u16, bytes: &MessageBytes) -> Self {
        Self {
            held: bytes.hold(0),
            fingerprints: Vec::new(),
            topics: Vec::new(),
            maximum: usize::from(maximum),
            uses: 0,
        }
    }

    /// What to put into a PUBLISH to `topic`: the topic with a new alias, nothing with an alias that the client knows, or
    /// the topic alone. No topic gets an alias for the first time with `is_scarce`. If the packet is then not sent, [`Outbound::forget`] must follow.
    pub fn choose(&mut self, topic: &TopicName, is_scarce: bool) -> (Text, Option<TopicAlias>) {
        if self.maximum == 0 {
            return (topic.text().clone(), None);
        }
        self.uses += 1;
        let fingerprint = fingerprint(topic.as_str());
        let known = self.fingerprints.iter().position(|other| *other == fingerprint);
        if let Some(known) =
            known.and_then(|position| self.topics.get_mut(position).map(|used| (position, used)))
            && known.1.topic == *topic
        {
            known.1.last = self.uses;
            return (Text::default(), alias(known.0));
        }
        if is_scarce {
            return (topic.text().clone(), None);
        }
        // A topic with the fingerprint of another takes its alias, so that a fingerprint stands for one topic.
        let position = known.unwrap_or_else(|| self.position_for_new());
        let used = Used {
            topic: topic.detached(),
            last: self.uses,
        };
        let before = self.topics.get(position).map_or(0, |used| memory(&used.topic));
        let after = memory(topic);
        let capacity = self.topics.capacity();
        if position == self.topics.len() {
            self.fingerprints.push(fingerprint);
            self.topics.push(used);
        } else {
            self.fingerprints[position] = fingerprint;
            self.topics[position] = used;
        }
        let grown = places::<(Used, u64)>(self.topics.capacity() - capacity);
        self.held.replace(self.held.bytes() + grown + after - before);
        (topic.text().clone(), alias(position))
    }

    /// The PUBLISH that was to set aliases was not sent: what the client knows is not what is kept here. All aliases will
    /// be set anew.
    pub fn forget(&mut self) {
        self.fingerprints = Vec::new();
        self.topics = Vec::new();
        self.held.replace(0);
    }

    fn position_for_new(&self) -> usize {
        if self.topics.len() < self.maximum {
            return self.topics.len();
        }
        let oldest = self.topics.iter().enumerate().min_by_key(|(_, used)| used.last);
        oldest.map_or(0, |(position, _)| position)
    }
}

fn memory(topic: &TopicName) -> u64 {
    cloned_text(topic.text())
}

fn parse(topic: Text) -> Result<TopicName, ReasonCode> {
    TopicName::parse(topic).map_err(|_| ReasonCode::TopicNameInvalid)
}

fn position(alias: TopicAlias) -> usize {
    usize::from(alias.get()) - 1
}

fn alias(position: usize) -> Option<TopicAlias> {
    u16::try_from(position + 1).ok().and_then(TopicAlias::new)
}

/// A hash that tells the topics of one connection apart nearly always. A collision costs its two topics their alias,
/// nothing else, so it needs no seed.
fn fingerprint(topic: &str) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(topic.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use protocol::packet::QoS;
    use protocol::properties::MessageProperties;
    use smallvec::SmallVec;

    use super::*;

    fn publish(topic: &'static str, alias: u16) -> Publish {
        Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: false,
            topic: Text::from_static(topic),
            packet_id: None,
            topic_alias: TopicAlias::new(alias),
            subscription_ids: SmallVec::new(),
            properties: MessageProperties::default(),
            payload: Bytes::new(),
        }
    }

    fn resolve(inbound: &mut Inbound, topic: &'static str, alias: u16) -> Result<String, ReasonCode> {
        inbound
            .resolve(&mut publish(topic, alias), false)
            .map(|topic| topic.as_str().to_owned())
    }

    fn choose(outbound: &mut Outbound, topic: &'static str) -> (String, u16) {
        let topic = TopicName::parse(Text::from_static(topic)).unwrap();
        let (text, alias) = outbound.choose(&topic, false);
        (text.as_str().to_owned(), alias.map_or(0, TopicAlias::get))
    }

    #[test]
    fn mqtt_3_3_2_12_all_aliases_up_to_the_maximum_are_accepted() {
        let mut inbound = Inbound::new(3, &MessageBytes::default());
        for (alias, topic) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(resolve(&mut inbound, topic, alias), Ok(topic.into()));
        }
        for (alias, topic) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(resolve(&mut inbound, "", alias), Ok(topic.into()));
        }
    }

    #[test]
    fn an_alias_stands_for_the_topic_it_was_set_with_last() {
        let mut inbound = Inbound::new(3, &MessageBytes::default());
        assert_eq!(resolve(&mut inbound, "a", 3), Ok("a".into()));
        assert_eq!(resolve(&mut inbound, "", 3), Ok("a".into()));
        assert_eq!(resolve(&mut inbound, "b", 3), Ok("b".into()));
        assert_eq!(resolve(&mut inbound, "", 3), Ok("b".into()));
        assert_eq!(resolve(&mut inbound, "c", 0), Ok("c".into()));
    }

    #[test]
    fn mqtt_3_3_2_9_an_alias_over_the_maximum_is_invalid() {
        assert_eq!(
            resolve(&mut Inbound::new(3, &MessageBytes::default()), "a", 4),
            Err(ReasonCode::TopicAliasInvalid)
        );
        assert_eq!(
            resolve(&mut Inbound::new(0, &MessageBytes::default()), "a", 1),
            Err(ReasonCode::TopicAliasInvalid)
        );
    }

    #[test]
    fn a_publish_without_a_known_topic_is_a_protocol_error() {
        let mut inbound = Inbound::new(3, &MessageBytes::default());
        assert_eq!(resolve(&mut inbound, "", 0), Err(ReasonCode::ProtocolError));
        assert_eq!(resolve(&mut inbound, "", 2), Err(ReasonCode::ProtocolError));
        assert_eq!(resolve(&mut inbound, "a/+", 2), Err(ReasonCode::TopicNameInvalid));
        assert_eq!(resolve(&mut inbound, "", 2), Err(ReasonCode::ProtocolError));
    }

    #[test]
    fn mqtt_3_1_2_27_no_alias_for_a_client_that_takes_none() {
        assert_eq!(
            choose(&mut Outbound::new(0, &MessageBytes::default()), "a"),
            ("a".into(), 0)
        );
    }

    #[test]
    fn mqtt_3_1_2_26_the_alias_unused_for_longest_is_given_to_another_topic() {
        let mut outbound = Outbound::new(2, &MessageBytes::default());
        assert_eq!(choose(&mut outbound, "a"), ("a".into(), 1));
        assert_eq!(choose(&mut outbound, "b"), ("b".into(), 2));
        assert_eq!(choose(&mut outbound, "a"), ("".into(), 1));
        assert_eq!(choose(&mut outbound, "c"), ("c".into(), 2));
        assert_eq!(choose(&mut outbound, "a"), ("".into(), 1));
        assert_eq!(choose(&mut outbound, "b"), ("b".into(), 2));
    }

    #[test]
    fn after_a_packet_that_was_not_sent_aliases_are_set_anew() {
        let mut outbound = Outbound::new(2, &MessageBytes::default());
        assert_eq!(choose(&mut outbound, "a"), ("a".into(), 1));
        outbound.forget();
        assert_eq!(choose(&mut outbound, "a"), ("a".into(), 1));
    }

    #[test]
    fn an_alias_counts_for_its_topic_and_gets_no_larger_one_while_memory_is_full() {
        let bytes = MessageBytes::default();
        let mut inbound = Inbound::new(10, &bytes);
        inbound
            .resolve(&mut publish("a/short/topic/of/some/levels", 1), false)
            .unwrap();
        let one = bytes.bytes();
        assert!(one > 28, "{one} bytes");
        let longer = inbound.resolve(
            &mut publish("a/topic/that/takes/more/memory/than/the/other", 1),
            true,
        );
        assert_eq!(longer, Err(ReasonCode::QuotaExceeded));
        inbound.resolve(&mut publish("shorter", 1), true).unwrap();
        assert!(bytes.bytes() < one);
        drop(inbound);
        assert_eq!(bytes.bytes(), 0);
    }

    #[test]
    fn no_topic_gets_an_alias_while_memory_is_scarce() {
        let bytes = MessageBytes::default();
        let mut outbound = Outbound::new(10, &bytes);
        let topic = |text: &str| TopicName::parse(Text::new(text).unwrap()).unwrap();
        assert_eq!(outbound.choose(&topic("a"), true), (Text::from_static("a"), None));
        assert_eq!(bytes.bytes(), 0);
        outbound.choose(&topic("a"), false);
        assert!(
            outbound.choose(&topic("a"), true).0.is_empty(),
            "what has one keeps it"
        );
        outbound.forget();
        assert_eq!(bytes.bytes(), 0);
    }
}
