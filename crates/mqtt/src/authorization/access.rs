//! What one client may do, for as long as it has its connection.

use std::sync::Arc;

use protocol::{TopicFilter, TopicName};

use super::parties::PartiesOf;
use super::{Decision, Policy, Request, Subject};

/// A client with its policy, of which it has found its rules once.
///
/// The last decisions are remembered; they cannot become old, because neither the policy nor the subject changes. What a
/// client costs besides is its parties: the rules are the policy's.
#[derive(Debug, Clone)]
pub struct Access {
    policy: Arc<Policy>,
    subject: Subject,
    parties: PartiesOf,
    remembered: Vec<Remembered>,
    /// Which of them is forgotten next.
    oldest: u8,
}

#[derive(Debug, Clone)]
struct Remembered {
    kind: Kind,
    decision: Decision,
    asked: Box<[u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Publish,
    ReadKey,
    WriteKey,
}

impl Access {
    /// How many decisions are remembered.
    const REMEMBERED_MAX: usize = 4;
    /// Bytes of a topic or key about which a decision is remembered.
    const REMEMBERED_BYTES_MAX: usize = 256;

    /// Finds the client's rules.
    pub fn new(policy: Arc<Policy>, subject: Subject) -> Self {
        Self {
            parties: policy.parties.of(&subject),
            policy,
            subject,
            remembered: Vec::new(),
            oldest: 0,
        }
    }

    /// Whether it may publish to a topic, now or by its will.
    pub fn may_publish(&mut self, topic: &TopicName) -> Decision {
        self.recall(Kind::Publish, topic.as_str().as_bytes(), Request::Publish(topic))
    }

    /// Whether it may read a key.
    pub fn may_read_key(&mut self, key: &[u8]) -> Decision {
        self.recall(Kind::ReadKey, key, Request::ReadKey(key))
    }

    /// Whether it may write a key.
    pub fn may_write_key(&mut self, key: &[u8]) -> Decision {
        self.recall(Kind::WriteKey, key, Request::WriteKey(key))
    }

    /// Whether it may be connected.
    pub fn may_connect(&self) -> Decision {
        self.decide(Request::Connect)
    }

    /// Whether it may have a subscription to a filter; for a shared subscription, to that behind the share's name.
    pub fn may_subscribe(&self, filter: &TopicFilter) -> Decision {
        self.decide(Request::Subscribe(filter))
    }

    /// Whether it may hear what the state store answers to another client on this topic: by a rule that names the first two levels, so
    /// not by `#` or `clients/#`.
    pub fn may_overhear(&self, topic: &TopicName) -> Decision {
        self.policy.overhearing_for(&self.subject, &self.parties, topic)
    }

    /// Whether it may hear what others are notified of a key.
    pub fn may_audit_key(&self, key: &[u8]) -> Decision {
        self.decide(Request::AuditKey(key))
    }

    /// Whether `$high_priority` counts in its messages to a topic.
    pub fn may_hurry(&self, topic: &TopicName) -> Decision {
        self.decide(Request::HighPriority(topic))
    }

    /// Decides without remembering.
    pub fn decide(&self, request: Request<'_>) -> Decision {
        self.policy.decide_for(&self.subject, &self.parties, request)
    }

    /// Who it is.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// By what it is decided.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    fn recall(&mut self, kind: Kind, asked: &[u8], request: Request<'_>) -> Decision {
        let is_asked = |known: &&Remembered| known.kind == kind && *known.asked == *asked;
        if let Some(known) = self.remembered.iter().find(is_asked) {
            return known.decision;
        }
        let decision = self.decide(request);
        if asked.len() <= Self::REMEMBERED_BYTES_MAX {
            self.remember(Remembered {
                kind,
                decision,
                asked: asked.into(),
            });
        }
        decision
    }

    fn remember(&mut self, decided: Remembered) {
        if self.remembered.len() < Self::REMEMBERED_MAX {
            // Most clients publish to one topic.
            self.remembered.reserve_exact(1);
            self.remembered.push(decided);
        } else {
            let oldest = usize::from(self.oldest);
            self.remembered[oldest] = decided;
            self.oldest = (self.oldest + 1) % Self::REMEMBERED_MAX as u8;
        }
    }
}
