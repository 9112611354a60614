//! Part of a group at its primary owner: its messages, and to whom each is given.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::Turn;
use super::action::SourceAction;
use super::assignments::{Assignment, Assignments, Runs};
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
    /// Messages that go on with an assignment of another run, or of this one before it read the part.
    inherited: BTreeSet<QueueKey>,
    given: usize,
}

/// Message of a part, or its assignments while it may still come.
#[derive(Debug, Default)]
struct PartMessage {
    /// Clock of the message. None while the copy lacks it.
    clock: Option<Hlc>,
    /// Point by which it is kept together with others.
    point: Option<u64>,
    assignments: Assignments,
    /// Presence that the message counts for.
    holder: Option<Dot>,
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
        !self.inherited.is_empty() || self.next_waiting(window).is_some()
    }

    /// The earliest message that waits, with the presence that gets it.
    fn next_waiting(&self, window: usize) -> Option<AssignedMessage> {
        let message = self.waiting.first()?.dot;
        let point = self.messages.get(&message).and_then(|of| of.point);
        let presence = self.presences.next(window, point)?;
        Some(AssignedMessage { message, presence })
    }

    /// Takes the entries of the copy. Assignments come last: they are kept where their message is. `told`
    /// is what this run has told before.
    pub(super) fn read<V, C: GroupCopies<V>>(
        &mut self,
        entries: Vec<ReadEntry>,
        told: BTreeSet<AssignedMessage>,
        turn: &mut Turn<'_, V, C>,
    ) {
        let is_assignment = |read: &ReadEntry| matches!(read.entry, GroupEntry::Assignment { .. });
        let (assignments, others): (Vec<ReadEntry>, Vec<ReadEntry>) =
            entries.into_iter().partition(is_assignment);
        for ReadEntry { dot, entry } in others.into_iter().chain(assignments) {
            self.insert(dot, &entry, turn);
        }
        for AssignedMessage { message, presence } in told {
            if let Some(of) = self.messages.get_mut(&message) {
                of.assignments.set_told(presence);
            }
        }
        self.settle_all(turn);
    }

    /// Presences whose nodes this run has told of messages that are not acknowledged.
    pub(super) fn told(&self) -> BTreeSet<AssignedMessage> {
        let of_message = |message: Dot, of: &PartMessage| {
            let assigned = |presence| AssignedMessage { message, presence };
            of.assignments.told().map(assigned).collect::<Vec<_>>()
        };
        let messages = self.messages.iter();
        messages
            .flat_map(|(message, of)| of_message(*message, of))
            .collect()
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
                of.assignments.remove(dot);
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
        if of.is_some_and(|of| of.assignments.made(dot, presence)) {
            turn.actions.push(SourceAction::AwaitKnown {
                place: turn.place.clone(),
                message,
                assignment: dot,
            });
        }
        self.settle(message, turn);
    }

    /// Every present node knows an assignment (rule `give-first`).
    pub(super) fn known<V, C: GroupCopies<V>>(
        &mut self,
        message: Dot,
        assignment: Dot,
        turn: &mut Turn<'_, V, C>,
    ) {
        if let Some(of) = self.messages.get_mut(&message) {
            of.assignments.set_known(assignment);
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
            if let Some(of) = self.messages.get_mut(&message) {
                of.assignments.give_again();
            }
            self.settle(message, turn);
        }
    }

    /// Assigns the next message: one with an assignment of another run to the same presence, or the
    /// earliest one that waits.
    pub(super) fn assign_next<V, C: GroupCopies<V>>(&mut self, window: usize, turn: &mut Turn<'_, V, C>) {
        let inherited = self.inherited.first().map(|key| key.dot);
        let holder = inherited.and_then(|message| self.messages.get(&message)?.holder);
        let next = inherited.zip(holder);
        let next = next.map(|(message, presence)| AssignedMessage { message, presence });
        let Some(AssignedMessage { message, presence }) = next.or_else(|| self.next_waiting(window)) else {
            return;
        };
        let Some(of) = self.messages.get_mut(&message) else {
            return;
        };
        let presences = &self.presences;
        let is_there = |dot: Dot| presences.is_there(dot, turn);
        let is_gone = |dot: Dot| presences.is_gone(dot, turn);
        let removes = of.assignments.make(turn.run, presence, is_there, is_gone);
        self.given += 1;
        turn.actions.push(SourceAction::Assign {
            place: turn.place.clone(),
            assigned: AssignedMessage { message, presence },
            removes,
        });
        self.settle(message, turn);
    }

    fn insert<V, C: GroupCopies<V>>(&mut self, dot: Dot, entry: &GroupEntry, turn: &mut Turn<'_, V, C>) {
        match *entry {
            GroupEntry::Member { birth, since } => self.presences.add_member(dot, birth, since),
            GroupEntry::Presence { birth } => self.presences.add(dot, birth, turn),
            GroupEntry::Message { clock } => {
                let of = self.messages.entry(dot).or_default();
                of.clock = Some(clock);
                of.point = turn.copies.point(turn.place, dot);
            }
            GroupEntry::Assignment { assigned, clock } => {
                let AssignedMessage { message, presence } = assigned;
                // An assignment whose message is gone does not count, and waits to be garbage.
                let may_come = || !turn.copies.covers(turn.place, message);
                if self.messages.contains_key(&message) || may_come() {
                    let of = self.messages.entry(message).or_default();
                    of.assignments.add(turn.run, QueueKey { clock, dot }, presence);
                    self.assignments.insert(dot, message);
                }
            }
        }
    }

    fn remove_message(&mut self, dot: Dot) {
        let Some(gone) = self.messages.remove(&dot) else {
            return;
        };
        for assignment in gone.assignments.dots() {
            self.assignments.remove(&assignment);
        }
        if let Some(holder) = gone.holder {
            self.presences.release(holder, dot);
        }
        if let Some(clock) = gone.clock {
            self.waiting.remove(&QueueKey { clock, dot });
            self.inherited.remove(&QueueKey { clock, dot });
        }
        self.given -= usize::from(gone.assignments.is_own());
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
        let Some(of) = self.messages.get_mut(&message) else {
            return;
        };
        let presences = &self.presences;
        let counting = of.clock.filter(|clock| presences.has_member_before(*clock));
        let was_own = of.assignments.is_own();
        let is_there = |presence: Dot| presences.is_there(presence, turn);
        let runs = Runs {
            own: turn.run,
            present: turn.present,
        };
        let holder = of.assignments.settle(runs, counting.is_some(), is_there);
        let before = std::mem::replace(&mut of.holder, holder);
        let (is_own, due) = (of.assignments.is_own(), of.assignments.due());
        self.given = self.given + usize::from(is_own) - usize::from(was_own);
        self.hold(message, before, holder);
        self.queue(message, counting);
        if let Some(due) = due {
            self.give(message, due, turn);
        }
    }

    /// A message counts for another presence than before.
    fn hold(&mut self, message: Dot, before: Option<Dot>, holder: Option<Dot>) {
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
        if let Some(clock) = counting.filter(|_| !of.assignments.is_own()) {
            let queue = match of.holder {
                Some(_) => &mut self.inherited,
                None => &mut self.waiting,
            };
            queue.insert(QueueKey { clock, dot });
        }
    }

    /// Tells the node of a presence.
    fn give<V, C: GroupCopies<V>>(&mut self, message: Dot, due: Assignment, turn: &mut Turn<'_, V, C>) {
        let Assignment {
            dot: assignment,
            presence,
        } = due;
        let Some(value) = turn.copies.value(turn.place, message) else {
            return;
        };
        if let Some(of) = self.messages.get_mut(&message) {
            of.assignments.set_given();
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
