//! The shared group of a history, and what is promised of it (promise G1).
//!
//! A message that was acknowledged while the group had a member on the same side reaches a member. It reaches a second one only
//! if the connection of the first has ended, or was on another side when the message was given. Once its acknowledgement is durable it reaches nobody.

use std::collections::BTreeMap;

use super::World;
use super::clients::{Place, Promises};
use crate::ids::{CLIENTS, ClientId, Dot, NodeId, NodeSet};
use crate::node::GroupObservation;
use crate::random::{Purpose, Random};

/// A message that a primary owner has given to a connection.
#[derive(Clone, Copy, Debug)]
struct Giving {
    connection: Dot,
    entry: Dot,
}

/// Members of the group, and its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// The SUBSCRIBE of each member that has SUBACK.
    members: [Option<Dot>; CLIENTS],
    /// The last SUBSCRIBE of each client that wants to be one.
    asked: [Option<Dot>; CLIENTS],
    promised: Promises<Dot>,
    givings: BTreeMap<Dot, Vec<Giving>>,
    /// Nodes that were present when a message was first assigned to a connection.
    assigned_on: BTreeMap<Dot, BTreeMap<Dot, NodeSet>>,
    /// Messages that a member has acknowledged, and the event of that.
    acknowledged: BTreeMap<Dot, Dot>,
}

impl Group {
    /// A client is a member no more, or cannot know. What the group had may go with it.
    pub(super) fn lose_member(&mut self, client: ClientId) {
        self.members[client.index()] = None;
        self.asked[client.index()] = None;
        self.promised = Promises::default();
    }

    pub(super) fn published(&mut self, message: Dot) {
        let counts = !self.givings.contains_key(&message);
        self.promised.acknowledge(message, counts);
    }

    fn acknowledged(&mut self, message: Dot, by: Dot) {
        self.acknowledged.insert(message, by);
    }

    pub(super) fn expects(&self, message: Dot) -> bool {
        self.promised.expected().contains_key(&message)
    }

    pub(super) fn has_what_is_promised(&self) -> bool {
        self.promised.expected().is_empty()
    }
}

impl World {
    /// Beside an action of the plan a client joins or leaves the group.
    pub(super) fn act_as_member(&mut self, index: u32) {
        let mut random = Random::new(self.seed, Purpose::MemberAction(index));
        if !self.directory.has_group || random.chance(1, 2) {
            return;
        }
        let client = ClientId(random.below(CLIENTS) as u8);
        let leaves = random.chance(1, 6);
        let Some(place) = self.client(client).at else {
            return;
        };
        if self.group.members[client.index()].is_none() {
            self.say(|| format!("JOIN client {}", client.0));
            let asked = self.step_node(place.node, 1, |node, step| node.join(step, place.connection));
            self.group.asked[client.index()] = asked;
        } else if leaves {
            self.say(|| format!("LEAVE client {}", client.0));
            self.group.lose_member(client);
            self.step_node(place.node, 1, |node, step| node.leave(step, place.connection));
        }
    }

    pub(super) fn observe_group(&mut self, node: NodeId, observation: GroupObservation) {
        match observation {
            GroupObservation::Joined {
                client,
                connection,
                dot,
            } => self.joined(client, Place { node, connection }, dot),
            GroupObservation::Assigned {
                message,
                connection,
                side,
            } => {
                let assigned = self.group.assigned_on.entry(message).or_default();
                assigned.entry(connection).or_insert(side);
            }
            GroupObservation::Given {
                message,
                connection,
                entry,
            } => self.given(node, message, connection, entry),
            GroupObservation::Delivered {
                client,
                connection,
                message,
            } => self.delivered_shared(client, Place { node, connection }, message),
            GroupObservation::Acknowledged { message, by } => self.group.acknowledged(message, by),
        }
    }

    fn joined(&mut self, client: ClientId, place: Place, dot: Dot) {
        if self.client(client).at == Some(place) && self.group.asked[client.index()] == Some(dot) {
            self.say(|| format!("SUBACK of the group to client {}", client.0));
            self.group.members[client.index()] = Some(dot);
        }
    }

    /// Promises a message to the group, if a member has joined on the side of `node`.
    pub(super) fn promise_to_group(&mut self, message: Dot, node: NodeId) {
        let mut joined = self.group.members.into_iter().flatten();
        if let Some(by) = joined.find(|by| self.routes_know(node, *by)) {
            self.group.promised.add(message, by);
        }
    }

    /// A primary owner gives a message to a connection.
    fn given(&mut self, node: NodeId, message: Dot, connection: Dot, entry: Dot) {
        self.say(|| format!("node {} gives {message:?} to {connection:?} by {entry:?}", node.0));
        if let Some(text) = self.find_second_member(node, message, connection) {
            self.fail(text);
            return;
        }
        let givings = self.group.givings.entry(message).or_default();
        givings.push(Giving { connection, entry });
    }

    /// The last connection on the side of `node` that is known to be given the message, if it is another one and open. One that was
    /// on another side when the message was first assigned to `connection` does not count.
    fn find_second_member(&self, node: NodeId, message: Dot, connection: Dot) -> Option<String> {
        let side = self.node(node).membership.view.present;
        let slot = self.directory.slot(ClientId::GROUP);
        let is_known = |giving: &&Giving| {
            side.iter().any(|node| {
                let copy = self.node(node).copy(slot);
                copy.is_some_and(|copy| copy.content.known().has(giving.entry))
            })
        };
        let is_checked = self.is_connected(side) && self.lost.is_empty();
        let mut before = self.group.givings.get(&message)?.iter().rev();
        let last = before.find(is_known).filter(|_| is_checked)?;
        let home = self.directory.node(last.connection.run);
        let assigned_on = self.group.assigned_on.get(&message)?.get(&connection)?;
        let is_open = side.and(*assigned_on).has(home) && self.node(home).is_live(last.connection);
        (is_open && last.connection != connection).then(|| {
            let text = format!(
                "G1 two members: node {} gives {message:?} to {connection:?}",
                node.0
            );
            format!("{text}, and {:?} has it", last.connection)
        })
    }

    /// PUBLISH of the group to a member.
    fn delivered_shared(&mut self, client: ClientId, place: Place, message: Dot) {
        if self.client(client).at != Some(place) {
            return;
        }
        self.say(|| format!("deliver to the group's client {} {message:?}", client.0));
        self.counters.shared += 1;
        if let Some(served) = self.machines[place.node.index()]
            .node
            .connection_mut(place.connection)
        {
            served.take_shared(message);
        }
        self.group.promised.fulfil(&message);
        let side = self.node(place.node).membership.view.present;
        // What was acknowledged on another side when the message was assigned does not count.
        let assigned = self.group.assigned_on.get(&message);
        let assigned_on = assigned.and_then(|on| on.get(&place.connection)).copied();
        let here = side.and(self.alive()).and(assigned_on.unwrap_or(side));
        let by = self.group.acknowledged.get(&message).copied();
        let holders = by.map(|by| self.takers(by).minus(self.lost).and(here));
        if holders.is_some_and(|holders| !holders.is_empty()) && self.is_connected(side) {
            self.fail(format!(
                "G1 acknowledged: client {} gets {message:?}, which was acknowledged by {by:?}",
                client.0
            ));
        }
    }

    /// G1: nothing that was promised to the group is missing.
    pub(super) fn check_group(&mut self) {
        let is_open = |client: ClientId| {
            let place = self.client(client).at;
            place.is_some_and(|place| self.node(place.node).is_live(place.connection))
        };
        let has_member =
            ClientId::all().any(|client| self.group.members[client.index()].is_some() && is_open(client));
        let is_forked = self
            .clients
            .iter()
            .any(|client| client.is_forked || client.is_unsure);
        let missed = self.group.promised.expected().iter().next();
        let missed = missed.filter(|_| has_member && !is_forked && self.keeps_disks);
        if let Some((message, by)) = missed {
            self.fail(format!(
                "G1 missed: no member got {message:?}, promised by {by:?}"
            ));
        }
    }
}
