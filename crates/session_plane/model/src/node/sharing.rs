//! Shared group: its members, and who is given which of its messages (section 7 of the specification).
//!
//! The node of a member's connection writes a presence to the owners of the group. The primary owner gives each message to one
//! presence: the assignment is at all present nodes before the connection's node is told. So of two nodes that take themselves
//! for primary at the same time, at least one sees the other's assignment, and the later one counts. It takes a message back when
//! the connection has ended, or its node is given up. The presence goes last, behind the acknowledgements of the connection.

use std::collections::{BTreeMap, BTreeSet};

use super::{Awaited, Connection, GroupObservation, Node, Observation, Step};
use crate::copy::Content;
use crate::event::{Change, Entry, Share, ShareOf};
use crate::groups::{self, Presence};
use crate::ids::{ClientId, Dot, NodeId, Slot, SlotSet};
use crate::message::{Given, Message};
use crate::rules::Rule;

/// Messages that this node has given to connections as the primary owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    given: BTreeMap<Dot, Giving>,
}

/// A message that this run has given to a connection.
#[derive(Clone, Copy, Debug)]
struct Giving {
    entry: Dot,
    is_durable: bool,
    is_told: bool,
}

/// What a connection has of the shared group.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    presence: Option<Dot>,
    /// Messages that the client was sent, and their assignments.
    sent: BTreeMap<Dot, Dot>,
    /// Those that it has, and has not acknowledged.
    unacknowledged: BTreeSet<Dot>,
}

impl Connection {
    /// The client has a message of the group.
    pub fn take_shared(&mut self, message: Dot) {
        self.shared.unacknowledged.insert(message);
    }
}

impl Node {
    // At the node of a connection.

    /// SUBSCRIBE to the shared group.
    pub fn join(&mut self, step: &mut Step<'_>, connection: Dot) -> Option<Dot> {
        let client = self.live_client(connection)?;
        let members = self.member_entries(step, client);
        let since = members.iter().map(|entry| entry.since).min();
        let change = Change::Share {
            share: Share {
                member: client,
                of: ShareOf::Member,
            },
            since: since.unwrap_or(self.next_clock(step)),
            removes: members.iter().map(|entry| entry.dot).collect(),
        };
        let slots = group_slots(step);
        Some(self.emit_and_wait(step, change, slots, Awaited::Joined { client, connection }))
    }

    /// UNSUBSCRIBE from the shared group, or the end of a session that is a member.
    ///
    /// The presence stays until the connection ends, so that it completes what it was given [MQTT-3.10.4-4].
    pub fn leave(&mut self, step: &mut Step<'_>, connection: Dot) {
        let Some(client) = self.connection(connection).map(|connection| connection.client) else {
            return;
        };
        let members = self.member_entries(step, client).into_iter();
        let removes: Vec<Dot> = members.map(|entry| entry.dot).collect();
        if removes.is_empty() {
            return;
        }
        let awaited = Awaited::Left {
            removed: removes.clone(),
        };
        let change = Change::Remove {
            client: ClientId::GROUP,
            removes,
        };
        self.emit_and_wait(step, change, group_slots(step), awaited);
    }

    /// Entries of a client's membership, by the routes and by the own copy of the group.
    fn member_entries(&self, step: &Step<'_>, client: ClientId) -> Vec<Entry> {
        let group = self.copy(step.directory.slot(ClientId::GROUP));
        let contents = self.copy(Slot::ROUTES).into_iter().chain(group);
        let entries = contents.flat_map(|copy| &copy.content.entries);
        let members = entries.filter(|entry| groups::is_member(entry, client));
        let mut members: Vec<Entry> = members.copied().collect();
        members.dedup();
        members
    }

    /// Tells the group's owners of a member's connection, and acknowledges what that was given, by the seed.
    pub(super) fn serve_shared(&mut self, step: &mut Step<'_>, dot: Dot) {
        let Some(connection) = self.connection(dot) else {
            return;
        };
        let client = connection.client;
        let is_present = connection.shared.presence.is_some();
        let unacknowledged = connection.shared.unacknowledged.clone();
        if !is_present && !self.member_entries(step, client).is_empty() {
            self.attend(step, dot, client);
        }
        for message in unacknowledged {
            if step.chance() {
                self.acknowledge_shared(step, dot, message);
            }
        }
    }

    fn attend(&mut self, step: &mut Step<'_>, dot: Dot, client: ClientId) {
        let change = Change::Share {
            share: Share {
                member: client,
                of: ShareOf::Presence { connection: dot },
            },
            since: 0,
            removes: Vec::new(),
        };
        let slot = step.directory.slot(ClientId::GROUP);
        let presence = self.emit(step, change, SlotSet::one(slot), None);
        if let Some(connection) = self.connection_mut(dot) {
            connection.shared.presence = Some(presence);
        }
    }

    fn acknowledge_shared(&mut self, step: &mut Step<'_>, dot: Dot, message: Dot) {
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        connection.shared.unacknowledged.remove(&message);
        let assignment = connection.shared.sent.get(&message).copied();
        let change = Change::Remove {
            client: ClientId::GROUP,
            removes: [message].into_iter().chain(assignment).collect(),
        };
        let awaited = Awaited::SharedAcknowledged {
            connection: dot,
            message,
            removed: vec![message],
        };
        let slot = step.directory.slot(ClientId::GROUP);
        self.emit_and_wait(step, change, SlotSet::one(slot), awaited);
    }

    /// Before a connection ends: its presence goes behind its acknowledgements.
    pub(super) fn end_presence(&mut self, step: &mut Step<'_>, dot: Dot) {
        let connection = self.connection_mut(dot);
        if let Some(presence) = connection.and_then(|connection| connection.shared.presence.take()) {
            self.remove_presence(step, presence);
        }
    }

    fn remove_presence(&mut self, step: &mut Step<'_>, presence: Dot) {
        let change = Change::Remove {
            client: ClientId::GROUP,
            removes: vec![presence],
        };
        let slot = step.directory.slot(ClientId::GROUP);
        self.emit(step, change, SlotSet::one(slot), None);
    }

    /// A connection here is given a message.
    pub(super) fn receive_given(&mut self, step: &mut Step<'_>, given: Given) {
        let Some(connection) = self.connection_mut(given.connection) else {
            return;
        };
        if connection.phase != super::Phase::Live {
            return;
        }
        let client = connection.client;
        let before = connection.shared.sent.insert(given.message, given.entry);
        if before.is_none() {
            step.observe(Observation::Group(GroupObservation::Delivered {
                client,
                connection: given.connection,
                message: given.message,
            }));
        }
    }

    // At the primary owner.

    /// Gives each message of the group to a connection.
    pub(super) fn tick_group(&mut self, step: &mut Step<'_>) {
        let slot = step.directory.slot(ClientId::GROUP);
        if self.deciding_copy(step, slot, Rule::GiveMerged).is_none() {
            self.sharing.given.clear();
            return;
        }
        self.end_gone_presences(step, slot);
        let messages = self.queue(step, ClientId::GROUP).messages;
        self.sharing.given.retain(|message, _| messages.contains(message));
        for message in messages {
            self.share_out(step, slot, message);
        }
    }

    fn content(&self, slot: Slot) -> &Content {
        &self.copy(slot).expect("the primary owner has a copy").content
    }

    /// Removes presences whose run has ended for certain.
    fn end_gone_presences(&mut self, step: &mut Step<'_>, slot: Slot) {
        let presences = self.content(slot).presences();
        for presence in presences {
            if self.has_ended(step, presence.connection.run) {
                self.remove_presence(step, presence.entry);
            }
        }
    }

    /// Brings one message a step further.
    fn share_out(&mut self, step: &mut Step<'_>, slot: Slot, message: Dot) {
        let last = self.content(slot).assignments(message).last().copied();
        let current = last.filter(|last| self.is_present(step, slot, &last.to));
        let own = self.sharing.given.get(&message).copied();
        match (current, own) {
            (Some(current), Some(own)) if own.entry == current.entry => {
                let is_ready = own.is_durable || !step.holds(Rule::GiveFirst);
                if is_ready && !own.is_told {
                    self.tell_given(step, message, current.entry, current.to.connection);
                }
            }
            (Some(current), _) => self.assign(step, slot, message, &current.to),
            (None, _) => {
                if last.is_some() && !step.holds(Rule::TakeBack) {
                    return;
                }
                if let Some(presence) = self.next_presence(step, slot, message) {
                    self.assign(step, slot, message, &presence);
                }
            }
        }
    }

    /// The member's connection is open as far as this node knows.
    fn is_present(&self, step: &Step<'_>, slot: Slot, presence: &Presence) -> bool {
        let content = self.content(slot);
        let is_there = content.entries.iter().any(|entry| entry.dot == presence.entry)
            || !content.covers(ClientId::GROUP, presence.entry);
        let run = presence.connection.run;
        is_there && (run == self.sender.run || self.membership.has_run(step.directory.node(run), run))
    }

    /// Connection that gets `message`: members take turns.
    fn next_presence(&self, step: &Step<'_>, slot: Slot, message: Dot) -> Option<Presence> {
        let content = self.content(slot);
        let mut open = content.presences();
        open.retain(|presence| content.is_member(presence.member) && self.is_present(step, slot, presence));
        let count = open.len();
        (count > 0).then(|| open[usize::from(message.number) % count])
    }

    fn assign(&mut self, step: &mut Step<'_>, slot: Slot, message: Dot, to: &Presence) {
        let older = self.content(slot).assignments(message);
        let change = Change::Share {
            share: Share {
                member: to.member,
                of: ShareOf::Assignment {
                    message,
                    connection: to.connection,
                    presence: to.entry,
                },
            },
            since: 0,
            removes: older.iter().map(|assignment| assignment.entry).collect(),
        };
        let (slots, peers) = (SlotSet::one(slot), self.membership.peers());
        step.observe(Observation::Group(GroupObservation::Assigned {
            message,
            connection: to.connection,
            side: self.membership.view.present,
        }));
        let entry = self.emit(step, change, slots, None);
        self.sender
            .wait_for(entry.number, slots, peers, Awaited::Given { message });
        let giving = Giving {
            entry,
            is_durable: false,
            is_told: false,
        };
        self.sharing.given.insert(message, giving);
    }

    /// All present nodes have an assignment.
    pub(super) fn given(&mut self, message: Dot, entry: Dot) {
        let giving = self.sharing.given.get_mut(&message);
        if let Some(giving) = giving.filter(|giving| giving.entry == entry) {
            giving.is_durable = true;
        }
    }

    fn tell_given(&mut self, step: &mut Step<'_>, message: Dot, entry: Dot, connection: Dot) {
        if let Some(giving) = self.sharing.given.get_mut(&message) {
            giving.is_told = true;
        }
        step.observe(Observation::Group(GroupObservation::Given {
            message,
            connection,
            entry,
        }));
        let given = Given {
            message,
            connection,
            entry,
        };
        let node: NodeId = step.directory.node(connection.run);
        if node == self.id {
            self.receive_given(step, given);
        } else {
            step.send(node, Message::Give(given));
        }
    }
}

/// Slots that a change of the members goes to: the group's, and the routes.
fn group_slots(step: &Step<'_>) -> SlotSet {
    SlotSet::one(step.directory.slot(ClientId::GROUP)).with(Slot::ROUTES)
}
