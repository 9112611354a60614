//! Clients that are members of a shared group, and what is promised of its messages (G1): each reaches a
//! member, and a second one only if the first has lost its connection, or is on another side.

use std::collections::{BTreeMap, BTreeSet};

use session_plane::{AssignedMessage, Dot, EntryId, EntryKind, GroupId, Slot, SlotSet};

use super::clients::Waiting;
use super::connections::{CONNECTING, Socket};
use super::givings::Given;
use super::machine::{Body, Value};
use super::moves::{Moved, is_queued};
use super::world::World;

/// First body of the group's messages.
const FIRST_SHARED: u32 = 1_000_000;
const TOPICS: [&[u8]; 2] = [b"plant/7/cmd", b"plant/8/cmd"];

/// The group of all histories.
pub(super) fn group() -> GroupId {
    GroupId::new(b"presses/plant/+/cmd").expect("a short name")
}

/// Slots of the group's parts.
pub(super) fn part_slots() -> SlotSet {
    group().slots()
}

/// Part to which a message goes. None where it is not for the group.
pub(super) fn part_of(Body(body): Body) -> Option<Slot> {
    let number = body.checked_sub(FIRST_SHARED)?;
    Some(group().slot(TOPICS[number as usize % TOPICS.len()]))
}

/// Message of the group.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) body: u32,
    /// Members of which one is to have it, once it is acknowledged.
    promised_to: BTreeSet<u8>,
    is_published: bool,
    /// A member has acknowledged it.
    is_taken: bool,
    /// The group, or the queue into which it has moved, had too many messages.
    pub(super) is_dropped: bool,
    /// Owners of its part that know that, where all that run have seen it.
    pub(super) known_at: Option<BTreeSet<u64>>,
    /// Connection that acknowledges it.
    acknowledged_by: Option<Socket>,
    /// Owners of its part ever since that connection has begun to.
    owners: BTreeSet<u64>,
    /// Connections that have it, and have not completed it.
    pub(super) given: BTreeMap<Socket, Given>,
    /// Entries of queues as which it has moved, if its QoS is 2.
    pub(super) moved: BTreeMap<Dot, Moved>,
}

/// Members of the group, and its messages.
#[derive(Debug, Default)]
pub(super) struct GroupClients {
    last: u32,
    /// Nodes that are to know each member.
    members: BTreeMap<u8, BTreeSet<u64>>,
    /// Nodes that were present when a client asked to be a member.
    joining: BTreeMap<Socket, BTreeSet<u64>>,
    pub(super) messages: BTreeMap<Dot, Shared>,
    /// When each message was first assigned to a presence.
    pub(super) assigned: BTreeMap<AssignedMessage, u64>,
    completed: usize,
}

impl World {
    /// Notes who owns the parts of messages while these are given, and while they are acknowledged.
    pub(super) fn note_owners_of_parts(&mut self) {
        self.note_owners_of_given();
        let messages = self.group_clients.messages.iter();
        let acknowledged = messages.filter_map(|(message, of)| Some((*message, of.acknowledged_by?)));
        for (message, socket) in acknowledged.collect::<Vec<_>>() {
            let owners = self.owners_of_part(socket.node, message);
            if let Some(of) = self.group_clients.messages.get_mut(&message) {
                of.owners = of.owners.intersection(&owners).copied().collect();
            }
        }
    }

    fn note_owners_of_given(&mut self) {
        let messages = self.group_clients.messages.iter();
        let given = messages.flat_map(|(message, of)| of.given.keys().map(|socket| (*message, *socket)));
        for (message, socket) in given.collect::<Vec<_>>() {
            let owners = self.owners_of_part(socket.node, message);
            let of = self.group_clients.messages.get_mut(&message);
            if let Some(given) = of.and_then(|of| of.given.get_mut(&socket)) {
                given.owners_since = given.owners_since.intersection(&owners).copied().collect();
            }
        }
    }

    pub(super) fn act_as_members(&mut self) {
        let now = self.now;
        let number = CONNECTING.start + u8::try_from(self.random.below(3)).expect("few");
        let id = 1 + self.random.below(self.nodes);
        let socket = self.live_socket(number);
        let socket = socket.filter(|socket| self.machines[&socket.node].is_up(now));
        match (self.random.below(30), socket) {
            (0 | 1, Some(socket)) => self.join_group(socket),
            (2, Some(socket)) => self.leave_group(socket, number),
            (3..=5, _) => self.publish_shared(id),
            _ => {}
        }
    }

    fn join_group(&mut self, socket: Socket) {
        let known_at = self.present_to(socket.node);
        self.group_clients.joining.insert(socket, known_at);
        self.with_sessions(socket.node, |sessions, at, actions| {
            sessions.join(at, socket.connection, group(), &Value::Plain(3), actions);
        });
    }

    fn leave_group(&mut self, socket: Socket, number: u8) {
        self.forget_member(number);
        self.group_clients.joining.remove(&socket);
        self.with_sessions(socket.node, |sessions, at, actions| {
            sessions.leave(at, socket.connection, group(), actions);
        });
    }

    /// SUBACK.
    pub(super) fn joined(&mut self, socket: Socket) {
        let known_at = self.group_clients.joining.remove(&socket);
        if let Some((known_at, number)) = known_at.zip(self.client_of(socket)) {
            let present = self.present_to(socket.node);
            let known_at = known_at.intersection(&present).copied().collect();
            self.group_clients.members.insert(number, known_at);
        }
    }

    /// A session has ended, or is a member no more: nothing is promised to it alone.
    pub(super) fn forget_member(&mut self, number: u8) {
        self.group_clients.members.remove(&number);
        let messages = self.group_clients.messages.values_mut();
        messages.for_each(|message| {
            message.promised_to.remove(&number);
        });
    }

    fn publish_shared(&mut self, id: u64) {
        if !self.machines[&id].is_up(self.now) {
            return;
        }
        self.group_clients.last += 1;
        let body = Body(FIRST_SHARED + self.group_clients.last);
        let members = self.group_clients.members.iter();
        let known = members.filter(|(number, known_at)| !self.may_expire(**number) && known_at.contains(&id));
        let promised_to: BTreeSet<u8> = known.map(|(number, _)| *number).collect();
        let mut made = None;
        self.with_sessions(id, |sessions, at, actions| {
            if sessions.plane().is_merged(Slot::ROUTES) {
                let recipients = sessions.plane().recipients(&body);
                made = sessions.publish(at, recipients, body, actions).ok();
            }
        });
        if let Some(dot) = made {
            let message = self.group_clients.messages.entry(dot).or_default();
            message.promised_to = promised_to;
            message.body = body.0;
            self.wait_for(dot, Waiting::PublishShared);
        }
    }

    /// PUBACK of a message for the group.
    pub(super) fn published_shared(&mut self, dot: Dot) {
        self.group_clients.messages.entry(dot).or_default().is_published = true;
    }

    /// A primary owner has dropped a message of the group.
    pub(super) fn dropped_shared(&mut self, message: Dot) {
        if let Some(of) = self.group_clients.messages.get_mut(&message) {
            of.is_dropped = true;
        }
    }

    pub(super) fn part_of_message(&self, message: Dot) -> Option<Slot> {
        let body = self.group_clients.messages.get(&message).map(|of| Body(of.body));
        body.and_then(part_of)
    }

    /// Owners of the part that has the message, by the ring of a node.
    pub(super) fn owners_of_part(&self, id: u64, message: Dot) -> BTreeSet<u64> {
        self.part_of_message(message)
            .map(|part| self.owners_of(part, id))
            .unwrap_or_default()
    }

    pub(super) fn is_live(&self, socket: Socket) -> bool {
        let sessions = self.machines[&socket.node].sessions.as_ref();
        sessions.is_some_and(|sessions| sessions.connections().is_live(socket.connection))
    }

    /// A client acknowledges a message: PUBACK, or PUBREC. One that has moved is not in the group any more.
    pub(super) fn acknowledged_shared(&mut self, socket: Socket, value: Value) {
        let Some(message) = self.shared_with(value) else {
            return;
        };
        let owners = self.owners_of_part(socket.node, message);
        if let Some(of) = self.group_clients.messages.get_mut(&message) {
            of.is_taken = true;
            if !is_queued(value) {
                of.owners = owners;
                of.acknowledged_by = Some(socket);
            }
        }
    }

    /// All nodes that the connection's node sees know an acknowledgement, or a move.
    pub(super) fn completed_shared(&mut self, socket: Socket, message: Dot) {
        let side = self.present_to(socket.node);
        let is_whole = self.is_whole_side(&side);
        self.group_clients.completed += 1;
        if let Some(of) = self.group_clients.messages.get_mut(&message) {
            // A side without an owner that knows it may give it once more.
            let given = of.given.remove(&socket);
            let moves = is_queued(Value::Message(Body(of.body)));
            let since = given.filter(|_| moves).map(|given| given.owners_since);
            let owners = since.unwrap_or_else(|| of.owners.clone());
            let owners = owners.intersection(&side).copied().collect();
            of.known_at = of.known_at.take().or(is_whole.then_some(owners));
            of.acknowledged_by = None;
        }
    }

    pub(super) fn drop_member(&mut self, socket: Socket) {
        self.group_clients.joining.remove(&socket);
    }

    pub(super) fn drop_members_of(&mut self, id: u64) {
        self.group_clients.joining.retain(|socket, _| socket.node != id);
        // The next process names its connections anew.
        for message in self.group_clients.messages.values_mut() {
            message.given.retain(|socket, _| socket.node != id);
        }
    }

    /// Each client is a member, and a message is published at each node.
    pub(super) fn join_all(&mut self) {
        for socket in CONNECTING
            .filter_map(|number| self.live_socket(number))
            .collect::<Vec<_>>()
        {
            self.join_group(socket);
        }
    }

    pub(super) fn publish_shared_everywhere(&mut self) {
        (1..=self.nodes).for_each(|id| self.publish_shared(id));
    }

    /// Each message is acknowledged by a member, or has ended with the session of one, and nothing is left of it.
    pub(super) fn check_group(&self) -> Result<(), String> {
        let mut messages = self.group_clients.messages.iter();
        let is_lost =
            |of: &Shared| of.is_published && !of.promised_to.is_empty() && !of.is_taken && !of.is_dropped;
        let is_lost = |message: Dot, of: &Shared| is_lost(of) && !self.has_ended_with_session(message);
        if let Some((message, of)) = messages.find(|(message, of)| is_lost(**message, of)) {
            return Err(format!("no member has {message:?}: {of:?}"));
        }
        if self.group_clients.completed == 0 {
            return Err("no message of the group has completed".to_owned());
        }
        Ok(())
    }

    /// Nothing waits that could be given, and nothing is left of what was acknowledged.
    pub(super) fn is_group_empty(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            let (source, sink) = (sessions.group_source(), sessions.group_sink());
            let (given, waiting) = (source.given() + sink.given(), source.waiting());
            if given + waiting > 0 {
                return Err(format!("{id}: of the group {given} are given, {waiting} wait"));
            }
            for slot in part_slots().iter() {
                let kinds = [EntryKind::Message, EntryKind::Assignment];
                let left = self.group_entries(*id, slot).into_iter();
                let mut left = left
                    .filter(|(entry, _)| kinds.contains(&entry.kind) && !self.is_race_of_group(*entry, slot));
                if let Some((entry, _)) = left.next() {
                    return Err(format!("{id} keeps {entry:?} of the group in {slot:?}"));
                }
            }
        }
        Ok(())
    }

    /// Owners may decide otherwise about a message that came while a member left. It is promised to nobody, and
    /// goes with the next merge, or is given by the owner that has it.
    fn is_race_of_group(&self, entry: EntryId, slot: Slot) -> bool {
        let of = self.group_clients.messages.get(&entry.dot);
        let is_promised = of.is_some_and(|of| !of.promised_to.is_empty());
        let lacks = |id: &u64| {
            let copy = self.machines[id].plane().and_then(|plane| plane.copy(slot));
            let is_covered = copy.is_some_and(|copy| copy.covered.covers(entry.dot));
            let mut entries = self.group_entries(*id, slot).into_iter();
            is_covered && !entries.any(|(id, _)| id == entry)
        };
        entry.kind == EntryKind::Message && !is_promised && (1..=self.nodes).any(|id| lacks(&id))
    }

    /// Parts are read, and those who are present are connected.
    pub(super) fn is_group_at_rest(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            if sessions.waiting_parts() > 0 {
                return Err(format!("{id}: {} parts wait", sessions.waiting_parts()));
            }
            self.is_slot_of_group_at_rest(*id, Slot::ROUTES)?;
            for slot in part_slots().iter() {
                self.is_slot_of_group_at_rest(*id, slot)?;
            }
        }
        Ok(())
    }

    fn is_slot_of_group_at_rest(&self, id: u64, slot: Slot) -> Result<(), String> {
        let of_kind = |kind: EntryKind| {
            let entries = self.group_entries(id, slot).into_iter();
            entries.filter(move |(entry, _)| entry.kind == kind)
        };
        for (entry, birth) in of_kind(EntryKind::Member) {
            let is_session = |number: u8| self.birth_at(id, number).contains(&birth);
            if !CONNECTING.clone().any(is_session) {
                return Err(format!(
                    "{id} keeps the member {entry:?} in {slot:?}, whose session has ended"
                ));
            }
        }
        let presences = of_kind(EntryKind::Presence).count();
        let attended: usize = self
            .machines
            .values()
            .filter_map(|machine| machine.sessions.as_ref())
            .map(|sessions| sessions.group_sink().attended())
            .sum();
        let has_copy = self.machines[&id]
            .plane()
            .is_some_and(|plane| plane.copy(slot).is_some());
        if slot != Slot::ROUTES && has_copy && presences != attended {
            return Err(format!(
                "{id} has {presences} presences in {slot:?} of {attended}"
            ));
        }
        Ok(())
    }

    /// Births of the sessions of a client that count in the routes of a node.
    pub(super) fn birth_at(&self, id: u64, number: u8) -> Vec<Dot> {
        let routes = self.machines[&id]
            .plane()
            .and_then(|plane| plane.copy(Slot::ROUTES));
        let client = super::clients::client(number);
        routes.map_or_else(Vec::new, |routes| {
            let live = routes
                .entries
                .live(routes.covered, client.as_bytes(), EntryKind::Session);
            live.map(|(_, entry)| entry.birth.dot).collect()
        })
    }

    pub(super) fn group_entries(&self, id: u64, slot: Slot) -> Vec<(EntryId, Dot)> {
        let copy = self.machines[&id].plane().and_then(|plane| plane.copy(slot));
        let key = group();
        let session = copy.and_then(|copy| copy.entries.session(key.key().as_bytes()));
        let entries = session.into_iter().flat_map(|session| session.iter());
        entries.map(|(id, entry)| (id, entry.birth.dot)).collect()
    }
}
