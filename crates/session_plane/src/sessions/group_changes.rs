//! Changes of shared groups: what members and primary owners write, as events of the plane, and what
//! follows when these are made and durable.

use super::acting::Queue;
use super::entries::{EntryWrite, OwnWrite};
use super::waits::{AllNodesWait, GroupWait};
use super::{Sessions, SessionsAction, SessionsValue};
use crate::connecting::ConnectionId;
use crate::groups::{GroupPlace, GroupWrite, SinkEvent, SourceEvent};
use crate::plane::{Matching, NewBirth, NewEntry};
use crate::transfer::TransferBytes;
use crate::{AssignedMessage, Dot, Fact, GroupId, MadeEvent, MemberTerms, Slot, SlotSet};

/// Event that changes a group's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupChange<V> {
    pub(super) slots: SlotSet,
    pub(super) removes: Vec<Dot>,
    pub(super) adds: Option<NewEntry<V>>,
    pub(super) then: AfterGroup,
}

/// What follows when the event of a [`GroupChange`] is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AfterGroup {
    /// SUBACK follows when the event is durable.
    Joined(GroupId),
    /// UNSUBACK follows when the event is durable.
    Left(GroupId),
    /// The connection is present.
    Present(GroupId),
    /// The message is done when all nodes know that.
    Acknowledged {
        group: GroupId,
        message: Dot,
    },
    /// A message is assigned, at the primary owner.
    Assigned {
        place: GroupPlace,
        assigned: AssignedMessage,
    },
    Nothing,
}

impl<V> GroupChange<V> {
    /// Event that only removes entries.
    pub(super) fn removing(slots: SlotSet, removes: Vec<Dot>) -> GroupChange<V> {
        GroupChange {
            slots,
            removes,
            adds: None,
            then: AfterGroup::Nothing,
        }
    }
}

impl<V> EntryWrite<V> {
    /// Change of a group, of a connection or of a primary owner.
    pub(super) fn of_group(
        group: &GroupId,
        connection: Option<ConnectionId>,
        change: GroupChange<V>,
    ) -> EntryWrite<V> {
        EntryWrite {
            connection,
            client: group.key().clone(),
            write: OwnWrite::Group(change),
        }
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Event that makes a change of a member. None where the connection is gone.
    pub(super) fn group_change(
        &self,
        connection: ConnectionId,
        group: &GroupId,
        write: GroupWrite,
        value: &V,
    ) -> Option<GroupChange<V>> {
        Some(match write {
            GroupWrite::Member {
                birth,
                since,
                removes,
            } => {
                let client = self.clients.get(&connection)?.client().clone();
                let since = self.members.memberships.earliest(group).or(since);
                let adds = NewEntry {
                    birth: NewBirth::Of(birth),
                    fact: Fact::Member(Box::new(MemberTerms { client, since })),
                    value: value.clone(),
                };
                GroupChange {
                    slots: with_routes(group),
                    removes,
                    adds: Some(adds),
                    then: AfterGroup::Joined(group.clone()),
                }
            }
            GroupWrite::Leave { removes } => GroupChange {
                slots: with_routes(group),
                removes,
                adds: None,
                then: AfterGroup::Left(group.clone()),
            },
            GroupWrite::Presence { birth } => GroupChange {
                slots: group.slots(),
                removes: Vec::new(),
                adds: Some(self.blank(birth, Fact::Presence)),
                then: AfterGroup::Present(group.clone()),
            },
            GroupWrite::Absence { presence } => GroupChange::removing(group.slots(), vec![presence]),
            GroupWrite::Acknowledgement(given) => GroupChange {
                slots: SlotSet::from_iter([given.slot]),
                removes: vec![given.message, given.assignment],
                adds: None,
                then: AfterGroup::Acknowledged {
                    group: group.clone(),
                    message: given.message,
                },
            },
        })
    }

    /// The event of a group's change is made.
    pub(super) fn group_written(
        &mut self,
        connection: Option<ConnectionId>,
        then: AfterGroup,
        made: MadeEvent,
        queue: &mut Queue<V, M>,
    ) {
        self.note_event(connection, made.dot);
        let dot = made.dot;
        match (then, connection) {
            (AfterGroup::Joined(group), Some(connection)) => {
                self.waits.add_group(dot, GroupWait::Joined { connection, group });
            }
            (AfterGroup::Left(group), Some(connection)) => {
                self.waits.add_group(dot, GroupWait::Left { connection, group });
            }
            (AfterGroup::Present(group), Some(connection)) => {
                let written = SinkEvent::PresenceWritten {
                    connection,
                    group,
                    dot,
                };
                self.step_members(written, queue);
            }
            (AfterGroup::Acknowledged { group, message }, Some(connection)) => {
                let wait = AllNodesWait::Acknowledgement {
                    connection,
                    group,
                    message,
                };
                self.await_all_nodes(dot, wait, queue);
            }
            (AfterGroup::Assigned { place, assigned }, _) => {
                let slot = place.slot;
                let assigned = SourceEvent::Assigned {
                    place,
                    assigned,
                    made,
                };
                self.tell_part(slot, assigned, queue);
            }
            (_, _) => {}
        }
    }

    /// The event of a member's change is durable.
    pub(super) fn end_group_wait(
        &mut self,
        wait: GroupWait,
        dot: Dot,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match wait {
            GroupWait::Joined { connection, group } if self.clients.contains_key(&connection) => {
                actions.push(SessionsAction::Joined { connection, group });
            }
            GroupWait::Left { connection, group } if self.clients.contains_key(&connection) => {
                actions.push(SessionsAction::Left {
                    connection,
                    group,
                    is_found: true,
                });
            }
            GroupWait::Joined { .. } | GroupWait::Left { .. } => {}
            GroupWait::AllNodes(wait) => self.await_all_nodes(dot, wait, queue),
        }
    }
}

/// Slots of a group's members: its parts, and the routes.
pub(super) fn with_routes(group: &GroupId) -> SlotSet {
    group.slots().union(&SlotSet::from_iter([Slot::ROUTES]))
}
