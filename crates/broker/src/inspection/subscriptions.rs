//! Subscriptions of the cluster, by session.

use std::ops::Bound;

use protocol::Text;
use protocol::packet::QoS;
use protocol::topic::SubscriptionFilter;
use session_plane::{ClientId, EntryKind};

use super::{LOOKED_AT_MAX, Piece, TEXT_BYTES_MAX, has};
use crate::node::Node;
use crate::subscription_entries::terms_of;

/// Which subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionsAsked {
    /// Text that is to be in the topic filter.
    pub search: String,
    /// Place behind which the piece begins.
    pub after: SubscriptionPlace,
    /// So many at most.
    pub limit: usize,
}

/// Place in the list of subscriptions: a client, and how many of its subscriptions come before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionPlace {
    /// Client, or shared group; empty: the first one.
    pub client: Vec<u8>,
    /// Subscriptions of it.
    pub subscriptions: usize,
}

/// Subscription, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionSeen {
    /// Client.
    pub client_id: Text,
    /// Filter.
    pub filter: SubscriptionFilter,
    /// QoS at most.
    pub qos: QoS,
}

impl Node {
    /// A piece of the list of subscriptions: those of sessions that outlive their connections, and of members of shared groups.
    pub fn subscriptions_seen(
        &self,
        asked: &SubscriptionsAsked,
    ) -> Piece<SubscriptionSeen, SubscriptionPlace> {
        let (mut found, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        let total = self.subscriptions.len() + self.shares.subscriptions();
        let Some(routes) = self.replication.routes() else {
            return Piece {
                found,
                next: None,
                total,
            };
        };
        let from = ClientId::new(&asked.after.client).ok();
        let from = from.as_ref().map_or(Bound::Unbounded, Bound::Included);
        for (client, entries) in routes.entries.sessions_from(from) {
            let skipped = if client.as_bytes() == asked.after.client {
                asked.after.subscriptions
            } else {
                0
            };
            let subscriptions = [EntryKind::Subscription, EntryKind::Member].into_iter();
            let subscriptions = subscriptions.flat_map(|kind| entries.of_kind(kind));
            looked_at += 1;
            for (place, (_, entry)) in subscriptions.enumerate().skip(skipped) {
                if looked_at >= LOOKED_AT_MAX || found.len() >= asked.limit || bytes >= TEXT_BYTES_MAX {
                    let next = Some(SubscriptionPlace {
                        client: client.as_bytes().to_vec(),
                        subscriptions: place,
                    });
                    return Piece { found, next, total };
                }
                looked_at += 1;
                let whose = entry.member_client().unwrap_or(client);
                let seen = terms_of(&entry.value).and_then(|terms| {
                    let client_id = Text::new(std::str::from_utf8(whose.as_bytes()).ok()?).ok()?;
                    Some(SubscriptionSeen {
                        client_id,
                        filter: terms.filter().clone(),
                        qos: terms.options().qos,
                    })
                });
                if let Some(seen) = seen.filter(|seen| has(seen.filter.filter.as_str(), &asked.search)) {
                    bytes += seen.client_id.len() + seen.filter.filter.as_str().len();
                    found.push(seen);
                }
            }
        }
        Piece {
            found,
            next: None,
            total,
        }
    }
}
