//! Which node has a client, in a cluster: a client may connect anywhere, has one connection, and finds its session.
//!
//! Nothing is announced in advance. A node where a client connects asks all that it reaches (`seeking.rs`); each ends the connection that it has for this
//! client, and says what it has of it (`answering.rs`). If another node holds the session, the client's packets go there and back (`tunnels.rs`);
//! if none does, it begins here. Of two nodes that ask at once the later one has the client.
//!
//! *Invariant*: of nodes that reach each other, one has a connection of a client.

mod answering;
mod messages;
mod seeking;

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::NodeId;
use cluster::session_plane::lifecycle::NodeState;
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use protocol::{ReasonCode, Text};

pub(crate) use self::messages::{ClientMessage, Opening, Place, TunnelMessage, TunnelNumber};
pub(crate) use self::messages::{QuestionNumber, Take};
use self::messages::{put, read};
use self::seeking::Seeking;
pub(crate) use self::seeking::Sought;
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::routes::{LinkChange, Subject};
use crate::tunnels::Tunnels;

/// Bytes of names that are told in one piece.
const NAMES_BYTES: usize = 64 << 10;

/// What a node knows of clients that are not its own alone.
#[derive(Debug)]
pub(crate) struct Clients {
    /// The latest question or tunnel of this node.
    latest: u64,
    /// Clients whose session is looked for.
    seeking: BTreeMap<QuestionNumber, Seeking>,
    by_connection: BTreeMap<ConnectionId, QuestionNumber>,
    by_client: BTreeMap<Text, QuestionNumber>,
    /// Answers for nodes that ask and are not reached yet.
    owed: BTreeMap<NodeId, Vec<(QuestionNumber, Place)>>,
    /// Those whose session another node holds, and the other way around.
    pub(crate) tunnels: Tunnels,
}

impl Clients {
    /// `incarnation` makes the numbers of this run different from those of all runs before.
    pub(crate) fn new(incarnation: u32) -> Self {
        Self {
            latest: u64::from(incarnation) << 32,
            seeking: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            by_client: BTreeMap::new(),
            owed: BTreeMap::new(),
            tunnels: Tunnels::default(),
        }
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    fn insert(&mut self, question: QuestionNumber, client_id: Text, seeking: Seeking) {
        self.by_connection.insert(seeking.connection, question);
        self.by_client.insert(client_id, question);
        self.seeking.insert(question, seeking);
    }

    fn remove(&mut self, question: QuestionNumber) -> Option<Seeking> {
        let seeking = self.seeking.remove(&question)?;
        self.by_connection.remove(&seeking.connection);
        self.by_client.remove(&seeking.sought.connect.client_id);
        Some(seeking)
    }
}

impl Node {
    /// A node says something about clients.
    pub(crate) fn take_about_clients(
        &mut self,
        now: Now,
        from: NodeId,
        body: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let message = match read(body) {
            Ok(message) => message,
            Err(error) => return drop_message(from, error, actions),
        };
        match message {
            ClientMessage::Take(question, take) => self.give_client(now, (from, question), take, actions),
            ClientMessage::Answer(question, place) => self.take_place(now, from, (question, place), actions),
            ClientMessage::Names(names) => self.take_names(now, names, actions),
            ClientMessage::Open(tunnel, opening) => self.open_far(now, (from, tunnel), *opening, actions),
            ClientMessage::Begin => self.end_tunnels_of(now, from, actions),
            ClientMessage::OfTunnel(tunnel, said) => {
                self.take_from_tunnel(now, (from, tunnel), said, actions);
            }
        }
    }

    /// Tells a node something about clients. False if it is not reached.
    pub(crate) fn tell_clients(&mut self, to: NodeId, message: &ClientMessage) -> bool {
        let told = (Subject::Clients, put(message));
        self.peers
            .as_mut()
            .is_some_and(|peers| peers.tell(to, told, None))
    }

    /// A node is reached, has started anew, or is lost.
    pub(crate) fn note_link_of_clients(
        &mut self,
        now: Now,
        (node, change): (NodeId, LinkChange),
        actions: &mut Vec<Action>,
    ) {
        match change {
            LinkChange::Reached => {
                // That it was not reached may be known on this side alone.
                self.tell_clients(node, &ClientMessage::Begin);
                self.give_answers(node);
                self.name_clients(node);
                self.seek_also_at(node);
            }
            LinkChange::Started => {
                self.forget_answers(node);
                self.end_tunnels_of(now, node, actions);
                self.ask_again_without(now, node, actions);
            }
            // What it was about to answer is gone.
            LinkChange::Asked => self.seek_also_at(node),
            LinkChange::Lost => {
                self.end_tunnels_of(now, node, actions);
                self.ask_again_without(now, node, actions);
            }
            LinkChange::Answers | LinkChange::Silent => {}
        }
    }

    /// Whether this node is responsible for what it has.
    pub(crate) fn is_running(&self) -> bool {
        let states = self.states.as_ref();
        states.is_some_and(|states| states.own_state() == NodeState::Running)
    }

    /// Tells a node that was not reached which clients are connected here. One of two that have the same ends its connection: the higher one, which is told.
    fn name_clients(&mut self, to: NodeId) {
        let Some(own) = self.peers.as_ref().map(|peers| peers.node()) else {
            return;
        };
        if own > to {
            return;
        }
        let (mut names, mut bytes) = (Vec::new(), 0);
        for id in self.connections.ids() {
            let Some(name) = self.client_of(id).filter(|_| !id.is_far()) else {
                continue;
            };
            bytes += name.len();
            names.push(name);
            if bytes > NAMES_BYTES {
                bytes = 0;
                self.tell_clients(to, &ClientMessage::Names(std::mem::take(&mut names)));
            }
        }
        if !names.is_empty() {
            self.tell_clients(to, &ClientMessage::Names(names));
        }
    }

    /// These clients are connected to a node that was not reached when they did, or when they connected here.
    fn take_names(&mut self, now: Now, names: Vec<Text>, actions: &mut Vec<Action>) {
        for name in names {
            if let Some(id) = self.near_connection_of(&name) {
                let why = "the client is connected to another node as well";
                self.disconnect(now, id, ReasonCode::SessionTakenOver, why, actions);
            }
        }
    }

    /// The client that has been let in on a connection.
    pub(crate) fn client_of(&self, id: ConnectionId) -> Option<Text> {
        let key = self.connections.get(id)?.session();
        match key.and_then(|key| self.sessions.get(key)) {
            Some(entry) => Some(entry.session.client_id.clone()),
            None => self.clients.as_ref()?.tunnels.client_of(id),
        }
    }

    /// The connection of a client to this node, also if its session is elsewhere.
    pub(crate) fn near_connection_of(&self, client_id: &str) -> Option<ConnectionId> {
        let key = self.sessions.find(client_id);
        let entry = key.and_then(|key| self.sessions.get(key));
        let own = entry.and_then(|entry| entry.connection).filter(|id| !id.is_far());
        own.or_else(|| self.clients.as_ref()?.tunnels.near_connection_of(client_id))
    }
}
