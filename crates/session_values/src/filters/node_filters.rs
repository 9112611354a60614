//! Nodes by the filters of their connected sessions, as they have told them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cluster::NodeId;
use mqtt::subscriptions::Index;
use protocol::packet::QoS;
use protocol::{Text, TopicFilter, TopicName};
use session_plane::interests::{Interest, InterestChange};

/// Nodes and what they want.
#[derive(Debug)]
pub(super) struct NodeFilters {
    index: Index<NodeId, Interest>,
    told: BTreeMap<NodeId, BTreeSet<session_plane::TopicFilter>>,
}

impl NodeFilters {
    pub(super) fn new(seed: u64) -> NodeFilters {
        NodeFilters {
            index: Index::new(seed),
            told: BTreeMap::new(),
        }
    }

    /// Takes what a node has told. A filter that is none of MQTT counts, and matches nothing.
    pub(super) fn learn(&mut self, node: NodeId, change: InterestChange) {
        let filter = parse(&change.filter);
        let told = self.told.entry(node).or_default();
        match change.interest {
            Some(interest) => {
                told.insert(change.filter);
                if let Some(filter) = filter {
                    self.index.insert(&filter, node, interest);
                }
            }
            None => {
                told.remove(&change.filter);
                if let Some(filter) = filter {
                    self.index.remove(&filter, node);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        let told = self.told.remove(&node).unwrap_or_default();
        for filter in told.iter().filter_map(parse) {
            self.index.remove(&filter, node);
        }
    }

    /// Filters of a node.
    pub(super) fn len(&self, node: NodeId) -> usize {
        self.told.get(&node).map_or(0, BTreeSet::len)
    }

    /// Nodes that want a message.
    pub(super) fn find(&self, topic: &TopicName, qos: QoS) -> BTreeSet<NodeId> {
        let mut nodes = BTreeSet::new();
        self.index
            .matches(topic.as_str(), &mut |node, interest: &Interest| {
                if *interest == Interest::All || qos == QoS::AtMostOnce {
                    nodes.insert(node);
                }
            });
        nodes
    }

    pub(super) fn bytes(&self) -> u64 {
        /// Memory of a filter in the set of its node.
        const FILTER: usize = 48;
        let told = self.told.values().flatten();
        let bytes: usize = told.map(|filter| FILTER + filter.as_bytes().len()).sum();
        self.index.bytes() + bytes as u64
    }
}

fn parse(filter: &session_plane::TopicFilter) -> Option<TopicFilter> {
    let text = Text::from_bytes(Bytes::copy_from_slice(filter.as_bytes())).ok()?;
    TopicFilter::parse(text).ok()
}
