//! Topic aliases of one connection, in both directions.
//!
//! They live as long as the connection. Nothing is allocated until the first alias is used.

use protocol::packet::{Publish, TopicAlias};
use protocol::{ReasonCode, Text, TopicName};

/// The aliases that the client has set for topics of its own messages.
#[derive(Debug)]
pub struct Inbound {
    /// The topic of alias n + 1.
    topics: Vec<Option<TopicName>>,
    maximum: u16,
}

/// The aliases that the server has set for topics of messages to the client: those that were used last.
#[derive(Debug)]
pub struct Outbound {
    /// Of alias n + 1. Separate from the topics: they are searched for each message.
    fingerprints: Vec<u64>,
    topics: Vec<Used>,
    maximum: usize,
    uses: u64,
}

#[derive(Debug)]
struct Used {
    topic: TopicName,
    last: u64,
}

impl Inbound {
    /// No alias yet; at most `maximum`, the Topic Alias Maximum that the server told.
    pub fn new(maximum: u16) -> Self {
        Self {
            topics: Vec::new(),
            maximum,
        }
    }

    /// The topic name of a received PUBLISH. Sets its alias if it has both; takes the alias out of the packet.
    ///
    /// The error is for the DISCONNECT: 0x94 for an alias over the maximum [MQTT-3.3.2-9], 0x82 for no topic at all or an
    /// alias that was not set (section 3.3.2.3.4), 0x90 for a text that is no topic name.
    pub fn resolve(&mut self, publish: &mut Publish) -> Result<TopicName, ReasonCode> {
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
                if self.topics.len() <= position {
                    self.topics.resize(position + 1, None);
                }
                // In memory of its own: it stays for as long as the connection.
                self.topics[position] = Some(topic.detached());
                Ok(topic)
            }
        }
    }
}

impl Outbound {
    /// No alias yet; at most `maximum`: the lower of the client's Topic Alias Maximum [MQTT-3.1.2-26]
    /// [MQTT-3.1.2-27] and [`crate::limits::Limits::topic_alias_outbound_max`].
    pub fn new(maximum: u16) -> Self {
        Self {
            fingerprints: Vec::new(),
            topics: Vec::new(),
            maximum: usize::from(maximum),
            uses: 0,
        }
    }

    /// What to put into a PUBLISH to `topic`: the topic with a new alias, nothing with an alias that the client knows, or
    /// the topic alone. If the packet is then not sent, [`Outbound::forget`] must follow.
    pub fn choose(&mut self, topic: &TopicName) -> (Text, Option<TopicAlias>) {
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
        // A topic with the fingerprint of another takes its alias, so that a fingerprint stands for one topic.
        let position = known.unwrap_or_else(|| self.position_for_new());
        let used = Used {
            topic: topic.detached(),
            last: self.uses,
        };
        if position == self.topics.len() {
            self.fingerprints.push(fingerprint);
            self.topics.push(used);
        } else {
            self.fingerprints[position] = fingerprint;
            self.topics[position] = used;
        }
        (topic.text().clone(), alias(position))
    }

    /// The PUBLISH that was to set aliases was not sent: what the client knows is not what is kept here. All aliases will
    /// be set anew.
    pub fn forget(&mut self) {
        self.fingerprints.clear();
        self.topics.clear();
    }

    fn position_for_new(&self) -> usize {
        if self.topics.len() < self.maximum {
            return self.topics.len();
        }
        let oldest = self.topics.iter().enumerate().min_by_key(|(_, used)| used.last);
        oldest.map_or(0, |(position, _)| position)
    }
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
            .resolve(&mut publish(topic, alias))
            .map(|topic| topic.as_str().to_owned())
    }

    fn choose(outbound: &mut Outbound, topic: &'static str) -> (String, u16) {
        let topic = TopicName::parse(Text::from_static(topic)).unwrap();
        let (text, alias) = outbound.choose(&topic);
        (text.as_str().to_owned(), alias.map_or(0, TopicAlias::get))
    }

    #[test]
    fn mqtt_3_3_2_12_all_aliases_up_to_the_maximum_are_accepted() {
        let mut inbound = Inbound::new(3);
        for (alias, topic) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(resolve(&mut inbound, topic, alias), Ok(topic.into()));
        }
        for (alias, topic) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(resolve(&mut inbound, "", alias), Ok(topic.into()));
        }
    }

    #[test]
    fn an_alias_stands_for_the_topic_it_was_set_with_last() {
        let mut inbound = Inbound::new(3);
        assert_eq!(resolve(&mut inbound, "a", 3), Ok("a".into()));
        assert_eq!(resolve(&mut inbound, "", 3), Ok("a".into()));
        assert_eq!(resolve(&mut inbound, "b", 3), Ok("b".into()));
        assert_eq!(resolve(&mut inbound, "", 3), Ok("b".into()));
        assert_eq!(resolve(&mut inbound, "c", 0), Ok("c".into()));
    }

    #[test]
    fn mqtt_3_3_2_9_an_alias_over_the_maximum_is_invalid() {
        assert_eq!(
            resolve(&mut Inbound::new(3), "a", 4),
            Err(ReasonCode::TopicAliasInvalid)
        );
        assert_eq!(
            resolve(&mut Inbound::new(0), "a", 1),
            Err(ReasonCode::TopicAliasInvalid)
        );
    }

    #[test]
    fn a_publish_without_a_known_topic_is_a_protocol_error() {
        let mut inbound = Inbound::new(3);
        assert_eq!(resolve(&mut inbound, "", 0), Err(ReasonCode::ProtocolError));
        assert_eq!(resolve(&mut inbound, "", 2), Err(ReasonCode::ProtocolError));
        assert_eq!(resolve(&mut inbound, "a/+", 2), Err(ReasonCode::TopicNameInvalid));
        assert_eq!(resolve(&mut inbound, "", 2), Err(ReasonCode::ProtocolError));
    }

    #[test]
    fn mqtt_3_1_2_27_no_alias_for_a_client_that_takes_none() {
        assert_eq!(choose(&mut Outbound::new(0), "a"), ("a".into(), 0));
    }

    #[test]
    fn mqtt_3_1_2_26_the_alias_unused_for_longest_is_given_to_another_topic() {
        let mut outbound = Outbound::new(2);
        assert_eq!(choose(&mut outbound, "a"), ("a".into(), 1));
        assert_eq!(choose(&mut outbound, "b"), ("b".into(), 2));
        assert_eq!(choose(&mut outbound, "a"), ("".into(), 1));
        assert_eq!(choose(&mut outbound, "c"), ("c".into(), 2));
        assert_eq!(choose(&mut outbound, "a"), ("".into(), 1));
        assert_eq!(choose(&mut outbound, "b"), ("b".into(), 2));
    }

    #[test]
    fn after_a_packet_that_was_not_sent_aliases_are_set_anew() {
        let mut outbound = Outbound::new(2);
        assert_eq!(choose(&mut outbound, "a"), ("a".into(), 1));
        outbound.forget();
        assert_eq!(choose(&mut outbound, "a"), ("a".into(), 1));
    }
}
