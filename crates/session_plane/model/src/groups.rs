//! The shared group in a copy: its members, their connections, its messages, and which connection each message is given to.
//!
//! A group is kept in a slot as a session is. A message of it matches while it has a member. The assignment of a message
//! stands beside the message and goes with it: so an acknowledgement removes both, whoever is given the message meanwhile.

use std::collections::BTreeSet;

use crate::copy::Content;
use crate::event::{Entry, EntryKind, Event, ShareOf};
use crate::ids::{ClientId, Dot};
use crate::rules::{Rule, Rules};

/// Connection of a member as a copy has it.
#[derive(Clone, Copy, Debug)]
pub struct Presence {
    pub entry: Dot,
    pub member: ClientId,
    pub connection: Dot,
}

/// Assignment of a message as a copy has it.
#[derive(Clone, Copy, Debug)]
pub struct Assignment {
    pub entry: Dot,
    pub to: Presence,
}

/// Entry that the message `event` makes of the group whose entries are `live`.
pub fn message_of(rules: &Rules, live: &[Entry], event: &Event) -> Option<Entry> {
    let is_matched = |entry: &&Entry| {
        entry.kind == EntryKind::Member && (!rules.hold(Rule::Since) || entry.since < event.clock)
    };
    let member = live.iter().find(is_matched)?;
    Some(Entry {
        kind: EntryKind::Message,
        dot: event.dot,
        birth: event.dot,
        clock: event.clock,
        since: 0,
        share: None,
        ..*member
    })
}

/// The entry says that the client's session is a member.
pub fn is_member(entry: &Entry, client: ClientId) -> bool {
    entry.kind == EntryKind::Member && entry.share.is_some_and(|share| share.member == client)
}

/// A session that was a member before `message` still is one.
pub fn has_member(entries: &BTreeSet<Entry>, message: &Entry) -> bool {
    let is_member = |entry: &Entry| entry.kind == EntryKind::Member && entry.since < message.clock;
    entries.iter().any(is_member)
}

/// The message of an assignment is there, or not decided upon.
pub fn has_message(
    entries: &BTreeSet<Entry>,
    assignment: &Entry,
    covers: impl Fn(ClientId, Dot) -> bool,
) -> bool {
    let Some(message) = assignment.assigned() else {
        return false;
    };
    let is_message = |entry: &Entry| {
        entry.kind == EntryKind::Message && entry.client == ClientId::GROUP && entry.dot == message
    };
    entries.iter().any(is_message) || !covers(ClientId::GROUP, message)
}

impl Content {
    /// The client's session is a member.
    pub fn is_member(&self, client: ClientId) -> bool {
        self.entries.iter().any(|entry| is_member(entry, client))
    }

    /// Members' connections that are known.
    pub fn presences(&self) -> Vec<Presence> {
        let presence = |entry: &Entry| {
            let share = entry.share?;
            let ShareOf::Presence { connection } = share.of else {
                return None;
            };
            Some(Presence {
                entry: entry.dot,
                member: share.member,
                connection,
            })
        };
        self.entries.iter().filter_map(presence).collect()
    }

    /// Assignments of `message`, in the order of clocks.
    pub fn assignments(&self, message: Dot) -> Vec<Assignment> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| (entry.clock, entry.dot));
        let assignment = |entry: &Entry| {
            let share = entry.share?;
            match share.of {
                ShareOf::Assignment {
                    message: of,
                    connection,
                    presence,
                } if of == message => Some(Assignment {
                    entry: entry.dot,
                    to: Presence {
                        entry: presence,
                        member: share.member,
                        connection,
                    },
                }),
                _ => None,
            }
        };
        entries.into_iter().filter_map(assignment).collect()
    }
}
