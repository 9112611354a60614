//! Reading: what the session plane knows of clients and of recipients.

use cluster::NodeId;
use mqtt::message::Message;
use protocol::TopicName;
use protocol::packet::QoS;
use session_plane::connecting::ConnectionId as ClaimId;
use session_plane::plane::CopyRef;
use session_plane::{ClientId, EntryId, EntryKind, Recipients, Run, Slot, SlotSet};
use session_values::Value;

use super::Replication;

impl Replication {
    /// This run of the node.
    pub(crate) fn run(&self) -> Run {
        self.run
    }

    /// Recipients of a message but for the connected sessions of this node.
    pub(crate) fn recipients(&self, topic: &TopicName, qos: QoS) -> Recipients {
        let mut recipients = self.plane().matching().recipients(topic, qos);
        recipients.nodes.remove(&self.run.node);
        recipients
    }

    /// Terms of the session that a client has, as far as this node knows.
    pub(crate) fn session_of(&self, client_id: &str) -> Option<&session_values::SessionTerms> {
        let routes = self.plane().copy(Slot::ROUTES)?;
        let kind = EntryKind::Session;
        let live = routes.entries.live(routes.covered, client_id.as_bytes(), kind);
        let (_, latest) = live.max_by_key(|(dot, entry)| (entry.clock, *dot))?;
        match &latest.value {
            Value::Session(terms) => Some(terms),
            _ => None,
        }
    }

    /// A client has a session, as far as this node knows.
    pub(crate) fn has_session(&self, client_id: &str) -> bool {
        self.session_of(client_id).is_some()
    }

    /// Clients that this node knows of.
    pub(crate) fn sessions_len(&self) -> usize {
        let routes = self.plane().copy(Slot::ROUTES);
        let clients = routes.map_or(0, |routes| routes.entries.clients_len());
        clients.saturating_sub(self.sessions.groups_len())
    }

    /// A message would wait for its receiver: it matches a session that outlives its connection and has none, by the
    /// copies of this node.
    pub(crate) fn would_wait(&self, message: &Message, slots: &SlotSet) -> bool {
        let found = slots
            .iter()
            .flat_map(|slot| self.plane().matching().sessions(&message.topic, slot));
        let mut found = found.collect::<Vec<_>>().into_iter();
        found.any(|client| {
            let copy = self.plane().copy(Slot::of_client(client.as_bytes()));
            let session = copy.and_then(|copy| copy.entries.session(client.as_bytes()));
            session.is_some_and(|session| session.of_kind(EntryKind::Connection).next().is_none())
        })
    }

    /// Messages are on their way to the client of a connection under packet ids.
    pub(crate) fn has_in_flight(&self, claim: ClaimId) -> bool {
        self.sessions.delivering().in_flight_of(claim) > 0
    }

    /// Packet ids of messages to clients.
    pub(crate) fn in_flight(&self) -> usize {
        self.sessions.delivering().in_flight()
    }

    /// Memory of filters, in bytes.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.plane().matching().bytes() + self.wanted.bytes()
    }

    /// Slots that this node owns, and of which its copy has not merged with all present holders.
    pub(crate) fn unmerged_slots(&self) -> u64 {
        self.plane().unmerged_slots() as u64
    }

    /// Copy of the routes.
    pub(crate) fn routes(&self) -> Option<CopyRef<'_, Value>> {
        self.plane().copy(Slot::ROUTES)
    }

    /// Copy of the slot of a client, if this node has one.
    pub(crate) fn copy_of(&self, client: &ClientId) -> Option<CopyRef<'_, Value>> {
        self.plane().copy(Slot::of_client(client.as_bytes()))
    }

    /// Owners of the slot of a client, the primary one first.
    pub(crate) fn owners_of(&self, client: &ClientId) -> Vec<NodeId> {
        self.plane().owners(Slot::of_client(client.as_bytes())).collect()
    }

    /// Node that a client is connected to, by this node's copy.
    pub(crate) fn connected_at(&self, client: &ClientId) -> Option<NodeId> {
        let copy = self.copy_of(client)?;
        let session = copy.entries.session(client.as_bytes())?;
        let latest = session
            .of_kind(EntryKind::Connection)
            .max_by_key(|(dot, entry)| (entry.clock, *dot));
        latest.map(|(dot, _)| dot.run.node)
    }

    /// Entries of a session in this node's copy, in ascending order. None where it stores no session of the client.
    pub(crate) fn stored_session(&self, client_id: &str) -> Option<Vec<EntryId>> {
        let copy = self.copy_of(&ClientId::new(client_id.as_bytes()).ok()?)?;
        let session = copy.entries.session(client_id.as_bytes())?;
        session.of_kind(EntryKind::Session).next()?;
        let mut ids: Vec<EntryId> = session.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        Some(ids)
    }

    /// Queue of a client, by this node's copy.
    pub(crate) fn queue_of(&self, client: &ClientId) -> QueueSeen {
        let mut seen = QueueSeen::default();
        let Some(copy) = self.copy_of(client) else {
            return seen;
        };
        let Some(session) = copy.entries.session(client.as_bytes()) else {
            return seen;
        };
        for (_, entry) in session.of_kind(EntryKind::Message) {
            if let Value::Message(queued) = &entry.value {
                seen.messages += 1;
                seen.bytes += queued.content().queue_bytes();
            }
        }
        seen.in_flight = session.of_kind(EntryKind::Delivery).count();
        seen
    }
}

/// Queue of a client.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueSeen {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
    /// Messages that have a packet id.
    pub(crate) in_flight: usize,
}
