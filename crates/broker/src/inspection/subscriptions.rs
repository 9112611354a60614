//! The subscriptions at a node, by session.

use mqtt::ids::SessionKey;
use protocol::Text;
use protocol::packet::QoS;
use protocol::topic::SubscriptionFilter;

use super::{LOOKED_AT_MAX, Piece, TEXT_BYTES_MAX, has};
use crate::node::Node;

/// Which subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionsAsked {
    /// What is to be in the topic filter.
    pub search: String,
    /// Where the piece begins: a session, and one of its subscriptions.
    pub from: (u32, u32),
    /// So many at most.
    pub limit: usize,
}

/// A subscription, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionSeen {
    /// Whose.
    pub client_id: Text,
    /// To what.
    pub filter: SubscriptionFilter,
    /// At most.
    pub qos: QoS,
}

impl Node {
    /// A piece of the list of subscriptions.
    pub fn subscriptions_seen(&self, asked: &SubscriptionsAsked) -> Piece<SubscriptionSeen, (u32, u32)> {
        let (mut found, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        let total = self.subscriptions.len() + self.shares.subscriptions();
        let (mut session, mut from) = asked.from;
        while session < self.sessions.places() {
            let entry = self.sessions.get(SessionKey(session));
            let filters = entry.map(|entry| entry.session.filters.from(from as usize));
            for (filter, subscription) in filters.into_iter().flatten() {
                if looked_at >= LOOKED_AT_MAX || found.len() >= asked.limit || bytes >= TEXT_BYTES_MAX {
                    let next = Some((session, from));
                    return Piece { found, next, total };
                }
                (looked_at, from) = (looked_at + 1, from + 1);
                if let Some(entry) = entry.filter(|_| has(filter.filter.as_str(), &asked.search)) {
                    let client_id = entry.session.client_id.clone();
                    bytes += client_id.len() + filter.filter.as_str().len();
                    found.push(SubscriptionSeen {
                        client_id,
                        filter: filter.clone(),
                        qos: subscription.options.qos,
                    });
                }
            }
            (session, from, looked_at) = (session + 1, 0, looked_at + 1);
            if looked_at >= LOOKED_AT_MAX && session < self.sessions.places() {
                let next = Some((session, 0));
                return Piece { found, next, total };
            }
        }
        let next = None;
        Piece { found, next, total }
    }
}
