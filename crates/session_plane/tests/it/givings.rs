//! Givings of a group's messages, and what is promised of them (G1): a second connection gets a message only if
//! the first has ended, or if sides of a split have assigned it to both.

use std::collections::BTreeSet;

use session_plane::{AssignedMessage, Dot, Fact};

use super::connections::Socket;
use super::group_clients::{group, part_slots};
use super::machine::TestSessions;
use super::world::World;

/// What a connection was given.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) at: u64,
    /// When the message was first assigned to it, by whichever side.
    pub(super) assigned_at: u64,
    /// All nodes that ran had seen each other for some time: each of them knows of it.
    pub(super) is_known_to_all: bool,
    /// Owners of the part then.
    pub(super) owners: BTreeSet<u64>,
    /// Those of them that have been owners ever since.
    pub(super) owners_since: BTreeSet<u64>,
    /// Nodes that have assigned the message to the connection, as any copy has it.
    pub(super) givers: BTreeSet<u64>,
}

/// Connection, with what it was given.
#[derive(Debug, Clone)]
pub(super) struct GivenTo {
    pub(super) socket: Socket,
    pub(super) given: Given,
}

impl GivenTo {
    fn of((socket, given): (&Socket, &Given)) -> GivenTo {
        GivenTo {
            socket: *socket,
            given: given.clone(),
        }
    }
}

impl World {
    /// Notes what is assigned to whom, as any copy has it.
    pub(super) fn note_assignments(&mut self) {
        let key = group();
        for slot in part_slots().iter() {
            let planes = self.machines.values().filter_map(|machine| machine.plane());
            for copy in planes.filter_map(|plane| plane.copy(slot)) {
                let part = copy.entries.session(key.key().as_bytes()).into_iter();
                for (_, entry) in part.flat_map(|part| part.iter()) {
                    if let Fact::Assignment(assigned) = &entry.fact {
                        self.group_clients.assigned.entry(**assigned).or_insert(self.now);
                    }
                }
            }
        }
    }

    /// Notes what connections were given, and of what all nodes know that it is acknowledged.
    pub(super) fn note_given(&mut self) {
        let messages: Vec<Dot> = self.group_clients.messages.keys().copied().collect();
        let sockets: Vec<Socket> = self.sockets.keys().copied().collect();
        for socket in sockets {
            if !self.is_live(socket) {
                continue;
            }
            for message in &messages {
                let had = self.group_clients.messages[message].given.contains_key(&socket);
                match (had, self.given_under(socket, *message)) {
                    (false, Some(presence)) => self.given_shared(socket, *message, presence),
                    (true, None) => self.completed_shared(socket, *message),
                    _ => {}
                }
            }
        }
    }

    fn given_under(&self, socket: Socket, message: Dot) -> Option<Dot> {
        let sessions = self.machines[&socket.node].sessions.as_ref();
        let sink = sessions.map(TestSessions::group_sink)?;
        sink.given_under(socket.connection, &group(), message)
    }

    /// A connection is given a message.
    fn given_shared(&mut self, socket: Socket, message: Dot, presence: Dot) {
        let side = self.present_to(socket.node);
        let assigned = AssignedMessage { message, presence };
        let given = Given {
            at: self.now,
            assigned_at: self
                .group_clients
                .assigned
                .get(&assigned)
                .copied()
                .unwrap_or(self.now),
            is_known_to_all: self.are_together_between(self.now, self.now),
            owners: self.owners_of_part(socket.node, message),
            owners_since: self.owners_of_part(socket.node, message),
            givers: self.givers_of(assigned),
        };
        let of = self.group_clients.messages.entry(message).or_default();
        let known_at = of.known_at.as_ref();
        let has_owner = known_at.is_some_and(|known_at| !known_at.is_disjoint(&side));
        let others: Vec<GivenTo> = of.given.iter().map(GivenTo::of).collect();
        let is_new = of.given.insert(socket, given.clone()).is_none();
        let is_closed = side.iter().all(|id| self.present_to(*id) == side);
        let is_known = has_owner && is_closed;
        if !is_new {
            self.fail(format!("{socket:?} is given {message:?} twice"));
        }
        if is_known {
            self.fail(format!("{socket:?} is given {message:?}, which is acknowledged"));
        }
        let one = GivenTo { socket, given };
        if let Some(other) = others.iter().find(|other| self.is_given_twice(&one, other)) {
            self.fail(format!(
                "{socket:?} is given {message:?}, which {:?} has since {}",
                other.socket, other.given.at
            ));
        }
    }

    /// Nodes that have assigned a message to a presence.
    fn givers_of(&self, assigned: AssignedMessage) -> BTreeSet<u64> {
        let key = group();
        let mut givers = BTreeSet::new();
        let part = self.part_of_message(assigned.message);
        let planes = self.machines.values().filter_map(|machine| machine.plane());
        for copy in planes.filter_map(|plane| plane.copy(part?)) {
            let entries = copy.entries.session(key.key().as_bytes()).into_iter();
            let entries = entries.flat_map(|entries| entries.iter());
            let of_presence = entries
                .filter(|(_, entry)| matches!(&entry.fact, Fact::Assignment(known) if **known == assigned));
            givers.extend(of_presence.map(|(id, _)| id.dot.run.node.0));
        }
        givers
    }

    /// Both connections are open, and whoever gives the message to one of them knows of the other.
    fn is_given_twice(&self, one: &GivenTo, other: &GivenTo) -> bool {
        let is_open = self.sockets.contains_key(&other.socket) && self.is_live(other.socket);
        let are_together = self.are_assigned_together(&one.given, &other.given);
        let is_known = are_together && self.has_owner_stayed(one, other);
        is_open && (is_known || self.has_giver_stayed(one, other))
    }

    /// An owner has what the other connection was given, and has not stopped since. A node that comes back is
    /// no owner until it has merged: the only one that is may stop with what it knows.
    fn has_owner_stayed(&self, one: &GivenTo, other: &GivenTo) -> bool {
        let before = &other.given;
        let mut owners = before.owners.iter();
        owners.any(|owner| {
            let is_running = self.machines[owner].sessions.is_some();
            let nodes = BTreeSet::from([*owner, one.socket.node]);
            is_running && self.have_stayed_since(&nodes, before.at)
        })
    }

    /// Whoever has assigned the message to the second connection knew that it is assigned to the first one: no
    /// split was between. What sides have assigned apart both connections may have.
    pub(super) fn are_assigned_together(&self, one: &Given, other: &Given) -> bool {
        let first = one.assigned_at.min(other.assigned_at);
        self.are_together_between(first, one.assigned_at.max(other.assigned_at))
    }

    /// All nodes knew what the other connection was given before the message was assigned to this one, and those
    /// who have assigned it have seen an owner of then, and both nodes, ever since. They may see others than the
    /// node of this connection does: of two nodes one may have given up the other one's peer.
    fn has_giver_stayed(&self, one: &GivenTo, other: &GivenTo) -> bool {
        let (before, given) = (&other.given, &one.given);
        if !before.is_known_to_all || given.assigned_at < before.at {
            return false;
        }
        let has_stayed = |giver: u64| {
            let mut owners = before.owners.iter();
            owners.any(|owner| {
                let nodes = BTreeSet::from([giver, *owner, one.socket.node, other.socket.node]);
                self.have_stayed_since(&nodes, before.at)
            })
        };
        !given.givers.is_empty() && given.givers.iter().all(|giver| has_stayed(*giver))
    }
}
