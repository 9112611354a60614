//! Clients of the cluster, as a node knows them.

use std::ops::Bound;

use cluster::NodeId;
use mqtt::connection::Connection;
use mqtt::ids::ConnectionId;
use mqtt::subscriptions::Subscription;
use protocol::Text;
use protocol::packet::{ProtocolVersion, QoS};
use protocol::topic::SubscriptionFilter;
use session_plane::plane::CopyRef;
use session_plane::{ClientId, EntryId, EntryKind, GroupId, SessionEntries};
use session_values::{SessionTerms, SubscriptionTerms, Value};

use super::{LOOKED_AT_MAX, Piece, TEXT_BYTES_MAX, has};
use crate::node::Node;
use crate::sessions::SessionEntry;
use crate::subscription_entries::terms_of;

/// Which clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientsAsked {
    /// Text that is to be in the client id.
    pub search: String,
    /// Whether they are to be connected, if that matters.
    pub is_connected: Option<bool>,
    /// Client id behind which the piece begins. Empty: at the beginning.
    pub after: String,
    /// So many at most.
    pub limit: usize,
}

/// Client, as a node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Client id.
    pub client_id: Text,
    /// Whose its session is, if that was asked.
    pub principal: Option<Text>,
    /// Its connection to this node, if it has one.
    pub connection: Option<ClientConnection>,
    /// Node that it is connected to, as far as that is known.
    pub connected_to: Option<NodeId>,
    /// The session ends so many seconds after the connection; `u32::MAX`: never.
    pub session_expiry: u32,
    /// Number of its subscriptions. In a list those of shared groups count where the client is connected to this node.
    pub subscriptions: usize,
    /// Messages in its queue, as far as this node has a copy of it.
    pub queued_messages: usize,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// Messages that were sent and are not acknowledged.
    pub inflight: usize,
}

/// Connection of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientConnection {
    /// Which.
    pub id: ConnectionId,
    /// Version of MQTT that the client speaks.
    pub version: ProtocolVersion,
    /// Since when, Unix milliseconds.
    pub since: u64,
    /// Keep Alive in seconds; 0: there is none.
    pub keep_alive: u16,
}

/// One client with everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSeen {
    /// As in the list.
    pub client: Client,
    /// Its subscriptions, in the order of their filters: the first ones, if there are very many.
    pub subscriptions: Vec<SubscriptionOfClient>,
    /// Message that is published when its connection ends without a goodbye.
    pub will: Option<WillSeen>,
    /// Owners of its session, the primary one first.
    pub owners: Vec<NodeId>,
}

/// Subscription of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionOfClient {
    /// Filter.
    pub filter: SubscriptionFilter,
    /// Options and identifier.
    pub subscription: Subscription,
}

/// Will of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WillSeen {
    /// Topic.
    pub topic: Text,
    /// QoS.
    pub qos: QoS,
    /// RETAIN.
    pub retain: bool,
    /// Will Delay Interval in seconds.
    pub delay: u32,
    /// Bytes of its payload.
    pub bytes: usize,
}

/// Subscriptions of one client that are shown with it.
const SUBSCRIPTIONS_SHOWN_MAX: usize = 1_000;

/// Session that counts, of one client.
struct Counting<'a> {
    client: &'a ClientId,
    entries: &'a SessionEntries<Value>,
    terms: &'a SessionTerms,
}

impl Node {
    /// A piece of the list of clients.
    pub fn clients_seen(&self, asked: &ClientsAsked) -> Piece<Client, String> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let total = self.replication.sessions_len();
        let Some(routes) = self.replication.routes() else {
            return Piece {
                found,
                next: None,
                total,
            };
        };
        let after = ClientId::new(asked.after.as_bytes()).ok();
        let after = after.filter(|after| !after.as_bytes().is_empty());
        let clients = routes
            .entries
            .sessions_from(after.as_ref().map_or(Bound::Unbounded, Bound::Excluded));
        for (looked_at, (client, entries)) in clients.enumerate() {
            if GroupId::of_key(client).is_some() {
                break;
            }
            if looked_at >= LOOKED_AT_MAX || found.len() >= asked.limit || bytes >= TEXT_BYTES_MAX {
                let next = Some(last_before(&routes, client));
                return Piece { found, next, total };
            }
            let Some(counting) = Counting::of(&routes, client, entries) else {
                continue;
            };
            let Some(seen) = self.client(&counting).filter(|seen| asked.is_for(seen)) else {
                continue;
            };
            bytes += seen.client_id.len();
            found.push(seen);
        }
        Piece {
            found,
            next: None,
            total,
        }
    }

    /// Entries that this node stores of a session, in ascending order: owners at rest store the same. None where
    /// it stores no session of the client.
    pub fn stored_session(&self, client_id: &str) -> Option<Vec<EntryId>> {
        self.replication.stored_session(client_id)
    }

    /// One client, if it has a session.
    pub fn client_seen(&self, client_id: &str) -> Option<ClientSeen> {
        let client = ClientId::new(client_id.as_bytes()).ok()?;
        let routes = self.replication.routes()?;
        let entries = routes.entries.session(client.as_bytes())?;
        let counting = Counting::of(&routes, &client, entries)?;
        let (subscriptions, count) = self.subscriptions_of_client(&counting);
        Some(ClientSeen {
            client: Client {
                subscriptions: count,
                ..self.client(&counting)?
            },
            subscriptions,
            will: self.will_seen(&client),
            owners: self.replication.owners_of(&client),
        })
    }

    /// First subscriptions of a client, in the order of their filters, and the number of all.
    fn subscriptions_of_client(&self, counting: &Counting<'_>) -> (Vec<SubscriptionOfClient>, usize) {
        let mut found: Vec<_> = match self.own_session(counting.client) {
            Some(entry) => entry.filters.iter().map(subscription_of_session).collect(),
            None => {
                let shared = self.shared_subscriptions_of(counting.client);
                counting.subscriptions().chain(shared).collect()
            }
        };
        found.sort_by(|one, other| one.filter.cmp(&other.filter));
        let (count, mut bytes) = (found.len(), 0);
        found.truncate(SUBSCRIPTIONS_SHOWN_MAX);
        found.retain(|seen| {
            let before = bytes;
            bytes += seen.filter.filter.as_str().len();
            before < TEXT_BYTES_MAX
        });
        (found, count)
    }

    /// Subscriptions of a client as a member of shared groups: a pass over all members.
    fn shared_subscriptions_of(&self, client: &ClientId) -> Vec<SubscriptionOfClient> {
        let (Some(routes), Ok(first)) = (self.replication.routes(), GroupId::new(&[])) else {
            return Vec::new();
        };
        let groups = routes.entries.sessions_from(Bound::Included(first.key()));
        let members = groups.flat_map(|(_, entries)| entries.of_kind(EntryKind::Member));
        let own = members.filter(|(_, entry)| entry.member_client() == Some(client));
        own.filter_map(|(_, entry)| terms_of(&entry.value))
            .map(subscription_of)
            .collect()
    }

    /// Session of a client that is connected to this node.
    fn own_session(&self, client: &ClientId) -> Option<&SessionEntry> {
        let client_id = std::str::from_utf8(client.as_bytes()).ok()?;
        self.sessions.get(self.sessions.find(client_id)?)
    }

    fn client(&self, counting: &Counting<'_>) -> Option<Client> {
        let client_id = Text::new(std::str::from_utf8(counting.client.as_bytes()).ok()?).ok()?;
        let principal = counting.terms.owner().and_then(|owner| owner.principal.as_ref());
        let entry = self.own_session(counting.client);
        let connection = entry.and_then(|entry| self.connections.get(entry.connection));
        let queue = self.replication.queue_of(counting.client);
        let at = self.replication.connected_at(counting.client);
        Some(Client {
            principal: principal.map(|principal| principal.name.clone()),
            connection: connection.map(client_connection),
            connected_to: connection.map(|_| self.replication.run().node).or(at),
            session_expiry: counting.terms.expiry(),
            subscriptions: entry
                .map_or_else(|| counting.subscriptions().count(), |entry| entry.filters.len()),
            queued_messages: queue.messages,
            queued_bytes: queue.bytes,
            inflight: queue.in_flight,
            client_id,
        })
    }

    fn will_seen(&self, client: &ClientId) -> Option<WillSeen> {
        let copy = self.replication.copy_of(client)?;
        let session = copy.entries.session(client.as_bytes())?;
        let (_, entry) = session.of_kind(EntryKind::Will).next()?;
        let Value::Will(will) = &entry.value else {
            return None;
        };
        let content = will.content();
        Some(WillSeen {
            topic: content.topic().text().clone(),
            qos: content.qos(),
            retain: content.retain(),
            delay: u32::try_from(will.delay().as_secs()).unwrap_or(u32::MAX),
            bytes: content.payload().len(),
        })
    }
}

impl<'a> Counting<'a> {
    fn of(
        routes: &CopyRef<'_, Value>,
        client: &'a ClientId,
        entries: &'a SessionEntries<Value>,
    ) -> Option<Counting<'a>> {
        let live = routes
            .entries
            .live(routes.covered, client.as_bytes(), EntryKind::Session);
        let latest = live
            .max_by_key(|(dot, entry)| (entry.clock, *dot))
            .map(|(dot, _)| dot)?;
        let mut sessions = entries.of_kind(EntryKind::Session);
        let (_, entry) = sessions.find(|(dot, _)| *dot == latest)?;
        let Value::Session(terms) = &entry.value else {
            return None;
        };
        Some(Counting {
            client,
            entries,
            terms,
        })
    }

    fn subscriptions(&self) -> impl Iterator<Item = SubscriptionOfClient> + 'a {
        let entries = self.entries.of_kind(EntryKind::Subscription);
        let terms = entries.filter_map(|(_, entry)| terms_of(&entry.value));
        terms.map(subscription_of)
    }
}

fn subscription_of(terms: &SubscriptionTerms) -> SubscriptionOfClient {
    SubscriptionOfClient {
        filter: terms.filter().clone(),
        subscription: Subscription {
            options: terms.options(),
            id: terms.id(),
        },
    }
}

fn subscription_of_session(
    (filter, subscription): (&SubscriptionFilter, &Subscription),
) -> SubscriptionOfClient {
    SubscriptionOfClient {
        filter: filter.clone(),
        subscription: *subscription,
    }
}

/// Client id behind which a piece begins that has `client` first.
fn last_before(routes: &CopyRef<'_, Value>, client: &ClientId) -> String {
    let before = routes.entries.session_before(client);
    before.map_or_else(String::new, |before| {
        String::from_utf8_lossy(before.as_bytes()).into_owned()
    })
}

fn client_connection(connection: &Connection) -> ClientConnection {
    ClientConnection {
        id: connection.id,
        version: connection.version,
        since: connection.connected_at,
        keep_alive: connection.keep_alive,
    }
}

impl ClientsAsked {
    fn is_for(&self, client: &Client) -> bool {
        let is_connected = client.connected_to.is_some();
        self.is_connected.is_none_or(|wanted| wanted == is_connected) && has(&client.client_id, &self.search)
    }
}
