//! Who may do what: a policy of rules that allow something, and the decision by them. What no rule allows is denied.
//!
//! [`Rules`] is a policy as written, [`Policy`] one that is compiled: it never changes and is shared by all connections of
//! its listeners. A connection has an [`Access`], which knows the rules that are about its client. Where decisions are asked for and
//! what follows from them is the node's business, not that of this module.
//!
//! Invariant: a decision follows from the policy, the [`Subject`] and what is asked for, and from nothing else.

mod access;
mod ends;
mod entries;
mod error;
mod explanation;
mod keys;
mod parties;
mod pattern;
mod placeholders;
mod right;
mod rules;
mod subject;
mod topics;
mod warnings;

use std::fmt;

use protocol::{Escaped, TopicFilter, TopicName};

pub use self::access::Access;
pub use self::ends::AmbiguityError;
use self::ends::{Ends, Syntax};
use self::entries::{ClientIdLists, Entries, Entry, Search};
pub use self::error::{Place, PolicyError, Problem};
pub use self::explanation::{Explanation, ResourceExplanation, RuleExplanation};
use self::keys::KeyIndex;
use self::parties::{Parties, PartyId};
use self::pattern::Pattern;
pub use self::pattern::PatternError;
pub use self::placeholders::PlaceholderError;
pub use self::right::Right;
pub use self::rules::{
    BrokerMethod, BrokerResource, KeyMethod, Keys, Principals, Rule, RuleIndex, Rules, StateStoreResource,
};
pub use self::subject::Subject;
pub use self::topics::RuleTopicError;
use self::topics::{RuleTopic, TopicTree};
pub use self::warnings::{Doubt, Warning};

/// Rules that are compiled: found by the topic or key that is asked for, not one after the other.
#[derive(Debug)]
pub struct Policy {
    rules: Rules,
    ends: Ends,
    parties: Parties,
    client_ids: ClientIdLists,
    connect: Entries,
    publish: TopicTree,
    subscribe: TopicTree,
    read: KeyIndex,
    write: KeyIndex,
    /// Whose notifications may be heard by others.
    audit: KeyIndex,
    /// `None`: no rule says anything of `$high_priority`, so whoever may publish may use it.
    high_priority: Option<TopicTree>,
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// To be connected.
    Connect,
    /// To publish to a topic.
    Publish(&'a TopicName),
    /// To subscribe to a filter; for a shared subscription, to that behind the share's name.
    Subscribe(&'a TopicFilter),
    /// To read a key.
    ReadKey(&'a [u8]),
    /// To write a key.
    WriteKey(&'a [u8]),
    /// To hear what others are notified of a key.
    AuditKey(&'a [u8]),
    /// To have a message to a topic go before others while memory runs out.
    HighPriority(&'a TopicName),
}

/// What a policy says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// This rule allows it; it is the first one that does.
    Allowed(RuleIndex),
    /// No rule allows it.
    Denied,
}

impl Decision {
    /// Whether it may be.
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

impl Policy {
    /// How many rules there may be.
    pub const RULES_MAX: usize = 10_000;
    /// How many usernames, client ids, lines of attributes, topics and keys there may be in all rules.
    pub const TEXTS_MAX: usize = 200_000;
    /// How many levels a topic of a rule may have: the depth of the search for it.
    pub const TOPIC_LEVELS_MAX: usize = 128;
    /// How many wildcards, placeholders and texts between them a pattern may have. A client pays at most this times the length of its key.
    pub const PATTERN_ELEMENTS_MAX: usize = 256;

    /// Compiles rules, or says which of them has a mistake and where.
    pub fn new(rules: Rules) -> Result<Self, PolicyError> {
        if rules.rules.len() > Self::RULES_MAX {
            return Err(PolicyError::TooManyRules {
                rules: rules.rules.len(),
            });
        }
        let texts = rules.rules.iter().map(Rule::texts).sum();
        if texts > Self::TEXTS_MAX {
            return Err(PolicyError::TooManyTexts { texts });
        }
        let mut policy = Self {
            ends: rules.ends(),
            rules: Rules::default(),
            parties: Parties::default(),
            client_ids: ClientIdLists::default(),
            connect: Entries::default(),
            publish: TopicTree::default(),
            subscribe: TopicTree::default(),
            read: KeyIndex::default(),
            write: KeyIndex::default(),
            audit: KeyIndex::default(),
            high_priority: rules.say_priority().then(TopicTree::default),
        };
        for (index, rule) in rules.rules.iter().enumerate() {
            policy.add(RuleIndex::new(index), rule)?;
        }
        policy.parties.index_attributes();
        policy.rules = rules;
        Ok(policy)
    }

    /// Whether anybody may hear the notifications of others.
    pub fn audits(&self) -> bool {
        let mut resources = self
            .rules
            .rules
            .iter()
            .flat_map(|rule| &rule.state_store_resources);
        resources.any(|resource| resource.method == KeyMethod::Audit)
    }

    /// The rules as they were written.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Decides about somebody who is asked about once; a connection has an [`Access`].
    pub fn decide(&self, subject: &Subject, request: Request<'_>) -> Decision {
        self.decide_for(subject, &self.parties.of(subject), request)
    }

    fn decide_for(&self, subject: &Subject, parties: &[PartyId], request: Request<'_>) -> Decision {
        let mut search = self.search(subject, parties);
        match request {
            Request::Connect => search.look_at(&self.connect),
            Request::Publish(topic) => self.publish.find(topic.as_str(), &mut search),
            Request::Subscribe(filter) => self.subscribe.find(filter.as_str(), &mut search),
            Request::ReadKey(key) => self.read.find(key, &mut search),
            Request::WriteKey(key) => self.write.find(key, &mut search),
            Request::AuditKey(key) => self.audit.find(key, &mut search),
            Request::HighPriority(topic) => {
                let tree = self.high_priority.as_ref().unwrap_or(&self.publish);
                tree.find(topic.as_str(), &mut search);
            }
        }
        search.decision()
    }

    /// Whether a rule that names the topic's first two levels allows to subscribe to it.
    fn overhearing_for(&self, subject: &Subject, parties: &[PartyId], topic: &TopicName) -> Decision {
        let mut search = self.search(subject, parties);
        self.subscribe
            .find_named(topic.as_str(), OVERHEARD_LEVELS, &mut search);
        search.decision()
    }

    fn search<'a>(&'a self, subject: &'a Subject, parties: &[PartyId]) -> Search<'a> {
        Search {
            subject,
            rules: parties.iter().map(|party| self.parties.rules(*party)).collect(),
            client_ids: &self.client_ids,
            found: None,
        }
    }

    fn add(&mut self, index: RuleIndex, rule: &Rule) -> Result<(), PolicyError> {
        let place = Place::in_rule(index);
        for (number, attributes) in rule.principals.attributes.iter().enumerate() {
            if attributes.is_empty() {
                let place = place.at("principals", None, "attributes", Some(number));
                return Err(place.error(Problem::NoAttribute));
            }
        }
        self.parties.add(index, &rule.principals);
        for (number, resource) in rule.broker_resources.iter().enumerate() {
            self.add_broker_resource(index, resource, place, number)?;
        }
        for (number, resource) in rule.state_store_resources.iter().enumerate() {
            self.add_keys(index, resource, place, number)?;
        }
        Ok(())
    }

    fn add_broker_resource(
        &mut self,
        rule: RuleIndex,
        resource: &BrokerResource,
        place: Place,
        number: usize,
    ) -> Result<(), PolicyError> {
        let at = |field, entry| place.at("brokerResources", Some(number), field, entry);
        let mut patterns = Vec::new();
        for (entry, text) in resource.client_ids.iter().enumerate() {
            let pattern = Pattern::of_client_ids(text, &self.ends);
            let problem = |error| Problem::pattern(text, error);
            patterns.push(pattern.map_err(|error| at("clientIds", Some(entry)).error(problem(error)))?);
        }
        let client_ids = (!patterns.is_empty()).then(|| self.client_ids.push(patterns));
        let allowed = Entry { rule, client_ids };
        if resource.method != BrokerMethod::Connect && resource.topics.is_empty() {
            return Err(at("topics", None).error(Problem::NoTopic {
                method: resource.method,
            }));
        }
        for (entry, text) in resource.topics.iter().enumerate() {
            let topic = RuleTopic::parse(text, &self.ends);
            let problem = |error| Problem::topic(text, error);
            let topic = topic.map_err(|error| at("topics", Some(entry)).error(problem(error)))?;
            match resource.method {
                BrokerMethod::Connect => {}
                BrokerMethod::Publish => {
                    self.publish.insert(&topic, allowed);
                    if let (Some(tree), Some(true)) = (&mut self.high_priority, resource.high_priority) {
                        tree.insert(&topic, allowed);
                    }
                }
                BrokerMethod::Subscribe => self.subscribe.insert(&topic, allowed),
            }
        }
        if resource.method == BrokerMethod::Connect {
            self.connect.push(allowed);
        }
        Ok(())
    }

    fn add_keys(
        &mut self,
        rule: RuleIndex,
        resource: &StateStoreResource,
        place: Place,
        number: usize,
    ) -> Result<(), PolicyError> {
        let at = |entry| place.at("stateStoreResources", Some(number), "keys", entry);
        let allowed = Entry {
            rule,
            client_ids: None,
        };
        if resource.keys.is_empty() {
            return Err(at(None).error(Problem::NoKey));
        }
        let read = resource.method.reads().then_some(&mut self.read);
        let write = resource.method.writes().then_some(&mut self.write);
        let audit = (resource.method == KeyMethod::Audit).then_some(&mut self.audit);
        for index in read.into_iter().chain(write).chain(audit) {
            match &resource.keys {
                Keys::Pattern(texts) => {
                    for (entry, text) in texts.iter().enumerate() {
                        let pattern = Pattern::of_keys(text, &self.ends);
                        let problem = |error| Problem::pattern(text, error);
                        let pattern = pattern.map_err(|error| at(Some(entry)).error(problem(error)))?;
                        index.insert_pattern(&pattern, allowed);
                    }
                }
                Keys::Text(texts) => {
                    let keys = texts.iter().map(String::as_bytes);
                    insert_keys(index, keys, allowed)
                        .map_err(|entry| at(Some(entry)).error(Problem::EmptyKey))?;
                }
                Keys::Binary(keys) => {
                    let keys = keys.iter().map(Vec::as_slice);
                    insert_keys(index, keys, allowed)
                        .map_err(|entry| at(Some(entry)).error(Problem::EmptyKey))?;
                }
            }
        }
        Ok(())
    }
}

/// Inserts keys, or says which of them is empty.
fn insert_keys<'a>(
    index: &mut KeyIndex,
    keys: impl Iterator<Item = &'a [u8]>,
    allowed: Entry,
) -> Result<(), usize> {
    for (entry, key) in keys.enumerate() {
        if key.is_empty() {
            return Err(entry);
        }
        index.insert(key, allowed);
    }
    Ok(())
}

/// How many levels a rule has to name of a topic that the state store answers another client on: `clients/NAME`, by which the usual
/// ones say whose they are.
const OVERHEARD_LEVELS: usize = 2;

impl Rules {
    /// Whether any of them says who may use `$high_priority`.
    fn say_priority(&self) -> bool {
        let mut resources = self.rules.iter().flat_map(|rule| &rule.broker_resources);
        resources.any(|resource| resource.high_priority.is_some())
    }

    /// What no value has that stands for a placeholder.
    fn ends(&self) -> Ends {
        let mut ends = Ends::default();
        for rule in &self.rules {
            for resource in &rule.broker_resources {
                let (ids, topics) = (&resource.client_ids, &resource.topics);
                ids.iter().for_each(|text| ends.add(text, Syntax::ClientIds));
                topics.iter().for_each(|text| ends.add(text, Syntax::Topics));
            }
            for resource in &rule.state_store_resources {
                if let Keys::Pattern(texts) = &resource.keys {
                    texts.iter().for_each(|text| ends.add(text, Syntax::Keys));
                }
            }
        }
        ends
    }
}

impl Rule {
    /// How many texts it has that are compiled.
    fn texts(&self) -> usize {
        let principals = &self.principals;
        let broker = self.broker_resources.iter();
        let store = self.state_store_resources.iter();
        principals.usernames.len()
            + principals.client_ids.len()
            + principals.attributes.iter().map(|line| line.len()).sum::<usize>()
            + broker
                .map(|resource| resource.client_ids.len() + resource.topics.len())
                .sum::<usize>()
            + store.map(|resource| resource.keys.len()).sum::<usize>()
    }
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Publish(topic) => write!(f, "publish to {}", Escaped::new(topic.as_str())),
            Self::Subscribe(filter) => write!(f, "subscribe to {}", Escaped::new(filter.as_str())),
            Self::ReadKey(key) => write!(f, "read the key {}", Escaped::new(key)),
            Self::WriteKey(key) => write!(f, "write the key {}", Escaped::new(key)),
            Self::AuditKey(key) => write!(f, "hear notifications of the key {}", Escaped::new(key)),
            Self::HighPriority(topic) => {
                write!(
                    f,
                    "use $high_priority in messages to {}",
                    Escaped::new(topic.as_str())
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
