//! A client connects: its session is looked for at all nodes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cluster::NodeId;
use mqtt::authorization::Right;
use mqtt::connection::Stage;
use mqtt::ids::ConnectionId;
use mqtt::memory::Held;
use mqtt::now::Now;
use mqtt::principal::Principal;
use protocol::packet::Connect;
use protocol::{ReasonCode, Text};

use super::messages::{QuestionNumber, Take};
use super::{ClientMessage, Place};
use crate::node::{Action, Node};
use crate::waiting::Waiter;

/// How often a client is looked for because the node that had its session has lost it or was lost.
const TRIES_MAX: u8 = 3;

/// A client that is to be let in.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) connect: Box<Connect>,
    /// The last word of its authentication.
    pub(crate) proof: Option<Bytes>,
    pub(crate) tries: u8,
    /// Counts for its memory while it waits.
    pub(crate) held: Held,
}

/// A client whose session is looked for.
#[derive(Debug)]
pub(super) struct Seeking {
    pub(super) connection: ConnectionId,
    pub(super) sought: Sought,
    /// When that was begun, Unix milliseconds.
    at: u64,
    /// Who has not answered. `None`: nobody was asked yet.
    pending: Option<BTreeSet<NodeId>>,
    found: BTreeMap<NodeId, Place>,
}

/// What was found.
enum Verdict {
    Here,
    At(NodeId),
    /// Here, from a copy.
    Copy,
    /// At a node that is not reached, which others have not missed yet.
    Away,
    /// Another connection of the same client was made later.
    Late,
    NotYours,
}

impl Node {
    /// Whether other nodes have to be asked before a client is let in: unless it is connected here, and this node holds its session for certain.
    pub(crate) fn must_seek(&self, connect: &Connect) -> bool {
        let Some(peers) = self.peers.as_ref().filter(|_| self.clients.is_some()) else {
            return false;
        };
        // One without a name is given one that nobody has.
        if connect.client_id.is_empty() || peers.is_alone() {
            return false;
        }
        let key = self.sessions.find(&connect.client_id);
        let entry = key.and_then(|key| self.sessions.get(key));
        let is_connected = entry
            .and_then(|entry| entry.connection)
            .is_some_and(|id| !id.is_far());
        !(is_connected && self.is_running())
    }

    /// Looks for the session of a client that connects.
    pub(crate) fn seek(&mut self, now: Now, id: ConnectionId, sought: Sought, actions: &mut Vec<Action>) {
        let client_id = sought.connect.client_id.detached();
        if let Some(before) = self.seeking_of(&client_id) {
            self.refuse_late(before, actions);
        }
        if let Some(before) = self.near_connection_of(&client_id) {
            if !self.is_same_principal(before, id) {
                return self.deny_connect(id, client_id.clone(), Right::Session, &client_id, actions);
            }
            self.end_for_another(now, before, actions);
        }
        let Some(clients) = &mut self.clients else { return };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.stage = Stage::Seeking;
        let question = QuestionNumber(clients.next_number());
        let seeking = Seeking {
            connection: id,
            sought,
            at: now.wall,
            pending: None,
            found: BTreeMap::new(),
        };
        clients.insert(question, client_id, seeking);
        // A node that has just started does not know yet whom it reaches.
        let wait = self.peers.as_mut().and_then(|peers| peers.wait_to_know());
        let waiter = Self::after(wait, Waiter::Seek(question.0));
        self.release(now, waiter, actions);
    }

    /// Asks all members that are reached. A node that was removed may answer probes, and takes no question any more.
    pub(crate) fn ask_nodes(&mut self, now: Now, question: u64, actions: &mut Vec<Action>) {
        let question = QuestionNumber(question);
        let Some(take) = self.take_of(question) else {
            return;
        };
        let reached = self.peers.iter().flat_map(|peers| peers.reached());
        let reached: Vec<NodeId> = reached.filter(|node| self.is_member(*node)).collect();
        let take = ClientMessage::Take(question, take);
        let told = reached.into_iter().filter(|node| self.tell_clients(*node, &take));
        let told: BTreeSet<NodeId> = told.collect();
        let seeking = self
            .clients
            .as_mut()
            .and_then(|clients| clients.seeking.get_mut(&question));
        if let Some(seeking) = seeking {
            seeking.pending = Some(told);
        }
        self.decide_place(now, question, actions);
    }

    /// A node says what it has of a client.
    pub(super) fn take_place(
        &mut self,
        now: Now,
        from: NodeId,
        (question, place): (QuestionNumber, Place),
        actions: &mut Vec<Action>,
    ) {
        let seeking = self
            .clients
            .as_mut()
            .and_then(|clients| clients.seeking.get_mut(&question));
        let Some(seeking) = seeking else { return };
        let was_asked = seeking
            .pending
            .as_mut()
            .is_some_and(|pending| pending.remove(&from));
        if was_asked {
            seeking.found.insert(from, place);
            self.decide_place(now, question, actions);
        }
    }

    /// The cluster has a node, and has not removed it.
    fn is_member(&self, node: NodeId) -> bool {
        let control = self.control.as_ref();
        control.is_some_and(|control| control.control().nodes().contains_key(&node))
    }

    /// A node is reached now: it may have what is looked for.
    pub(super) fn seek_also_at(&mut self, node: NodeId) {
        if !self.is_member(node) {
            return;
        }
        for question in self.open_questions() {
            let Some(take) = self.take_of(question) else {
                continue;
            };
            let is_told = self.tell_clients(node, &ClientMessage::Take(question, take));
            let seeking = self
                .clients
                .as_mut()
                .and_then(|clients| clients.seeking.get_mut(&question));
            if let Some(pending) = seeking
                .and_then(|seeking| seeking.pending.as_mut())
                .filter(|_| is_told)
            {
                pending.insert(node);
            }
        }
    }

    /// A node is lost, was removed, or has started anew. Whoever has answered did not know that; another one may go on with the session by now, and all are asked again: behind
    /// what they are told of the loss.
    pub(crate) fn ask_again_without(&mut self, now: Now, node: NodeId, actions: &mut Vec<Action>) {
        for question in self.open_questions() {
            let clients = self.clients.as_mut();
            let Some(seeking) = clients.and_then(|clients| clients.seeking.get_mut(&question)) else {
                continue;
            };
            let pending = seeking.pending.as_mut();
            let concerns =
                seeking.found.contains_key(&node) || pending.is_some_and(|pending| pending.contains(&node));
            if concerns {
                self.ask_anew(now, question, actions);
            }
        }
    }

    /// Under another number: answers that are on their way do not count.
    fn ask_anew(&mut self, now: Now, question: QuestionNumber, actions: &mut Vec<Action>) {
        let Some(clients) = &mut self.clients else { return };
        let Some(mut seeking) = clients.remove(question) else {
            return;
        };
        seeking.found.clear();
        let question = QuestionNumber(clients.next_number());
        let client_id = seeking.sought.connect.client_id.clone();
        clients.insert(question, client_id, seeking);
        self.ask_nodes(now, question.0, actions);
    }

    /// A connection is gone while its client's session is looked for.
    pub(crate) fn stop_seeking(&mut self, id: ConnectionId) {
        let Some(clients) = &mut self.clients else { return };
        if let Some(question) = clients.by_connection.get(&id).copied() {
            clients.remove(question);
        }
    }

    /// Lets a client in when everybody has answered.
    fn decide_place(&mut self, now: Now, question: QuestionNumber, actions: &mut Vec<Action>) {
        let Some(clients) = &self.clients else { return };
        let seeking = clients.seeking.get(&question);
        let is_answered = seeking
            .and_then(|seeking| seeking.pending.as_ref())
            .is_some_and(BTreeSet::is_empty);
        let waits = seeking.is_none_or(|seeking| self.is_giving_way(&seeking.sought.connect.client_id));
        if !is_answered || waits {
            return;
        }
        let Some(seeking) = self.clients.as_mut().and_then(|clients| clients.remove(question)) else {
            return;
        };
        let (id, mut sought) = (seeking.connection, seeking.sought);
        let client_id = sought.connect.client_id.detached();
        match self.verdict(&client_id, &seeking.found) {
            Verdict::Here => self.let_in(now, id, sought, actions),
            Verdict::Copy => {
                self.stand_up_orphan(now, &client_id, actions);
                self.let_in(now, id, sought, actions);
            }
            Verdict::At(node) => {
                sought.tries += 1;
                self.open_tunnel(now, id, node, sought, actions);
            }
            Verdict::Away => {
                let why = "the session's node does not answer; connect again";
                self.refuse_client(id, Some(client_id), ReasonCode::ServerBusy, why, actions);
            }
            Verdict::Late => self.refuse_late(id, actions),
            Verdict::NotYours => {
                self.deny_connect(id, client_id.clone(), Right::Session, &client_id, actions);
            }
        }
    }

    /// Lets a client in that has waited for its session to give way, when everybody has answered.
    pub(crate) fn decide_place_of(&mut self, now: Now, client_id: &Text, actions: &mut Vec<Action>) {
        let clients = self.clients.as_ref();
        if let Some(question) = clients
            .and_then(|clients| clients.by_client.get(client_id))
            .copied()
        {
            self.decide_place(now, question, actions);
        }
    }

    fn verdict(&self, client_id: &Text, found: &BTreeMap<NodeId, Place>) -> Verdict {
        let first = |wanted: Place| {
            let mut of_kind = found.iter().filter(|(_, place)| **place == wanted);
            of_kind.next().map(|(node, _)| *node)
        };
        if first(Place::Later).is_some() {
            return Verdict::Late;
        }
        if first(Place::Denied).is_some() {
            return Verdict::NotYours;
        }
        let is_here = self.sessions.find(client_id).is_some();
        if is_here && self.is_running() {
            return Verdict::Here;
        }
        if let Some(node) = first(Place::Held { is_running: true }) {
            return Verdict::At(node);
        }
        if is_here {
            return Verdict::Here;
        }
        if let Some(node) = first(Place::Held { is_running: false }) {
            return Verdict::At(node);
        }
        // Its holder is lost, and the node that should have gone on with it has not.
        let home = self
            .states
            .as_ref()
            .and_then(|states| states.primary().home(client_id.as_bytes()));
        let is_orphan = |node: &NodeId| found.get(node) == Some(&Place::Orphan);
        if let Some(home) = home.filter(is_orphan) {
            return Verdict::At(home);
        }
        if self.has_orphan(client_id) {
            return Verdict::Copy;
        }
        if let Some(node) = first(Place::Orphan) {
            return Verdict::At(node);
        }
        // A copy of a session that has just ended may be there still: its holder has said so, unless it was not asked.
        let peers = self.peers.as_ref();
        let holder = self.holder_of_copy(client_id);
        let is_away = holder.is_some_and(|holder| !found.contains_key(&holder))
            || first(Place::Copy).is_some() && peers.is_some_and(|peers| !peers.reaches_all());
        if is_away { Verdict::Away } else { Verdict::Here }
    }

    /// The node that was to have the session does not, or is lost: it is looked for again.
    pub(crate) fn seek_again(
        &mut self,
        now: Now,
        id: ConnectionId,
        sought: Sought,
        actions: &mut Vec<Action>,
    ) {
        if sought.tries < TRIES_MAX {
            return self.seek(now, id, sought, actions);
        }
        let client_id = sought.connect.client_id.detached();
        let why = "the session goes from one node to another; connect again";
        self.refuse_client(id, Some(client_id), ReasonCode::ServerBusy, why, actions);
    }

    /// Another connection of the same client was made later.
    pub(super) fn refuse_late(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        let client_id = self.sought_client(id);
        let why = "another connection uses this client id";
        self.refuse_client(id, client_id, ReasonCode::ServerBusy, why, actions);
    }

    /// The connection of a client whose session is looked for, and since when.
    pub(super) fn seeking_of(&self, client_id: &str) -> Option<ConnectionId> {
        self.sought_since(client_id).map(|(id, _)| id)
    }

    /// The same, and since when: Unix milliseconds.
    pub(super) fn sought_since(&self, client_id: &str) -> Option<(ConnectionId, u64)> {
        let clients = self.clients.as_ref()?;
        let seeking = clients.seeking.get(clients.by_client.get(client_id)?)?;
        Some((seeking.connection, seeking.at))
    }

    /// The client id of a connection whose session is looked for.
    pub(crate) fn sought_client(&self, id: ConnectionId) -> Option<Text> {
        let clients = self.clients.as_ref()?;
        let seeking = clients.seeking.get(clients.by_connection.get(&id)?)?;
        Some(seeking.sought.connect.client_id.clone())
    }

    fn take_of(&self, question: QuestionNumber) -> Option<Take> {
        let seeking = self.clients.as_ref()?.seeking.get(&question)?;
        let connect = &seeking.sought.connect;
        Some(Take {
            at: seeking.at,
            clean_start: connect.clean_start,
            client_id: connect.client_id.clone(),
            principal: self
                .principal(seeking.connection)
                .map(Principal::without_attributes),
        })
    }

    /// Those that somebody was asked.
    fn open_questions(&self) -> Vec<QuestionNumber> {
        let all = self.clients.iter().flat_map(|clients| &clients.seeking);
        let asked = all.filter(|(_, seeking)| seeking.pending.is_some());
        asked.map(|(question, _)| *question).collect()
    }
}
