//! Parts of shared groups upon the plane: at the node that is the primary owner of their slots (rules 63
//! to 65).
//!
//! ```text
//!             decides: reads the copy            lacks a number for a moment
//!   (unread) ------------------------> (read) ------------------------------> (held)
//!      ^                                ^ |                                      |
//!      |   ring changed, copy merged    | '---- decides: takes what was held ----'
//!      '--------------------------------'
//! ```
//!
//! What the plane reports of a copy goes to [`GroupSource`] as long as this node decides about the slot.
//! A node often lacks a number that is on its way. What is reported meanwhile is held, and taken when
//! the number has come.
//!
//! *Invariant*: the source hears of a part only while this node decides about its slot.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::acting::Queue;
use super::entries::EntryWrite;
use super::group_changes::{AfterGroup, GroupChange, with_routes};
use super::group_view::GroupView;
use super::waits::AllNodesWait;
use super::{Sessions, SessionsAction, SessionsValue};
use crate::groups::{GroupEntry, GroupPlace, SourceAction, SourceEvent, SourceLimits};
use crate::plane::{ChangedSession, Matching, NewBirth, NewEntry};
use crate::transfer::TransferBytes;
use crate::{Birth, ClientId, Dot, Entry, EntryId, Fact, GroupId, GroupSource, Run, Slot, SlotSet};

/// Events of one slot that are held at most. Beyond, its parts are read anew.
const HELD_MAX: usize = 1_024;

/// Parts of shared groups of which this node is the primary owner.
#[derive(Debug)]
pub(super) struct Parts {
    source: GroupSource,
    /// Slots with groups.
    slots: BTreeMap<Slot, PartSlot>,
    /// Slots that are not read, or of which events are held.
    behind: BTreeSet<Slot>,
    /// Slots that were read, and whose members are to be compared with the routes.
    uncompared: BTreeSet<Slot>,
}

#[derive(Debug, Default)]
struct PartSlot {
    is_read: bool,
    held: Vec<SourceEvent>,
}

impl Parts {
    pub(super) fn new(run: Run, limits: SourceLimits) -> Parts {
        Parts {
            source: GroupSource::new(run, limits),
            slots: BTreeMap::new(),
            behind: BTreeSet::new(),
            uncompared: BTreeSet::new(),
        }
    }

    /// Parts that wait for this node to decide about their slots; a gauge.
    pub(super) fn behind(&self) -> usize {
        self.behind.len()
    }

    /// Shared groups at their primary owner, to read.
    pub(super) fn source(&self) -> &GroupSource {
        &self.source
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn step_source_of_parts(&mut self, event: SourceEvent, queue: &mut Queue<V, M>) {
        let view = GroupView { plane: &self.plane };
        self.parts.source.step(event, &view, &mut queue.parts);
    }

    /// Tells of a part, at once or once this node decides about its slot.
    pub(super) fn tell_part(&mut self, slot: Slot, event: SourceEvent, queue: &mut Queue<V, M>) {
        let Some(of_slot) = self.parts.slots.get_mut(&slot) else {
            return;
        };
        // What is not read is read as it is then.
        if !of_slot.is_read {
            return;
        }
        if of_slot.held.is_empty() && self.plane.decides(slot) {
            self.step_source_of_parts(event, queue);
        } else if of_slot.held.len() < HELD_MAX {
            of_slot.held.push(event);
            self.parts.behind.insert(slot);
        } else {
            self.lose_parts(slot, queue);
        }
    }

    /// This node does not decide about a slot any more, or its copy is another one: it is read anew.
    pub(super) fn lose_parts(&mut self, slot: Slot, queue: &mut Queue<V, M>) {
        let Some(of_slot) = self.parts.slots.get_mut(&slot) else {
            return;
        };
        *of_slot = PartSlot::default();
        self.parts.behind.insert(slot);
        for place in self.parts.source.places(slot) {
            self.step_source_of_parts(SourceEvent::PartLost(place), queue);
        }
    }

    /// Goes on with slots about which this node decides again.
    pub(super) fn catch_up_with_parts(&mut self, queue: &mut Queue<V, M>) {
        let behind = self.parts.behind.iter().copied();
        let decided: Vec<Slot> = behind.filter(|slot| self.plane.decides(*slot)).collect();
        for slot in decided {
            self.parts.behind.remove(&slot);
            let Some(of_slot) = self.parts.slots.get_mut(&slot) else {
                continue;
            };
            let is_read = std::mem::replace(&mut of_slot.is_read, true);
            let mut events = std::mem::take(&mut of_slot.held);
            if !is_read {
                let places = GroupView { plane: &self.plane }.places(slot);
                events = places.into_iter().map(SourceEvent::PartReady).collect();
                self.parts.uncompared.insert(slot);
            }
            for event in events {
                self.step_source_of_parts(event, queue);
            }
        }
    }

    /// Makes members of parts those that the routes have, once the routes lack nothing.
    ///
    /// An event that makes or removes a member is for the routes and all parts. If its run ends first, it may
    /// have come to the owners of some of them only. One that has replaced a member would leave none.
    pub(super) fn compare_members(&mut self) {
        if self.parts.uncompared.is_empty() || !self.plane.is_merged(Slot::ROUTES) {
            return;
        }
        let (mut compared, mut writes) = (Vec::new(), Vec::new());
        if let Some(routes) = self.whole_routes() {
            let view = GroupView { plane: &self.plane };
            let uncompared = self.parts.uncompared.iter().copied();
            for slot in uncompared.filter(|slot| self.plane.decides(*slot)) {
                compared.push(slot);
                for place in view.places(slot) {
                    let unknown = view.unknown_members(&routes, &place);
                    writes.extend(
                        unknown
                            .iter()
                            .map(|(dot, entry)| member_anew(&place.group, *dot, entry)),
                    );
                    // Behind those that replace them, or messages would be for nobody.
                    let strays = view.strays(&routes, &place);
                    if !strays.is_empty() {
                        writes.push(removal_of_part(&place, strays));
                    }
                }
            }
        }
        for slot in compared {
            self.parts.uncompared.remove(&slot);
        }
        self.stalled.extend(writes);
    }

    /// The slot has come to have a group, or may have.
    pub(super) fn find_parts(&mut self, slot: Slot) {
        let is_known = self.parts.slots.contains_key(&slot);
        if slot.is_of_every_node() || is_known || !self.plane.is_primary(slot) {
            return;
        }
        if !(GroupView { plane: &self.plane }).places(slot).is_empty() {
            self.parts.slots.insert(slot, PartSlot::default());
            self.parts.behind.insert(slot);
        }
    }

    /// The ring has changed: all parts are read anew, at their primary owners.
    pub(super) fn change_ring_of_parts(&mut self, present: BTreeSet<Run>, queue: &mut Queue<V, M>) {
        let slots: Vec<Slot> = self.parts.slots.keys().copied().collect();
        for slot in slots {
            self.lose_parts(slot, queue);
        }
        self.parts.slots.clear();
        self.parts.behind.clear();
        self.parts.uncompared.clear();
        let owned: Vec<Slot> = self.plane.owned().iter().collect();
        for slot in owned {
            self.find_parts(slot);
        }
        self.step_source_of_parts(SourceEvent::RunsChanged(present), queue);
    }

    /// An event has changed a group in a copy of this node.
    pub(super) fn change_part(&mut self, group: &GroupId, changed: &ChangedSession, queue: &mut Queue<V, M>) {
        let slot = changed.slot;
        self.find_parts(slot);
        let place = GroupPlace {
            slot,
            group: group.clone(),
        };
        let (view, dot) = (GroupView { plane: &self.plane }, changed.by);
        if !self.parts.source.has_part(&place) && view.has_entries(&place) {
            self.tell_part(slot, SourceEvent::PartReady(place.clone()), queue);
        } else if let Some(entry) = view.made_by(&place, dot) {
            let place = place.clone();
            self.tell_part(slot, SourceEvent::Added { place, dot, entry }, queue);
        }
        for removed in &changed.removed {
            self.remove_of_part(&place, removed.dot(), queue);
        }
    }

    /// Entries of a group were dropped as garbage.
    pub(super) fn drop_of_part(
        &mut self,
        slot: Slot,
        group: GroupId,
        entries: &BTreeSet<EntryId>,
        queue: &mut Queue<V, M>,
    ) {
        let place = GroupPlace { slot, group };
        for id in entries {
            self.remove_of_part(&place, id.dot, queue);
        }
    }

    fn remove_of_part(&mut self, place: &GroupPlace, dot: Dot, queue: &mut Queue<V, M>) {
        let event = SourceEvent::Removed {
            place: place.clone(),
            dot,
        };
        self.tell_part(place.slot, event, queue);
        if !(GroupView { plane: &self.plane }).has_entries(place) {
            self.tell_part(place.slot, SourceEvent::PartLost(place.clone()), queue);
        }
    }

    /// A message of a group was queued, or is pending, in a copy of this node.
    pub(super) fn add_to_part(&mut self, slot: Slot, key: &ClientId, message: Dot, queue: &mut Queue<V, M>) {
        let Some(group) = GroupId::of_key(key) else {
            return;
        };
        let (place, dot) = (GroupPlace { slot, group }, message);
        let made = GroupView { plane: &self.plane }.made_by(&place, dot);
        let pending = || {
            let key = self.plane.pending_key(slot, dot)?;
            Some(GroupEntry::Message { clock: key.clock })
        };
        if let Some(entry) = made.or_else(pending) {
            self.tell_part(slot, SourceEvent::Added { place, dot, entry }, queue);
        }
    }

    /// The connection to a present node is a new one: what it was given is given again.
    pub(super) fn give_again_to(&mut self, node: NodeId, queue: &mut Queue<V, M>) {
        let slots = self.parts.slots.keys().copied();
        let undecided: Vec<Slot> = slots.filter(|slot| !self.plane.decides(*slot)).collect();
        for slot in undecided {
            self.lose_parts(slot, queue);
        }
        self.step_source_of_parts(SourceEvent::LinkRenewed(node), queue);
    }

    /// Does what a primary owner asks for.
    pub(super) fn apply_part(
        &mut self,
        action: SourceAction<V>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match action {
            SourceAction::Assign {
                place,
                assigned,
                removes,
            } => {
                // Nobody reads the clock: an assignment counts as its message does.
                let birth = Birth::of_group_message(assigned.message, Hlc::ZERO);
                let fact = Fact::Assignment(Box::new(assigned));
                let group = place.group.clone();
                let change = GroupChange {
                    slots: SlotSet::from_iter([place.slot]),
                    removes,
                    adds: Some(self.blank(birth, fact)),
                    then: AfterGroup::Assigned { place, assigned },
                };
                self.stalled.push_back(EntryWrite::of_group(&group, None, change));
            }
            SourceAction::AwaitKnown {
                place,
                message,
                assignment,
            } => {
                let wait = AllNodesWait::Assignment { place, message };
                self.await_all_nodes(assignment, wait, queue);
            }
            SourceAction::Give { to, give } => self.give_message(to, give, queue, actions),
            SourceAction::EndPresence { place, presence } => {
                self.stalled.push_back(removal_of_part(&place, vec![presence]));
            }
        }
    }
}

/// Event that writes a member anew, for the routes and all parts.
fn member_anew<V: Clone>(group: &GroupId, dot: Dot, entry: &Entry<V>) -> EntryWrite<V> {
    let mut fact = entry.fact.clone();
    if let Fact::Member(terms) = &mut fact {
        terms.since = entry.member_since();
    }
    let adds = NewEntry {
        birth: NewBirth::Of(entry.birth),
        fact,
        value: entry.value.clone(),
    };
    let change = GroupChange {
        slots: with_routes(group),
        removes: vec![dot],
        adds: Some(adds),
        then: AfterGroup::Nothing,
    };
    EntryWrite::of_group(group, None, change)
}

/// Event that removes entries of a part.
fn removal_of_part<V>(place: &GroupPlace, removes: Vec<Dot>) -> EntryWrite<V> {
    let slots = SlotSet::from_iter([place.slot]);
    EntryWrite::of_group(&place.group, None, GroupChange::removing(slots, removes))
}
