//! Source: shared groups at the primary owner of their parts.
//!
//! ```text
//!            a presence has room       event made            all nodes know it
//!  waiting ----------------------> Making -------------> Made ----------------> Given
//!     ^                              |                     |                      |
//!     '------------ the connection has ended, or its node is given up ------------'
//! ```
//!
//! The source gives each message to one presence. Of those whose session is a member it takes the one
//! that is given the fewest messages, and of several the one that was given none for longest. It goes on with what an earlier
//! primary owner has assigned: to the same presence, by an assignment of its own. It takes a message
//! back when the presence has ended. An acknowledgement removes the message, whoever is given it.
//!
//! *Invariants*: a connection is told of an assignment that every present node knows (rule
//! `give-first`), and not beside a rival of another primary owner, which may have been told
//! (`source/assignments.rs`). A part is here only while this node decides about it (rule `give-merged`).
//!
//! The node has the copies, and waits for confirmations.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::{AssignedMessage, GroupId, Run, Slot};

mod action;
mod assignments;
mod event;
mod part;
mod presences;

pub use action::SourceAction;
pub use event::{GroupCopies, GroupEntry, GroupPlace, ReadEntry, SourceEvent};

use part::Part;

/// Limits of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// Messages of all parts at most that this run has assigned, and that are not acknowledged. Further
    /// ones wait in their parts.
    pub given_max: usize,
    /// Messages of one part that a presence is given at most before it acknowledges one. Further ones
    /// go to others, or wait.
    pub window: usize,
}

/// Parts of shared groups about which this node decides.
///
/// A part takes memory for each of its entries, about 200 bytes. An event costs O(log n) for each
/// message that it concerns: the end of a presence concerns what it was given, a change of the
/// earliest membership or of the nodes all messages of the part.
#[derive(Debug)]
pub struct GroupSource {
    run: Run,
    limits: SourceLimits,
    /// Runs that are present, this one among them.
    present: BTreeSet<Run>,
    parts: BTreeMap<GroupPlace, Part>,
    /// What this run has told the nodes of presences, of parts that are lost.
    told: BTreeMap<GroupPlace, BTreeSet<AssignedMessage>>,
    /// Parts with a message that could be assigned, but for the limit of all.
    ready: BTreeSet<GroupPlace>,
    /// Part that has had its turn last.
    last: Option<GroupPlace>,
    given: usize,
}

impl GroupSource {
    /// Source of a run, without parts. Nobody is present before the first [`SourceEvent::RunsChanged`].
    pub fn new(run: Run, limits: SourceLimits) -> GroupSource {
        GroupSource {
            run,
            limits,
            present: BTreeSet::new(),
            parts: BTreeMap::new(),
            told: BTreeMap::new(),
            ready: BTreeSet::new(),
            last: None,
            given: 0,
        }
    }

    /// Takes what has happened; appends what the node does.
    pub fn step<V>(
        &mut self,
        event: SourceEvent,
        copies: &impl GroupCopies<V>,
        actions: &mut Vec<SourceAction<V>>,
    ) {
        match event {
            SourceEvent::PartReady(place) => self.begin(&place, copies, actions),
            SourceEvent::PartLost(place) => self.lose(&place),
            SourceEvent::Added { place, dot, entry } => {
                self.change(&place, copies, actions, |part, turn| part.add(dot, &entry, turn));
            }
            SourceEvent::Removed { place, dot } => {
                self.change(&place, copies, actions, |part, turn| part.remove(dot, turn));
            }
            SourceEvent::Assigned {
                place,
                assigned,
                made,
            } => self.change(&place, copies, actions, |part, turn| {
                part.assigned(assigned, made, turn);
            }),
            SourceEvent::Known {
                place,
                message,
                assignment,
            } => self.change(&place, copies, actions, |part, turn| {
                part.known(message, assignment, turn);
            }),
            SourceEvent::RunsChanged(present) => {
                self.present = present;
                self.change_all(copies, actions, Part::change_runs);
            }
            SourceEvent::LinkRenewed(node) => {
                self.change_all(copies, actions, |part, turn| part.give_again(node, turn));
            }
        }
        self.assign(copies, actions);
    }

    /// The part is here: this node decides about it, as far as it was told.
    pub fn has_part(&self, place: &GroupPlace) -> bool {
        self.parts.contains_key(place)
    }

    /// Parts of a slot that are here.
    pub fn places(&self, slot: Slot) -> Vec<GroupPlace> {
        let group = GroupId::first();
        let of_slot = self.parts.range(GroupPlace { slot, group }..);
        let of_slot = of_slot.take_while(|(place, _)| place.slot == slot);
        of_slot.map(|(place, _)| place.clone()).collect()
    }

    /// Messages that this run has assigned, and that are not acknowledged.
    pub fn given(&self) -> usize {
        self.given
    }

    /// Messages that wait: no member has room, or this run has assigned as many as it may.
    pub fn waiting(&self) -> usize {
        self.parts.values().map(Part::waiting).sum()
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.told.values().map(BTreeSet::len).sum()
    }

    /// The copy of a part may decide: reads it, and goes on with what was assigned.
    fn begin<V>(
        &mut self,
        place: &GroupPlace,
        copies: &impl GroupCopies<V>,
        actions: &mut Vec<SourceAction<V>>,
    ) {
        self.lose(place);
        let Some(entries) = copies.read(place) else {
            return;
        };
        let told = self.told.remove(place).unwrap_or_default();
        self.parts.insert(place.clone(), Part::default());
        self.change(place, copies, actions, |part, turn| {
            part.read(entries, told, turn);
        });
    }

    fn lose(&mut self, place: &GroupPlace) {
        let Some(lost) = self.parts.remove(place) else {
            return;
        };
        self.given -= lost.given();
        self.ready.remove(place);
        self.remember(place, lost.told());
    }

    /// Remembers what was told, in case that this node decides about the part again. That is as much as
    /// this node may assign, or what one part had: beyond it other parts are forgotten, as if nobody had
    /// been told.
    fn remember(&mut self, place: &GroupPlace, told: BTreeSet<AssignedMessage>) {
        let mut remembered = told.len();
        self.told.retain(|_, others| {
            remembered += others.len();
            remembered <= self.limits.given_max
        });
        if !told.is_empty() {
            self.told.insert(place.clone(), told);
        }
    }

    /// Changes a part, if this node decides about it.
    fn change<V, C: GroupCopies<V>>(
        &mut self,
        place: &GroupPlace,
        copies: &C,
        actions: &mut Vec<SourceAction<V>>,
        change: impl FnOnce(&mut Part, &mut Turn<'_, V, C>),
    ) {
        let Some(part) = self.parts.get_mut(place) else {
            return;
        };
        let before = part.given();
        let mut turn = Turn {
            run: self.run,
            place,
            present: &self.present,
            copies,
            actions,
        };
        change(part, &mut turn);
        self.given = self.given - before + part.given();
        if part.is_ready(self.limits.window) {
            self.ready.insert(place.clone());
        } else {
            self.ready.remove(place);
        }
    }

    fn change_all<V, C: GroupCopies<V>>(
        &mut self,
        copies: &C,
        actions: &mut Vec<SourceAction<V>>,
        change: impl Fn(&mut Part, &mut Turn<'_, V, C>),
    ) {
        let places: Vec<GroupPlace> = self.parts.keys().cloned().collect();
        for place in places {
            self.change(&place, copies, actions, &change);
        }
    }

    /// Assigns messages while there is room. Parts take turns, so that none has all of it.
    fn assign<V>(&mut self, copies: &impl GroupCopies<V>, actions: &mut Vec<SourceAction<V>>) {
        let window = self.limits.window;
        while self.given < self.limits.given_max {
            let Some(place) = self.next_ready() else {
                return;
            };
            self.change(&place, copies, actions, |part, turn| {
                part.assign_next(window, turn);
            });
            self.last = Some(place);
        }
    }

    /// Part that is ready behind the last one, or the first.
    fn next_ready(&self) -> Option<GroupPlace> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.ready.range((after, Bound::Unbounded));
        behind.next().or(self.ready.first()).cloned()
    }
}

/// What a part needs of its surroundings for one change.
struct Turn<'a, V, C> {
    run: Run,
    place: &'a GroupPlace,
    present: &'a BTreeSet<Run>,
    copies: &'a C,
    actions: &'a mut Vec<SourceAction<V>>,
}
