//! Filters of a node: which sessions, shared groups and nodes a message is for.
//!
//! ```text
//!   plane: subscriptions that have changed        peers: filters of their connected sessions
//!     | subscribe                                    | learn, forget
//!     v                                              v
//!   Subscribers (clients and groups, by filter)    NodeFilters (nodes, by filter)
//!     | slots, matches                               | nodes
//!     v                                              v
//!   slots of a PUBLISH, queues of a copy           nodes of a PUBLISH
//! ```
//!
//! The search structure has every subscription that a copy of the node has, whether or not it counts. So what
//! it finds is looked up in the copy ([`matched_session`]).
//!
//! *Invariants*: a session has a message of QoS 1 or 2 in its queue only if a subscription that counts, and that
//! is earlier, takes it with QoS 1 or 2. What has no such subscription is no business of the plane.

mod last_found;
mod matched;
mod node_filters;
mod subscribers;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::NodeId;
use mqtt::memory::MessageBytes;
use mqtt::subscriptions::point_of;
use protocol::TopicName;
use protocol::packet::QoS;
use session_plane::interests::InterestChange;
use session_plane::plane::{CopyRef, Matching};
use session_plane::{ClientId, Dot, Matched, Pending, Recipients, Slot, SlotSet};

use crate::{Content, Value};

use last_found::{Found, LastFound};
use matched::{matched_group, matched_session};
use node_filters::NodeFilters;
use subscribers::Subscribers;

/// Filters of a node.
///
/// A message costs a search by its topic, once for all slots of the node, and a look at the subscriptions of
/// each session that it may match.
#[derive(Debug)]
pub struct Filters {
    subscribers: Subscribers,
    nodes: NodeFilters,
    /// A message is matched by the routes, and then in one slot after the other.
    last: RefCell<LastFound>,
    /// Account of the contents that wait in queues.
    contents: MessageBytes,
    kept_together: KeptTogether,
}

/// Messages of a shared group that the same member gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeptTogether {
    /// Those with the same user property `$partition`.
    #[default]
    Partition,
    /// These, and those of a topic.
    Topic,
    /// Those with the same `$partition`, and those of a publisher.
    Publisher,
}

impl KeptTogether {
    /// Point of a message. None: any member may get it.
    fn point(self, content: &Content) -> Option<u64> {
        let partition = content.properties().user_properties.find(PARTITION);
        let text = partition.or(match self {
            KeptTogether::Partition => None,
            KeptTogether::Topic => Some(content.topic().as_str()),
            KeptTogether::Publisher => content.publisher().map(|id| &**id),
        });
        text.map(|text| point_of(text).number())
    }
}

/// User property by whose value the official clients of Azure IoT Operations keep messages together.
pub const PARTITION: &str = "$partition";

impl Filters {
    /// No filter. `seed` is for hashes of names that clients choose.
    pub fn new(seed: u64) -> Filters {
        Filters {
            subscribers: Subscribers::new(seed),
            nodes: NodeFilters::new(seed),
            last: RefCell::default(),
            contents: MessageBytes::default(),
            kept_together: KeptTogether::default(),
        }
    }

    /// The same with what keeps messages of shared groups together.
    #[must_use]
    pub fn keeping_together(self, kept_together: KeptTogether) -> Filters {
        Filters {
            kept_together,
            ..self
        }
    }

    /// The same with an account of the contents that wait in queues.
    #[must_use]
    pub fn counting_in(self, contents: MessageBytes) -> Filters {
        Filters { contents, ..self }
    }

    /// Clients of a slot that a message to a topic may match.
    pub fn sessions(&self, topic: &TopicName, slot: Slot) -> Vec<ClientId> {
        self.found(topic).sessions(slot).to_vec()
    }

    /// Memory of the filters, in bytes.
    pub fn bytes(&self) -> u64 {
        self.subscribers.bytes() + self.nodes.bytes()
    }

    /// Recipients of a message: slots of durable sessions and of shared groups, and nodes with connected sessions.
    pub fn recipients(&self, topic: &TopicName, qos: QoS) -> Recipients {
        let slots = match qos {
            QoS::AtMostOnce => SlotSet::default(),
            QoS::AtLeastOnce | QoS::ExactlyOnce => self.found(topic).slots(),
        };
        Recipients {
            slots,
            nodes: self.nodes.find(topic, qos),
        }
    }

    /// Subscribers that a message to a topic may match.
    fn found(&self, topic: &TopicName) -> Arc<Found> {
        let mut last = self.last.borrow_mut();
        last.get_or_find(topic, || self.subscribers.find(topic))
    }
}

impl Matching<Value, Content> for Filters {
    fn matches(
        &self,
        copy: &CopyRef<'_, Value>,
        message: Dot,
        pending: &Pending<Content>,
    ) -> Vec<Matched<Value>> {
        let found = self.found(pending.message.topic());
        // The interval of a will begins when it is published. (section 3.1.3.2.4)
        let content = pending.message.published_at(pending.clock.wall());
        let sessions = found.sessions(copy.slot).iter();
        let sessions = sessions.filter_map(|client| matched_session(copy, client, &content, pending.clock));
        let groups = found.groups(copy.slot).iter();
        let groups = groups.filter_map(|key| matched_group(copy, key, message, &content, pending.clock));
        let matched: Vec<_> = sessions.chain(groups).collect();
        if !matched.is_empty() {
            content.count_in(&self.contents);
        }
        matched
    }

    fn slots(&self, _: &CopyRef<'_, Value>, message: &Content) -> SlotSet {
        self.found(message.topic()).slots()
    }

    fn subscribe(&mut self, subscriber: &ClientId, subscriptions: &[&Value]) {
        self.last.get_mut().forget();
        self.subscribers.set(subscriber, subscriptions);
    }

    fn point(&self, message: &Value) -> Option<u64> {
        match message {
            Value::Message(queued) => self.kept_together.point(queued.content()),
            _ => None,
        }
    }

    fn nodes(&self, message: &Content) -> BTreeSet<NodeId> {
        self.nodes.find(message.topic(), message.qos())
    }

    fn learn(&mut self, node: NodeId, change: InterestChange) {
        self.nodes.learn(node, change);
    }

    fn forget(&mut self, node: NodeId) {
        self.nodes.forget(node);
    }

    fn interests(&self, node: NodeId) -> usize {
        self.nodes.len(node)
    }
}
