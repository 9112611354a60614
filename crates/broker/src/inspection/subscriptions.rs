//! Subscriptions of the cluster, by session.

use std::ops::Bound;

use protocol::Text;
use protocol::packet::QoS;
use protocol::topic::SubscriptionFilter;
use session_plane::{ClientId, Entry, EntryKind, SessionEntries};
use session_values::Value;

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

/// Part of the list that is put together.
#[derive(Debug, Default)]
struct Page {
    found: Vec<SubscriptionSeen>,
    bytes: usize,
    looked_at: usize,
}

impl Page {
    fn is_full(&self, limit: usize) -> bool {
        self.looked_at >= LOOKED_AT_MAX || self.found.len() >= limit || self.bytes >= TEXT_BYTES_MAX
    }

    /// Looks at the subscriptions of a session, or of a group, from the place. Gives the place where it ends, if
    /// there is more.
    fn look_at(
        &mut self,
        asked: &SubscriptionsAsked,
        (client, entries): (&ClientId, &SessionEntries<Value>),
    ) -> Option<SubscriptionPlace> {
        let skipped = match client.as_bytes() == asked.after.client {
            true => asked.after.subscriptions,
            false => 0,
        };
        let kinds = [EntryKind::Subscription, EntryKind::Member].into_iter();
        let subscriptions = kinds.flat_map(|kind| entries.of_kind(kind));
        let mut subscriptions = subscriptions.enumerate().skip(skipped);
        let mut place = skipped;
        while !self.is_full(asked.limit) {
            self.looked_at += 1;
            let (at, (_, entry)) = subscriptions.next()?;
            place = at + 1;
            let seen = seen(client, entry);
            if let Some(seen) = seen.filter(|seen| has(seen.filter.filter.as_str(), &asked.search)) {
                self.bytes += seen.client_id.len() + seen.filter.filter.as_str().len();
                self.found.push(seen);
            }
        }
        Some(SubscriptionPlace {
            client: client.as_bytes().to_vec(),
            subscriptions: place,
        })
    }
}

fn seen(client: &ClientId, entry: &Entry<Value>) -> Option<SubscriptionSeen> {
    let terms = terms_of(&entry.value)?;
    let whose = entry.member_client().unwrap_or(client);
    Some(SubscriptionSeen {
        client_id: Text::new(std::str::from_utf8(whose.as_bytes()).ok()?).ok()?,
        filter: terms.filter().clone(),
        qos: terms.options().qos,
    })
}

impl Node {
    /// A piece of the list of subscriptions: those of sessions that outlive their connections, and of members of
    /// shared groups.
    pub fn subscriptions_seen(
        &self,
        asked: &SubscriptionsAsked,
    ) -> Piece<SubscriptionSeen, SubscriptionPlace> {
        let total = self.subscriptions.len() + self.shares.subscriptions();
        let from = ClientId::new(&asked.after.client).ok();
        let from = from.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let routes = self.replication.routes().into_iter();
        let mut sessions = routes.flat_map(|routes| routes.entries.sessions_from(from));
        let mut page = Page::default();
        let next = sessions.find_map(|session| page.look_at(asked, session));
        Piece {
            found: page.found,
            next,
            total,
        }
    }
}
