//! Part of a group at its primary owner: its messages, and to whom each is given.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::Turn;
use super::action::SourceAction;
use super::event::{GroupCopies, GroupEntry, ReadEntry};
use super::presences::Presences;
use crate::MadeEvent;
use crate::feed::QueueKey;
use crate::groups::Give;
use crate::{AssignedMessage, Dot};

/// Entries of a part as its copy has them, and what this run has done with its messages.
#[derive(Debug, Default)]
pub(super) struct Part {
    presences: Presences,
    messages: BTreeMap<Dot, PartMessage>,
    /// Message of each assignment.
    assignments: BTreeMap<Dot, Dot>,
    /// Messages that nobody is given, in the order of clocks.
    waiting: BTreeSet<QueueKey>,
    /// Messages whose assignment another run has made, or this one before it read the part.
    inherited: BTreeSet<QueueKey>,
    given: usize,
}

/// Message of a part, or its assignments while it may still come.
#[derive(Debug, Default)]
struct PartMessage {
    /// Clock of the message. None while the copy lacks it.
    clock: Option<Hlc>,
    /// Presence of each assignment, in the order in which they count.
    assignments: BTreeMap<QueueKey, Dot>,
    own: Option<Own>,
    /// Presence that the message counts for.
    holder: Option<Dot>,
}

/// Assignment by this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// Its event was asked for.
    Making { presence: Dot },
    /// Its event is made.
    Made(MadeAssignment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MadeAssignment {
    dot: Dot,
    /// Every present node knows it.
    is_known: bool,
    /// The node of the presence was told.
    is_given: bool,
}

/// Assignment that counts.
#[derive(Debug, Clone, Copy)]
struct Current {
    assignment: Dot,
    presence: Dot,
}

impl Part {
    /// Messages that this run has assigned.
    pub(super) fn given(&self) -> usize {
        self.given
    }

    /// Messages that this run has not assigned.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.inherited.len()
    }

    /// A message could be assigned.
    pub(super) fn is_ready(&self, window: usize) -> bool {
        let has_room = || self.presences.next(window).is_some();
        !self.inherited.is_empty() || !self.waiting.is_empty() && has_room()
    }

    /// Takes the entries of the copy. Assignments come last: they are kept where their message is.
    pub(super) fn read<V, C: GroupCopies<V>>(&mut self, entries: Vec<ReadEntry>, turn: &mut Turn<'_, V, C>) {
        let is_assignment = |read: &ReadEntry| matches!(read.entry, GroupEntry::Assignment { .. });
        let (assignments, others): (Vec<ReadEntry>, Vec<ReadEntry>) =
            entries.into_iter().partition(is_assignment);
        for ReadEntry { dot, entry } in others.into_iter().chain(assignments) {
            self.insert(dot, &entry, turn);
        }
        self.settle_all(turn);
    }

    pub(super) fn add<V, C: GroupCopies<V>>(
        &mut self,
        dot: Dot,
        entry: &GroupEntry,
        turn: &mut Turn<'_, V, C>,
    ) {
        let earliest = self.presences.earliest();
        self.insert(dot, entry, turn);
        match entry {
            GroupEntry::Member { .. } => self.settle_if_changed(earliest, turn),
            GroupEntry::Presence { .. } => self.settle_held(dot, turn),
            GroupEntry::Message { .. } => self.settle(dot, turn),
            GroupEntry::Assignment { assigned, .. } => self.settle(assigned.message, turn),
        }
    }

    /// The entries of an event are gone.
    pub(super) fn remove<V, C: GroupCopies<V>>(&mut self, dot: Dot, turn: &mut Turn<'_, V, C>) {
        let earliest = self.presences.earliest();
        self.presences.remove_member(dot);
        self.settle_if_changed(earliest, turn);
        if self.presences.remove(dot) {
            self.settle_held(dot, turn);
        }
        if let Some(message) = self.assignments.remove(&dot) {
            if let Some(of) = self.messages.get_mut(&message) {
                of.assignments.retain(|key, _| key.dot != dot);
            }
            self.settle(message, turn);
        }
        self.remove_message(dot);
    }

    /// The event of an assignment is made: waits until every present node knows it.
    pub(super) fn assigned<V, C: GroupCopies<V>>(
        &mut self,
        assigned: AssignedMessage,
        made: MadeEvent,
        turn: &mut Turn<'_, V, C>,
    ) {
        let AssignedMessage { message, presence } = assigned;
        let MadeEvent { dot, clock } = made;
        self.insert(dot, &GroupEntry::Assignment { assigned, clock }, turn);
        let of = self.messages.get_mut(&message);
        let Some(of) = of.filter(|of| of.own == Some(Own::Making { presence })) else {
            self.settle(message, turn);
            return;
        };
        of.own = Some(Own::Made(MadeAssignment {
            dot,
            is_known: false,
            is_given: false,
        }));
        turn.actions.push(SourceAction::AwaitKnown {
            place: turn.place.clone(),
            message,
            assignment: dot,
        });
        self.settle(message, turn);
    }

    /// Every present node knows an assignment (rule `give-first`).
    pub(super) fn known<V, C: GroupCopies<V>>(
        &mut self,
        message: Dot,
        assignment: Dot,
        turn: &mut Turn<'_, V, C>,
    ) {
        let of = self.messages.get_mut(&message);
        if let Some(Own::Made(made)) = of.and_then(|of| of.own.as_mut()) {
            made.is_known |= made.dot == assignment;
        }
        self.settle(message, turn);
    }

    /// Other runs are present.
    pub(super) fn change_runs<V, C: GroupCopies<V>>(&mut self, turn: &mut Turn<'_, V, C>) {
        self.presences.change_runs(turn);
        self.settle_all(turn);
    }

    /// Gives again what presences at `node` were given.
    pub(super) fn give_again<V, C: GroupCopies<V>>(&mut self, node: NodeId, turn: &mut Turn<'_, V, C>) {
        let at_node = self.presences.holders().filter(|dot| dot.run.node == node);
        let messages: Vec<Dot> = at_node.flat_map(|dot| self.presences.held_by(dot)).collect();
        for message in messages {
            if let Some(Own::Made(made)) = self.messages.get_mut(&message).and_then(|of| of.own.as_mut()) {
                made.is_given = false;
            }
            self.settle(message, turn);
        }
    }

    /// Assigns the next message: one with an assignment of another run to the same presence, or the
    /// earliest one that waits.
    pub(super) fn assign_next<V, C: GroupCopies<V>>(&mut self, window: usize, turn: &mut Turn<'_, V, C>) {
        let inherited = self.inherited.first().map(|key| key.dot);
        let holder = inherited.and_then(|message| self.messages.get(&message)?.holder);
        let waiting = self.waiting.first().map(|key| key.dot);
        let next = inherited.zip(holder);
        let next = next.or_else(|| waiting.zip(self.presences.next(window)));
        let Some((message, presence)) = next else {
            return;
        };
        let Some(of) = self.messages.get_mut(&message) else {
            return;
        };
        of.own = Some(Own::Making { presence });
        self.given += 1;
        turn.actions.push(SourceAction::Assign {
            place: turn.place.clone(),
            assigned: AssignedMessage { message, presence },
            removes: of.assignments.keys().map(|key| key.dot).collect(),
        });
        self.settle(message, turn);
    }

    fn insert<V, C: GroupCopies<V>>(&mut self, dot: Dot, entry: &GroupEntry, turn: &mut Turn<'_, V, C>) {
        match *entry {
            GroupEntry::Member { birth, since } => self.presences.add_member(dot, birth, since),
            GroupEntry::Presence { birth, clock } => self.presences.add(dot, birth, clock, turn),
            GroupEntry::Message { clock } => self.messages.entry(dot).or_default().clock = Some(clock),
            GroupEntry::Assignment { assigned, clock } => {
                let AssignedMessage { message, presence } = assigned;
                // An assignment whose message is gone does not count, and waits to be garbage.
                let may_come = || !turn.copies.covers(turn.place, message);
                if self.messages.contains_key(&message) || may_come() {
                    let of = self.messages.entry(message).or_default();
                    of.assignments.insert(QueueKey { clock, dot }, presence);
                    self.assignments.insert(dot, message);
                }
            }
        }
    }

    fn remove_message(&mut self, dot: Dot) {
        let Some(gone) = self.messages.remove(&dot) else {
            return;
        };
        for key in gone.assignments.keys() {
            self.assignments.remove(&key.dot);
        }
        if let Some(holder) = gone.holder {
            self.presences.release(holder, dot);
        }
        if let Some(clock) = gone.clock {
            self.waiting.remove(&QueueKey { clock, dot });
            self.inherited.remove(&QueueKey { clock, dot });
        }
        self.given -= usize::from(gone.own.is_some());
    }

    /// Settles all messages if the earliest membership is another than before: only by that members
    /// decide which messages count.
    fn settle_if_changed<V, C: GroupCopies<V>>(&mut self, before: Option<Hlc>, turn: &mut Turn<'_, V, C>) {
        if self.presences.earliest() != before {
            self.settle_all(turn);
        }
    }

    fn settle_all<V, C: GroupCopies<V>>(&mut self, turn: &mut Turn<'_, V, C>) {
        let messages: Vec<Dot> = self.messages.keys().copied().collect();
        for message in messages {
            self.settle(message, turn);
        }
    }

    fn settle_held<V, C: GroupCopies<V>>(&mut self, presence: Dot, turn: &mut Turn<'_, V, C>) {
        for message in self.presences.held_by(presence) {
            self.settle(message, turn);
        }
    }

    /// Finds out to whom a message is given now, and gives it if that is decided.
    fn settle<V, C: GroupCopies<V>>(&mut self, message: Dot, turn: &mut Turn<'_, V, C>) {
        let Some(of) = self.messages.get(&message) else {
            return;
        };
        let is_there = |presence: Dot| self.presences.is_there(presence, turn);
        let counting = of.clock.filter(|clock| self.presences.has_member_before(*clock));
        let current = of.last().filter(|last| is_there(last.presence));
        let own = of.own.filter(|own| match own {
            Own::Making { presence } => is_there(*presence),
            Own::Made(made) => current.is_some_and(|current| current.assignment == made.dot),
        });
        let own = own.filter(|_| counting.is_some());
        let holder = match own {
            Some(Own::Making { presence }) => Some(presence),
            Some(Own::Made(_)) | None => current.map(|current| current.presence),
        };
        self.keep(message, own, holder);
        self.queue(message, counting);
        if let (Some(Own::Made(made)), Some(current)) = (own, current)
            && made.is_known
            && !made.is_given
        {
            self.give(message, current, turn);
        }
    }

    /// Keeps what was found out about a message.
    fn keep(&mut self, message: Dot, own: Option<Own>, holder: Option<Dot>) {
        let Some(of) = self.messages.get_mut(&message) else {
            return;
        };
        let own_before = std::mem::replace(&mut of.own, own);
        let before = std::mem::replace(&mut of.holder, holder);
        self.given = self.given + usize::from(own.is_some()) - usize::from(own_before.is_some());
        if before != holder {
            if let Some(before) = before {
                self.presences.release(before, message);
            }
            if let Some(holder) = holder {
                self.presences.hold(holder, message);
            }
        }
    }

    /// Puts a message where it is found for the next assignment. `counting` is its clock if it counts.
    fn queue(&mut self, dot: Dot, counting: Option<Hlc>) {
        let Some(of) = self.messages.get(&dot) else {
            return;
        };
        if let Some(clock) = of.clock {
            self.waiting.remove(&QueueKey { clock, dot });
            self.inherited.remove(&QueueKey { clock, dot });
        }
        if let Some(clock) = counting.filter(|_| of.own.is_none()) {
            let queue = match of.holder {
                Some(_) => &mut self.inherited,
                None => &mut self.waiting,
            };
            queue.insert(QueueKey { clock, dot });
        }
    }

    /// Tells the node of a presence.
    fn give<V, C: GroupCopies<V>>(&mut self, message: Dot, current: Current, turn: &mut Turn<'_, V, C>) {
        let Current { assignment, presence } = current;
        let Some(value) = turn.copies.value(turn.place, message) else {
            return;
        };
        if let Some(Own::Made(made)) = self.messages.get_mut(&message).and_then(|of| of.own.as_mut()) {
            made.is_given = true;
        }
        turn.actions.push(SourceAction::Give {
            to: presence.run.node,
            give: Give {
                slot: turn.place.slot,
                presence,
                message,
                assignment,
                value,
            },
        });
    }
}

impl PartMessage {
    /// Latest assignment.
    fn last(&self) -> Option<Current> {
        let (key, presence) = self.assignments.last_key_value()?;
        Some(Current {
            assignment: key.dot,
            presence: *presence,
        })
    }
}
