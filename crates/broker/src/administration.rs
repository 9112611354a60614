//! What an operator does to a node's clients and messages.

use bytes::Bytes;
use cluster::GroupId;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::policies::is_servers_own;
use protocol::packet::QoS;
use protocol::{ReasonCode, Text, TopicName};

use crate::backups::Item;
use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::replication::Waiter;

/// What an operator wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Administration {
    /// End the connection of a client, which is told so. Its session stays, and its will is published as after any abnormal end.
    Disconnect {
        /// Whose.
        client_id: Text,
        /// In words for the client.
        why: String,
    },
    /// Retain nothing for a topic any more, in the whole cluster: as an empty retained message does, which subscribers get as well.
    RemoveRetained {
        /// Which.
        topic: TopicName,
    },
    /// An image of a group's store, for a backup. The answer is an [`Action::Frozen`].
    Freeze {
        /// Which group.
        group: GroupId,
        /// From which copy.
        source: ImageSource,
    },
    /// Put something of a backup back. The answer is an [`Action::Restored`].
    Restore {
        /// What.
        items: Vec<Item>,
    },
}

/// Copy of a group's store that an image is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSource {
    /// The leader's, behind a read barrier: it has everything that was acknowledged.
    Leader,
    /// This node's own with the rest of its log, decided or not: it may lack what others have acknowledged, and may have what was
    /// never acknowledged.
    Own,
}

impl Node {
    /// An operator wants something done. It is answered when it is done.
    pub(crate) fn administer(
        &mut self,
        now: Now,
        question: u64,
        wanted: Administration,
        actions: &mut Vec<Action>,
    ) {
        let is_done = match wanted {
            Administration::Disconnect { client_id, why } => {
                self.disconnect_client(now, &client_id, &why, actions)
            }
            Administration::RemoveRetained { topic } => {
                return self.remove_retained(now, question, topic, actions);
            }
            Administration::Freeze { group, source } => {
                return self.freeze(now, question, (group, source), actions);
            }
            Administration::Restore { items } => return self.restore(now, question, items, actions),
        };
        actions.push(Action::Administered { question, is_done });
    }

    /// False if it has no connection that this node knows of.
    fn disconnect_client(&mut self, now: Now, client_id: &str, why: &str, actions: &mut Vec<Action>) -> bool {
        let key = self.sessions.find(client_id);
        let Some(entry) = key.and_then(|key| self.sessions.get(key)) else {
            return false;
        };
        self.disconnect(
            now,
            entry.connection,
            ReasonCode::AdministrativeAction,
            why,
            actions,
        );
        true
    }

    fn remove_retained(&mut self, now: Now, question: u64, topic: TopicName, actions: &mut Vec<Action>) {
        // What the server says of itself comes back by itself.
        let is_there = self.retained.get(topic.as_str(), now).is_some() && !is_servers_own(topic.as_str());
        if !is_there {
            let is_done = false;
            return actions.push(Action::Administered { question, is_done });
        }
        let message = Message {
            qos: QoS::AtLeastOnce,
            ..Message::of_server(topic, Bytes::new(), now)
        };
        let awaited = self.publish_message(now, message, Keeping::Durable, actions);
        self.after(now, &awaited, Waiter::Administered { question }, actions);
    }
}
