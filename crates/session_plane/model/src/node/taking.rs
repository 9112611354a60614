//! Taking events from streams, and claiming them (sections 3 and 4 of the specification).

use std::collections::BTreeMap;

use super::{Node, Observation, Step};
use crate::event::{Change, Event};
use crate::ids::{Dot, EventSet, MAPS, NODES, NodeId, Numbers, RUNS, Run, Slot};
use crate::message::Heartbeat;
use crate::rules::Rule;
use crate::view::View;

/// How far this node has each run's stream. On disk.
#[derive(Clone, Debug)]
pub struct Receiver {
    taken: [u8; RUNS],
    rings: [Option<View>; RUNS],
    markers: BTreeMap<Dot, View>,
    /// For each slot and run, the marker that made this node an owner.
    owner_since: [[u8; RUNS]; MAPS],
    /// Events taken by stream as owner.
    by_stream: [EventSet; MAPS],
    /// Events that not all present nodes have confirmed, for flushes.
    buffer: BTreeMap<Dot, Event>,
    stable: [u8; RUNS],
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            taken: [0; RUNS],
            rings: [None; RUNS],
            markers: BTreeMap::new(),
            owner_since: [[0; RUNS]; MAPS],
            by_stream: Default::default(),
            buffer: BTreeMap::new(),
            stable: [0; RUNS],
        }
    }
}

impl Receiver {
    /// Begins a run of this node.
    pub fn start(&mut self, run: Run, view: View) {
        self.rings[run.index()] = Some(view);
    }

    /// A run that began with the cluster.
    pub fn found(&mut self, run: Run, view: View) {
        self.rings[run.index()] = Some(view);
        self.markers.insert(Dot { run, number: 0 }, view);
    }

    pub fn ring(&self, run: Run) -> Option<View> {
        self.rings[run.index()]
    }

    pub fn taken(&self, run: Run) -> u8 {
        self.taken[run.index()]
    }

    pub fn stable(&self, run: Run) -> u8 {
        self.stable[run.index()]
    }

    pub fn owner_since(&self, slot: Slot, run: Run) -> u8 {
        self.owner_since[slot.index()][run.index()]
    }

    /// Numbers of `run` that this node took by stream as owner, for each slot.
    pub fn by_stream(&self, run: Run) -> [Numbers; MAPS] {
        std::array::from_fn(|slot| self.by_stream[slot].of(run))
    }

    pub fn add_by_stream(&mut self, slot: Slot, run: Run, numbers: Numbers) {
        self.by_stream[slot.index()].add(run, numbers);
    }

    pub fn keep(&mut self, event: &Event) {
        self.buffer.insert(event.dot, event.clone());
    }

    /// Kept events of `run` after `number`.
    pub fn kept_after(&self, run: Run, number: u8) -> Vec<Event> {
        let is_wanted = |event: &&Event| event.dot.run == run && event.dot.number > number;
        self.buffer.values().filter(is_wanted).cloned().collect()
    }

    /// Drops what all present nodes have.
    fn set_stable(&mut self, run: Run, number: u8) {
        if number > self.stable[run.index()] {
            self.stable[run.index()] = number;
            self.buffer.retain(|dot, _| dot.run != run || dot.number > number);
        }
    }

    /// Begins anew after a handshake: the stream is from `number` on.
    fn welcome(&mut self, run: Run, number: u8) {
        self.taken[run.index()] = number;
        self.stable[run.index()] = number;
        self.buffer.retain(|dot, _| dot.run != run);
        self.rings[run.index()] = None;
    }

    /// View by which `run` routed after its event `number`.
    pub fn ring_at(&self, run: Run, number: u8) -> Option<View> {
        let (dot, view) = self.markers.range(..=Dot { run, number }).next_back()?;
        (dot.run == run).then_some(*view)
    }

    /// Last ring marker of `run`. None: it routes as at the begin of the history.
    pub fn last_marker(&self, run: Run) -> Option<Dot> {
        let markers = Dot { run, number: 1 }..=Dot { run, number: u8::MAX };
        self.markers.range(markers).next_back().map(|(dot, _)| *dot)
    }

    /// Skips to `to` without the events in between.
    pub fn jump(&mut self, run: Run, to: u8, ring: Option<View>) {
        self.taken[run.index()] = to;
        self.rings[run.index()] = ring;
    }

    pub fn set_stable_at(&mut self, run: Run, number: u8) {
        self.stable[run.index()] = number;
    }

    pub fn set_ring(&mut self, run: Run, ring: Option<View>) {
        self.rings[run.index()] = ring;
    }
}

impl Node {
    /// Takes the next event of a peer's stream.
    pub(super) fn receive_event(&mut self, step: &mut Step<'_>, from: NodeId, event: &Event) {
        let before = self.receiver.ring(event.dot.run);
        self.advance(step, event.dot.run, event.dot.number, Some(event));
        if let Change::RingMarker(view) = &event.change {
            self.see_view(step, from, before, view);
        }
    }

    /// Takes the first event of a stream after a handshake: a ring marker.
    pub(super) fn receive_welcome(&mut self, step: &mut Step<'_>, from: NodeId, event: &Event) {
        let Change::RingMarker(view) = &event.change else {
            unreachable!("a stream begins with a ring marker")
        };
        let dot = event.dot;
        self.receiver.welcome(dot.run, dot.number);
        self.set_ring(dot, *view);
        self.see_clock(event);
        self.receiver.keep(event);
        self.need_where_owned(step, &event.known);
        self.see_view(step, from, None, view);
    }

    pub(super) fn receive_heartbeat(&mut self, step: &mut Step<'_>, from: NodeId, heartbeat: &Heartbeat) {
        let Some(run) = self.membership.run_of(from) else {
            return;
        };
        self.membership.hear(from, step.now);
        self.clock = self.clock.max(heartbeat.clock);
        self.advance(step, run, heartbeat.position, None);
        self.need_where_owned(step, &heartbeat.known);
        let among = self.receiver.ring(run).map_or([None; NODES], |ring| ring.runs);
        self.membership.take_knowledge(from, heartbeat, among);
        self.sender.confirm(from, heartbeat.confirmed);
        self.receiver.set_stable(run, heartbeat.stable);
        self.claim_all(step);
    }

    /// Takes the stream of `run` up to `number`; `event` is the event of that number, if it was for this node.
    pub(super) fn advance(&mut self, step: &mut Step<'_>, run: Run, number: u8, event: Option<&Event>) {
        let before = self.receiver.taken(run);
        if number <= before {
            return;
        }
        self.receiver.taken[run.index()] = number;
        if let Some(ring) = self.receiver.ring(run) {
            self.take_range(step, run, &ring, Numbers::between(before, number), event);
        }
        if let Some(event) = event {
            self.see_event(step, event);
        }
        self.claim_all(step);
    }

    /// Takes numbers of `run` for the slots that this node owns by the sender's ring.
    fn take_range(
        &mut self,
        step: &mut Step<'_>,
        run: Run,
        ring: &View,
        range: Numbers,
        event: Option<&Event>,
    ) {
        for slot in Slot::all() {
            let owns = ring.owns(self.id, slot);
            if !owns && (step.holds(Rule::ClaimByRing) || self.copy(slot).is_none()) {
                continue;
            }
            if owns {
                self.receiver.add_by_stream(slot, run, range);
            }
            self.take(slot, run, range);
            if let Some(event) = event.filter(|event| event.is_for(slot)) {
                self.apply(step, slot, event);
            }
        }
    }

    /// Marks numbers of `run` as taken in the copy of `slot`.
    pub(super) fn take(&mut self, slot: Slot, run: Run, numbers: Numbers) {
        let content = &mut self.copy_mut(slot).content;
        let new = numbers.minus(content.covered.of(run));
        content.taken.add(run, new);
    }

    /// Learns from an event what its sender knew and how it routes from here on.
    fn see_event(&mut self, step: &Step<'_>, event: &Event) {
        let is_own = event.dot.run == self.sender.run;
        if !is_own {
            self.receiver.keep(event);
            self.see_clock(event);
        }
        if let Change::RingMarker(view) = &event.change {
            self.set_ring(event.dot, *view);
        }
        if !is_own {
            self.need_everywhere(step, &event.known);
        }
    }

    /// Makes holes of what the copies lack of `known`: what the sender of an event knew.
    pub(super) fn need_everywhere(&mut self, step: &Step<'_>, known: &EventSet) {
        for copy in self
            .copies
            .iter_mut()
            .flatten()
            .filter(|_| step.holds(Rule::Causal))
        {
            copy.content.needed.add_all(known);
        }
    }

    /// As [`Node::need_everywhere`], for what is told outside of events: a copy that is only held gets no more of those.
    fn need_where_owned(&mut self, step: &Step<'_>, known: &EventSet) {
        let owned = self.copies.iter_mut().flatten().filter(|copy| copy.owned);
        for copy in owned.filter(|_| step.holds(Rule::Causal)) {
            copy.content.needed.add_all(known);
        }
    }

    /// From `dot` on its run routes by `view`: where this node becomes an owner, what came before is a hole.
    pub(super) fn set_ring(&mut self, dot: Dot, view: View) {
        let before = self.receiver.ring(dot.run);
        for slot in Slot::all() {
            let becomes_owner =
                view.owns(self.id, slot) && !before.is_some_and(|before| before.owns(self.id, slot));
            if becomes_owner {
                let content = &mut self.copy_mut(slot).content;
                content.needed.add(dot.run, Numbers::up_to(dot.number));
                self.receiver.owner_since[slot.index()][dot.run.index()] = dot.number;
            }
        }
        self.receiver.set_ring(dot.run, Some(view));
        self.receiver.markers.insert(dot, view);
    }

    /// Applies an event to the copy of `slot`: a message becomes pending, other changes show at once.
    pub(super) fn apply(&mut self, step: &mut Step<'_>, slot: Slot, event: &Event) {
        if slot != Slot::ROUTES {
            step.observe(Observation::Took {
                node: self.id,
                dot: event.dot,
            });
        }
        let rules = step.rules;
        let copy = self.copy_mut(slot);
        match &event.change {
            Change::Publish if slot == Slot::ROUTES => {}
            Change::Publish => {
                if copy.content.keep_pending(event) && !may_claim(step, copy) {
                    step.counters.pended += 1;
                    if !rules.hold(Rule::Rematch) {
                        copy.content.match_early(rules);
                    }
                }
            }
            _ => copy.content.apply(rules, event),
        }
        if let Change::OpenConnection { client } = event.change {
            let node = step.directory.node(event.dot.run);
            self.add_claim(node, client, event.dot);
        }
    }

    pub(super) fn claim_all(&mut self, step: &Step<'_>) {
        for slot in Slot::all() {
            self.try_claim(step, slot);
        }
    }

    /// Extends V by what was taken, if the copy of `slot` is whole.
    pub(super) fn try_claim(&mut self, step: &Step<'_>, slot: Slot) {
        let Some(copy) = self.copies[slot.index()].as_mut() else {
            return;
        };
        let has_something = !copy.content.pending.is_empty() || !copy.content.taken.is_empty();
        if has_something && may_claim(step, copy) {
            copy.content.claim(step.rules);
        }
    }
}

/// The copy has merged with all holders and lacks nothing that it knows of.
fn may_claim(step: &Step<'_>, copy: &super::Copy) -> bool {
    !step.holds(Rule::Holes) || copy.unanswered.is_empty() && !copy.content.has_hole()
}
