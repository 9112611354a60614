//! Events at the primary owner of a part, and the copies that it reads.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use crate::MadeEvent;
use crate::groups::GroupId;
use crate::{AssignedMessage, Dot, Entry, Fact, Run, Slot};

/// Part of a group. Two parts that have one slot are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupPlace {
    /// Slot of the part.
    pub slot: Slot,
    /// The group.
    pub group: GroupId,
}

/// Entry of a group, as far as giving depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEntry {
    /// A session is a member.
    Member {
        /// Event of the session's birth.
        birth: Dot,
        /// Clock of the first SUBSCRIBE.
        since: Hlc,
    },
    /// A connection of a member is open.
    Presence {
        /// Event of the session's birth.
        birth: Dot,
    },
    /// A message.
    Message {
        /// Clock of the message.
        clock: Hlc,
    },
    /// A message is given to a presence.
    Assignment {
        /// Message and presence.
        assigned: AssignedMessage,
        /// Clock of the entry.
        clock: Hlc,
    },
}

impl GroupEntry {
    /// Entry of a group as a copy has it. None for a kind that groups do not have.
    pub fn of<V>(entry: &Entry<V>) -> Option<GroupEntry> {
        let (birth, clock) = (entry.birth.dot, entry.clock);
        match &entry.fact {
            Fact::Member(_) => {
                let since = entry.member_since()?;
                Some(GroupEntry::Member { birth, since })
            }
            Fact::Presence => Some(GroupEntry::Presence { birth }),
            Fact::Message => Some(GroupEntry::Message { clock }),
            Fact::Assignment(assigned) => Some(GroupEntry::Assignment {
                assigned: **assigned,
                clock,
            }),
            _ => None,
        }
    }
}

/// Entry of a group with its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadEntry {
    /// The event.
    pub dot: Dot,
    /// The entry.
    pub entry: GroupEntry,
}

/// Copies of this node.
pub trait GroupCopies<V> {
    /// All entries of a part, whether or not they count.
    ///
    /// None while this node is not the primary owner of the slot, while its copy is not merged, or
    /// while a holder has not answered about its holes (rule `give-merged`). The node tells when that
    /// has changed ([`SourceEvent::PartReady`] and [`SourceEvent::PartLost`]).
    fn read(&self, place: &GroupPlace) -> Option<Vec<ReadEntry>>;

    /// Value of a message. None where the copy has it no more.
    fn value(&self, place: &GroupPlace, message: Dot) -> Option<V>;

    /// Point by which a message is kept together with others: each goes to the member that the point names. None:
    /// the message goes to any member.
    fn point(&self, place: &GroupPlace, message: Dot) -> Option<u64>;

    /// The copy has decided upon the event as far as the group is concerned.
    fn covers(&self, place: &GroupPlace, dot: Dot) -> bool;

    /// The run has ended for certain: a later run of its node was met, or the node was removed.
    fn has_ended(&self, run: Run) -> bool;
}

/// Event of this node's copies or of the cluster. Events of a part about which this node does not
/// decide are passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent {
    /// This node decides about the part from now on, or its copy has merged: everything is read anew.
    PartReady(GroupPlace),
    /// This node does not decide about the part.
    PartLost(GroupPlace),
    /// The copy of the part has an entry more, whoever has made it. Of one event this is told before what
    /// it removes: so a membership that is written anew does not end in between.
    Added {
        /// The part.
        place: GroupPlace,
        /// Event of the entry.
        dot: Dot,
        /// The entry.
        entry: GroupEntry,
    },
    /// The entries of an event are gone: another event has removed them, whether or not the copy had
    /// them, or they were garbage.
    Removed {
        /// The part.
        place: GroupPlace,
        /// Event that had made the entries.
        dot: Dot,
    },
    /// The event of an assignment is made.
    Assigned {
        /// The part.
        place: GroupPlace,
        /// Message and presence.
        assigned: AssignedMessage,
        /// The event.
        made: MadeEvent,
    },
    /// Every present node knows an assignment.
    Known {
        /// The part.
        place: GroupPlace,
        /// Event of the message.
        message: Dot,
        /// Event of the assignment.
        assignment: Dot,
    },
    /// Other runs are present: all of them, this one among them.
    RunsChanged(BTreeSet<Run>),
    /// The link to a present node is a new one: what it was given is given again.
    LinkRenewed(NodeId),
}
