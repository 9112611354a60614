//! Unknown recipients: what waits while this node does not know who is to get a message.
//!
//! A node that has started, or has met another one, does not know all subscriptions until its routes have merged and
//! its peers have told their filters. Until then CONNACK waits, and so does a PUBLISH with QoS 1 or 2. A connection is not
//! read from behind such a PUBLISH.

use std::collections::BTreeMap;

use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use protocol::packet::Publish;
use protocol::{Packet, TopicName};

use crate::node::{Action, Node};

/// Packets that wait until the recipients of messages are known.
#[derive(Debug, Default)]
pub(crate) struct UnknownRecipients {
    pub(crate) connacks: BTreeMap<ConnectionId, Packet>,
    publishes: BTreeMap<ConnectionId, Vec<HeldPublish>>,
}

/// PUBLISH that waits, with its topic.
#[derive(Debug)]
pub(crate) struct HeldPublish {
    pub(crate) publish: Box<Publish>,
    pub(crate) topic: TopicName,
}

impl UnknownRecipients {
    /// A connection has ended.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.connacks.remove(&id);
        self.publishes.remove(&id);
    }
}

impl Node {
    /// Holds a PUBLISH back, and stops reading from its client.
    pub(crate) fn hold_publish(&mut self, id: ConnectionId, publish: HeldPublish) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.awaits_nodes = true;
            self.held.publishes.entry(id).or_default().push(publish);
        }
    }

    /// Goes on with what waits, if the recipients of messages are known.
    pub(crate) fn go_on_with_recipients(&mut self, now: Now, actions: &mut Vec<Action>) {
        let is_waiting = !self.held.connacks.is_empty() || !self.held.publishes.is_empty();
        if !is_waiting || !self.replication.sessions().knows_recipients() {
            return;
        }
        for (id, packet) in std::mem::take(&mut self.held.connacks) {
            self.accepted(now, id, packet, actions);
        }
        for (id, publishes) in std::mem::take(&mut self.held.publishes) {
            self.end_awaiting(now, id, actions);
            for HeldPublish { publish, topic } in publishes {
                let connection = self.connections.get(id);
                if let Some(key) = connection.and_then(|connection| connection.session()) {
                    self.publish_received(now, (id, key), publish, topic, actions);
                }
            }
        }
    }

    /// Reads on from a publisher.
    pub(crate) fn end_awaiting(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.awaits_nodes = false;
            // It could not be heard; its silence begins now.
            connection.last_received = now.instant;
            actions.push(Action::Resume { connection: id });
        }
    }
}
