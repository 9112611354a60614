//! The clients whose sessions are at a node.

use cluster::NodeId;
use mqtt::connection::Connection;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::subscriptions::Subscription;
use protocol::Text;
use protocol::packet::{ProtocolVersion, QoS};
use protocol::topic::SubscriptionFilter;

use super::{LOOKED_AT_MAX, Piece, TEXT_BYTES_MAX, has};
use crate::node::Node;
use crate::sessions::SessionEntry;

/// Which clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientsAsked {
    /// What is to be in the client id.
    pub search: String,
    /// Whether they are to be connected, if that matters.
    pub is_connected: Option<bool>,
    /// Where the piece begins.
    pub from: u32,
    /// So many at most.
    pub limit: usize,
}

/// A client, as its node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// What it calls itself.
    pub client_id: Text,
    /// Whose its session is, if that was asked.
    pub principal: Option<Text>,
    /// Its connection, if it has one.
    pub connection: Option<ClientConnection>,
    /// The session ends so many seconds after the connection; `u32::MAX`: never.
    pub session_expiry: u32,
    /// How many subscriptions it has.
    pub subscriptions: usize,
    /// Messages that wait in its queue.
    pub queued_messages: usize,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// Messages that were sent and are not acknowledged.
    pub inflight: usize,
}

/// A client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientConnection {
    /// Which.
    pub id: ConnectionId,
    /// The other node that it is to, if the session is not at the same one.
    pub at: Option<NodeId>,
    /// What the client speaks.
    pub version: ProtocolVersion,
    /// Since when, Unix milliseconds.
    pub since: u64,
    /// In seconds; 0: there is none.
    pub keep_alive: u16,
}

/// One client with everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSeen {
    /// As in the list. `None`: its session is not at this node.
    pub session: Option<HeldSession>,
    /// The node with its session, if that is known; always so if there is no session here.
    pub held_by: Option<NodeId>,
    /// The connection to this node of a client whose session is elsewhere.
    pub near: Option<ClientConnection>,
}

/// A session that is at this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSession {
    /// As in the list.
    pub client: Client,
    /// Its subscriptions, in the order of their filters: the first ones, if there are very many.
    pub subscriptions: Vec<(SubscriptionFilter, Subscription)>,
    /// What is published when its connection ends without a goodbye.
    pub will: Option<WillSeen>,
    /// The other nodes with a copy of it that has everything.
    pub copies_at: Vec<NodeId>,
}

/// A will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WillSeen {
    /// Where to.
    pub topic: Text,
    /// How it is published.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// In seconds.
    pub delay: u32,
    /// Of its payload.
    pub bytes: usize,
}

/// Subscriptions of one client that are shown with it.
const SUBSCRIPTIONS_SHOWN_MAX: usize = 1_000;

impl Node {
    /// A piece of the list of clients.
    pub fn clients_seen(&self, asked: &ClientsAsked) -> Piece<Client, u32> {
        let (mut found, mut bytes, mut at) = (Vec::new(), 0, asked.from);
        let total = self.sessions.len();
        let until = asked.from.saturating_add(LOOKED_AT_MAX as u32);
        while at < self.sessions.places() && at < until && found.len() < asked.limit && bytes < TEXT_BYTES_MAX
        {
            let entry = self.sessions.get(SessionKey(at));
            at += 1;
            let Some(entry) = entry.filter(|entry| asked.is_for(entry)) else {
                continue;
            };
            bytes += entry.session.client_id.len();
            found.push(self.client(entry));
        }
        let next = (at < self.sessions.places()).then_some(at);
        Piece { found, next, total }
    }

    /// One client, if this node knows anything of it.
    pub fn client_seen(&self, client_id: &str) -> Option<ClientSeen> {
        let held_by = self.holder_of(client_id);
        let key = self.sessions.find(client_id);
        let session = key.and_then(|key| self.held_session(key));
        let near = if session.is_some() {
            None
        } else {
            self.near_connection_of(client_id)
                .and_then(|id| Some(self.client_connection(self.connections.get(id)?)))
        };
        (session.is_some() || held_by.is_some()).then_some(ClientSeen {
            session,
            held_by,
            near,
        })
    }

    fn held_session(&self, key: SessionKey) -> Option<HeldSession> {
        let entry = self.sessions.get(key)?;
        let will = entry.will.as_deref().or_else(|| self.wills.get(key));
        let filters = entry.session.filters.iter().take(SUBSCRIPTIONS_SHOWN_MAX);
        let mut bytes = 0;
        let subscriptions = filters.take_while(|(filter, _)| {
            let before = bytes;
            bytes += filter.filter.as_str().len();
            before < TEXT_BYTES_MAX
        });
        let copies = self.copies.as_ref();
        Some(HeldSession {
            client: self.client(entry),
            subscriptions: subscriptions
                .map(|(filter, how)| (filter.clone(), *how))
                .collect(),
            will: will.map(|will| WillSeen {
                topic: will.topic.text().clone(),
                qos: will.qos,
                retain: will.retain,
                delay: will.delay.unwrap_or(0),
                bytes: will.payload.len(),
            }),
            copies_at: copies.map_or_else(Vec::new, |copies| copies.places_of(entry.session.number)),
        })
    }

    fn client(&self, entry: &SessionEntry) -> Client {
        let principal = entry.owner.as_deref().and_then(|owner| owner.principal.as_ref());
        let connection = entry.connection.and_then(|id| self.connections.get(id));
        Client {
            client_id: entry.session.client_id.clone(),
            principal: principal.map(|principal| principal.name.clone()),
            connection: connection.map(|connection| self.client_connection(connection)),
            session_expiry: entry.expiry,
            subscriptions: entry.session.filters.len(),
            queued_messages: entry.session.queue_len(),
            queued_bytes: entry.session.queue_bytes(),
            inflight: entry.session.inflight_len(),
        }
    }

    fn client_connection(&self, connection: &Connection) -> ClientConnection {
        ClientConnection {
            id: connection.id,
            at: self.connected_to(connection.id),
            version: connection.version,
            since: connection.connected_at,
            keep_alive: connection.keep_alive,
        }
    }
}

impl ClientsAsked {
    fn is_for(&self, entry: &SessionEntry) -> bool {
        let is_connected = entry.connection.is_some();
        self.is_connected.is_none_or(|wanted| wanted == is_connected)
            && has(&entry.session.client_id, &self.search)
    }
}
