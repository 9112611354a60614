//! Why a policy decides as it does, for people: every rule by its words, one after the other.

use super::ends::Ends;
use super::pattern::Pattern;
use super::rules::{BrokerMethod, BrokerResource, KeyMethod, Keys, Rule, RuleIndex, StateStoreResource};
use super::topics::RuleTopic;
use super::{Decision, Policy, Request, Subject};

/// A decision, and what each rule has to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What is decided.
    pub decision: Decision,
    /// All rules, in their order.
    pub rules: Vec<RuleExplanation>,
}

/// What one rule has to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleExplanation {
    /// Which one.
    pub rule: RuleIndex,
    /// Whether it is about the client.
    pub is_about_client: bool,
    /// Whether it is about what the client asks for.
    pub resource: ResourceExplanation,
}

/// How near the resources of a rule come to what is asked for; the farthest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceExplanation {
    /// None has this method.
    OtherMethods,
    /// This one has the method, but it is the topics or keys of none.
    Elsewhere {
        /// Its place, counted from 0.
        resource: usize,
    },
    /// This one would be right, but has other client ids.
    OtherClientIds {
        /// Its place, counted from 0.
        resource: usize,
    },
    /// It is this one.
    Allows {
        /// Its place, counted from 0.
        resource: usize,
        /// The place of the topic or key in it, counted from 0; `None` for a connection.
        entry: Option<usize>,
    },
}

impl Explanation {
    /// Among the rules that do not allow it, the one that is nearest to do so; of several, the first. None if none is about the client or
    /// about what it asks for.
    pub fn nearest(&self) -> Option<&RuleExplanation> {
        let nearness = |rule: &&RuleExplanation| match rule.resource {
            ResourceExplanation::OtherClientIds { .. } if rule.is_about_client => 3,
            ResourceExplanation::Elsewhere { .. } if rule.is_about_client => 2,
            ResourceExplanation::Allows { .. } => 1,
            _ => 0,
        };
        let rules = self
            .rules
            .iter()
            .filter(|rule| !rule.allows() && nearness(rule) > 0);
        rules.rev().max_by_key(nearness)
    }
}

impl RuleExplanation {
    /// Whether it allows what is asked for.
    pub fn allows(&self) -> bool {
        self.is_about_client && matches!(self.resource, ResourceExplanation::Allows { .. })
    }
}

impl Policy {
    /// Decides by the words of each rule. Slow: for people, and to see that the compiled rules say the same.
    pub fn explain(&self, subject: &Subject, request: Request<'_>) -> Explanation {
        let rules = self.rules().rules.iter().enumerate();
        let asking = Asking {
            ends: &self.ends,
            says_priority: self.high_priority.is_some(),
            subject,
            request,
        };
        let rules: Vec<_> = rules
            .map(|(index, rule)| RuleExplanation {
                rule: RuleIndex::new(index),
                is_about_client: rule.principals.include(subject),
                resource: explain_rule(rule, &asking),
            })
            .collect();
        let first = rules.iter().find(|rule| rule.allows());
        Explanation {
            decision: first.map_or(Decision::Denied, |rule| Decision::Allowed(rule.rule)),
            rules,
        }
    }
}

/// Who asks for what.
struct Asking<'a> {
    ends: &'a Ends,
    /// The policy says who may use `$high_priority`.
    says_priority: bool,
    subject: &'a Subject,
    request: Request<'a>,
}

fn explain_rule(rule: &Rule, asking: &Asking<'_>) -> ResourceExplanation {
    let broker = rule.broker_resources.iter().enumerate();
    let store = rule.state_store_resources.iter().enumerate();
    let broker = broker.map(|(place, resource)| explain_broker(place, resource, asking));
    let store = store.map(|(place, resource)| explain_store(place, resource, asking));
    broker
        .chain(store)
        // Of several that are as near, the first.
        .fold(ResourceExplanation::OtherMethods, |nearest, next| {
            if next.nearness() > nearest.nearness() {
                next
            } else {
                nearest
            }
        })
}

fn explain_broker(place: usize, resource: &BrokerResource, asking: &Asking<'_>) -> ResourceExplanation {
    let (subject, request) = (asking.subject, asking.request);
    let covers = |filter: &str| {
        let topics = resource.topics.iter();
        let mut topics = topics.map(|topic| RuleTopic::parse(topic, asking.ends).expect("it was compiled"));
        topics.position(|topic| topic.covers(filter, subject))
    };
    let entry = match (resource.method, request) {
        (BrokerMethod::Connect, Request::Connect) => None,
        (BrokerMethod::Publish, Request::HighPriority(_))
            if asking.says_priority && resource.high_priority != Some(true) =>
        {
            return ResourceExplanation::OtherMethods;
        }
        (BrokerMethod::Publish, Request::Publish(topic) | Request::HighPriority(topic)) => {
            match covers(topic.as_str()) {
                None => return ResourceExplanation::Elsewhere { resource: place },
                entry => entry,
            }
        }
        (BrokerMethod::Subscribe, Request::Subscribe(filter)) => match covers(filter.as_str()) {
            None => return ResourceExplanation::Elsewhere { resource: place },
            entry => entry,
        },
        _ => return ResourceExplanation::OtherMethods,
    };
    let is_client_id = |text: &String| {
        let pattern = Pattern::of_client_ids(text, asking.ends).expect("it was compiled");
        pattern.matches(subject.client_id.as_bytes(), subject)
    };
    if !resource.client_ids.is_empty() && !resource.client_ids.iter().any(is_client_id) {
        return ResourceExplanation::OtherClientIds { resource: place };
    }
    ResourceExplanation::Allows {
        resource: place,
        entry,
    }
}

fn explain_store(place: usize, resource: &StateStoreResource, asking: &Asking<'_>) -> ResourceExplanation {
    let (subject, request) = (asking.subject, asking.request);
    let key = match request {
        Request::ReadKey(key) if resource.method.reads() => key,
        Request::WriteKey(key) if resource.method.writes() => key,
        Request::AuditKey(key) if resource.method == KeyMethod::Audit => key,
        _ => return ResourceExplanation::OtherMethods,
    };
    let entry = match &resource.keys {
        Keys::Pattern(texts) => texts.iter().position(|text| {
            let pattern = Pattern::of_keys(text, asking.ends).expect("it was compiled");
            pattern.matches(key, subject)
        }),
        Keys::Text(texts) => texts.iter().position(|text| text.as_bytes() == key),
        Keys::Binary(keys) => keys.iter().position(|known| known == key),
    };
    match entry {
        None => ResourceExplanation::Elsewhere { resource: place },
        entry => ResourceExplanation::Allows {
            resource: place,
            entry,
        },
    }
}

impl ResourceExplanation {
    fn nearness(self) -> u8 {
        match self {
            Self::OtherMethods => 0,
            Self::Elsewhere { .. } => 1,
            Self::OtherClientIds { .. } => 2,
            Self::Allows { .. } => 3,
        }
    }
}
