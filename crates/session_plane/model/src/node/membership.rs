//! Who is present: handshakes, the failure detector, hearsay, and ring markers (sections 3 and 5 of the specification).

use std::rc::Rc;

use super::{Node, Observation, SILENCE_MAX, Settled, Step};
use crate::event::Change;
use crate::ids::{Dot, EventSet, NODES, NodeId, NodeSet, Numbers, RUNS, Run, Slot, SlotSet};
use crate::message::{Heartbeat, Message};
use crate::rules::Rule;
use crate::view::{PresentRuns, State, View};

/// What a node knows of its peers.
#[derive(Clone, Debug)]
pub struct Membership {
    id: NodeId,
    pub state: State,
    pub view: View,
    /// A peer's state has changed since the last ring marker.
    states_changed: bool,
    runs: [Option<Run>; NODES],
    heard: [u32; NODES],
    /// When this node last sent each peer a heartbeat.
    answered: [u32; NODES],
    /// Peers that others have declared dead. They are sent nothing that keeps them waiting for an answer.
    suspects: NodeSet,
    /// What each present peer has told last that it knows.
    told: [Option<Rc<EventSet>>; NODES],
    /// And what all its copies have decided upon.
    settled: [Option<Told>; NODES],
    /// And before it retired a run.
    settled_before: [Option<Settled>; NODES],
    pub up_since: u32,
}

/// What a peer has told of each run, and the runs of the nodes that it had for present when it told that.
#[derive(Clone, Debug)]
struct Told {
    settled: Rc<Settled>,
    among: PresentRuns,
}

/// What two nodes tell each other in a handshake.
#[derive(Clone, Copy, Debug)]
pub struct Introduction {
    pub node: NodeId,
    pub run: Run,
    pub state: State,
    pub incarnation: u16,
}

impl Membership {
    pub fn new(id: NodeId, now: u32) -> Membership {
        Membership {
            id,
            state: State::Joining,
            view: View::alone(id),
            states_changed: false,
            runs: [None; NODES],
            heard: [0; NODES],
            answered: [0; NODES],
            suspects: NodeSet::EMPTY,
            told: [const { None }; NODES],
            settled: [const { None }; NODES],
            settled_before: [None; NODES],
            up_since: now,
        }
    }

    /// Begins as a member of a cluster whose nodes all run.
    pub fn found(&mut self, view: View) {
        self.state = State::Running;
        self.view = view;
        for peer in view.present.without(self.id).iter() {
            self.runs[peer.index()] = Some(Run::first_of(peer));
            self.heard[peer.index()] = 1;
            self.answered[peer.index()] = 1;
        }
    }

    pub fn peers(&self) -> NodeSet {
        self.view.present.without(self.id)
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.view.present.has(node)
    }

    /// Run in which `peer` was present last.
    pub fn run_of(&self, peer: NodeId) -> Option<Run> {
        self.runs[peer.index()]
    }

    /// `node` is present, in `run`.
    pub fn has_run(&self, node: NodeId, run: Run) -> bool {
        self.has(node) && self.runs[node.index()] == Some(run)
    }

    /// The last ring marker does not say any more how things are.
    pub fn is_changed(&self) -> bool {
        self.states_changed || self.view.state(self.id) != self.state
    }

    pub fn hear(&mut self, peer: NodeId, now: u32) {
        self.heard[peer.index()] = now;
    }

    pub fn answer(&mut self, peer: NodeId, now: u32) {
        self.answered[peer.index()] = now;
    }

    /// Takes what `peer` tells that it knows, behind the ring marker that has the runs `among` for present.
    pub fn take_knowledge(&mut self, peer: NodeId, heartbeat: &Heartbeat, among: PresentRuns) {
        self.told[peer.index()] = Some(Rc::clone(&heartbeat.known));
        self.settled[peer.index()] = Some(Told {
            settled: Rc::clone(&heartbeat.settled),
            among,
        });
        let before = self.settled_before[peer.index()].get_or_insert([None; RUNS]);
        for (before, told) in before.iter_mut().zip(heartbeat.settled.iter()) {
            *before = told.filter(|told| !told.is_retired()).or(*before);
        }
    }

    /// What `peer` has told last in this stay of `run`, before it retired that.
    pub fn settled_before(&self, peer: NodeId, run: Run) -> Option<Numbers> {
        self.settled_before[peer.index()].and_then(|settled| settled[run.index()])
    }

    /// What `peer` has told in this stay of its copies' events of `run`.
    pub fn settled(&self, peer: NodeId, run: Run) -> Option<Numbers> {
        self.settled[peer.index()]
            .as_ref()
            .and_then(|told| told.settled[run.index()])
    }

    /// What `peer` has told last, it told when it had exactly `runs` for present.
    pub fn has_told_among(&self, peer: NodeId, runs: &PresentRuns) -> bool {
        let told = self.settled[peer.index()].as_ref();
        told.is_some_and(|told| told.among == *runs)
    }

    /// `peer` has told in this stay that it knows all of `events`.
    pub fn has_told(&self, peer: NodeId, events: &EventSet) -> bool {
        let told = self.told[peer.index()].as_ref();
        told.is_some_and(|told| events.is_within(told, told))
    }

    /// `peer` has told in this stay that it knows the event.
    pub fn has_told_of(&self, peer: NodeId, event: Dot) -> bool {
        let told = self.told[peer.index()].as_ref();
        told.is_some_and(|told| told.has(event))
    }

    /// Peers that this node does not suspect.
    pub fn answered_peers(&self) -> NodeSet {
        self.peers().minus(self.suspects)
    }

    fn meet(&mut self, peer: &Introduction, now: u32) {
        let index = peer.node.index();
        self.view.incarnations[self.id.index()] += 1;
        self.view.incarnations[index] = peer.incarnation;
        self.view.present.insert(peer.node);
        self.view.states[index] = peer.state;
        self.runs[index] = Some(peer.run);
        self.heard[index] = now;
        self.answered[index] = now;
        self.told[index] = None;
        self.settled[index] = None;
        self.settled_before[index] = None;
        self.suspects.remove(peer.node);
    }

    /// Silent for too long, or convicted by others for long enough that its own failure detector has noticed.
    fn is_dead(&self, step: &Step<'_>, peer: NodeId) -> bool {
        let is_silent = step.now - self.heard[peer.index()] > SILENCE_MAX;
        let has_waited = step.now > self.answered[peer.index()] + SILENCE_MAX / 2;
        is_silent || self.suspects.has(peer) && (has_waited || !step.holds(Rule::HearsayWaits))
    }

    /// Takes the incarnations of `view`; a node whose incarnation is higher than the convicted one is no suspect.
    fn refute(&mut self, step: &Step<'_>, view: &View, from: NodeId) {
        let refuting = if step.holds(Rule::Incarnations) {
            view.present.and(self.suspects)
        } else {
            NodeSet::EMPTY
        };
        for node in refuting.union(NodeSet::one(from)).iter() {
            if view.incarnation(node) > self.view.incarnation(node) {
                self.view.incarnations[node.index()] = view.incarnation(node);
                if step.holds(Rule::Incarnations) {
                    self.suspects.remove(node);
                }
            }
        }
    }
}

impl Node {
    /// What this node says of itself in a handshake.
    pub fn introduction(&self) -> Introduction {
        Introduction {
            node: self.id,
            run: self.sender.run,
            state: self.membership.state,
            incarnation: self.membership.view.incarnation(self.id) + 1,
        }
    }

    /// Takes `peer` for present. `loses`: this node is of the smaller side.
    pub fn shake_hands(&mut self, step: &mut Step<'_>, peer: Introduction, loses: bool) {
        step.counters.handshakes += 1;
        self.membership.meet(&peer, step.now);
        self.sender.meet(peer.node);
        for copy in self.copies.iter_mut().flatten() {
            copy.closing = None;
            if copy.owned {
                copy.unanswered.insert(peer.node);
                copy.forget_answers();
                copy.has_merged = false;
            }
            copy.served.remove(peer.node);
            copy.asked.remove(peer.node);
        }
        if loses {
            self.membership.state = State::MergeMinority;
        }
        self.send_marker(step, Some(peer.node));
    }

    /// Runs that this node takes for present, its own among them.
    pub(super) fn present_runs(&self) -> PresentRuns {
        let run_of = |node: NodeId| match node == self.id {
            true => Some(self.sender.run),
            false => self.membership.run_of(node).filter(|_| self.membership.has(node)),
        };
        std::array::from_fn(|index| run_of(NodeId(index as u8)))
    }

    pub(super) fn detect_failures(&mut self, step: &mut Step<'_>, refused: NodeSet) {
        for peer in self.membership.peers().iter() {
            if refused.has(peer) || self.membership.is_dead(step, peer) {
                self.declare_dead(step, peer);
            }
        }
    }

    /// Gives a peer up: nothing more is sent to it until both shake hands anew.
    fn declare_dead(&mut self, step: &mut Step<'_>, peer: NodeId) {
        step.counters.declared_dead += 1;
        step.trace(|| format!("  node {} declares {} dead", self.id.0, peer.0));
        self.membership.view.present.remove(peer);
        self.membership.suspects.remove(peer);
        step.observe(Observation::DeclaredDead(peer));
        self.end_transfers(step, peer);
        self.send_flush_positions(step, peer);
        self.sender.part(peer);
        self.forget_claims_of(peer);
        self.send_marker(step, None);
    }

    /// Says "from here on I route by this view", and brings what depends on the ring to the new owners.
    pub(super) fn send_marker(&mut self, step: &mut Step<'_>, welcomed: Option<NodeId>) {
        if step.holds(Rule::ClaimAnew) {
            self.sender.drop_starts();
        }
        self.membership.view.states[self.id.index()] = self.membership.state;
        self.membership.view.runs = self.present_runs();
        self.membership.states_changed = false;
        self.close_feeds();
        let view = self.membership.view;
        self.emit(step, Change::RingMarker(view), SlotSet::EMPTY, welcomed);
        self.begin_claims_anew(step, &view);
        if step.holds(Rule::ConnectionToNewOwners) {
            self.send_connections(step, &view);
        }
        self.update_ownership();
        if step.holds(Rule::ResendToNewOwners) {
            self.resend_unconfirmed(step);
        }
        self.route_again(step);
        self.store_again(step);
    }

    /// Makes, for each slot, the copy an owner's copy or a holder's copy by the node's own view.
    pub(super) fn update_ownership(&mut self) {
        let (view, peers, known) = (self.membership.view, self.membership.peers(), self.known());
        for slot in Slot::all() {
            if !view.owns(self.id, slot) {
                if let Some(copy) = self.copies[slot.index()].as_mut().filter(|copy| copy.owned) {
                    copy.owned = false;
                    copy.ask_all(NodeSet::EMPTY);
                }
                continue;
            }
            let copy = self.copy_mut(slot);
            if !copy.owned {
                copy.owned = true;
                copy.abandoned = false;
                copy.closing = None;
                copy.has_merged = peers.is_empty();
                copy.ask_all(peers);
                copy.content.needed.add_all(&known);
            }
        }
    }

    /// Learns from a peer's ring marker: its state, who is refuted, and whom it has declared dead.
    pub(super) fn see_view(&mut self, step: &Step<'_>, from: NodeId, before: Option<View>, view: &View) {
        let membership = &mut self.membership;
        let peers = membership.peers();
        if membership.view.state(from) != view.state(from) {
            membership.view.states[from.index()] = view.state(from);
            membership.states_changed = true;
        }
        membership.refute(step, view, from);
        let Some(before) = before else { return };
        for node in before.present.minus(view.present).and(peers).iter() {
            let is_old = view.incarnation(node) < self.membership.view.incarnation(node);
            if !(step.holds(Rule::Incarnations) && is_old) {
                let convicted = self.convicted(from, node);
                self.membership.suspects.insert(convicted);
            }
        }
    }

    /// Of two peers that have declared each other dead one goes: the higher.
    fn convicted(&self, from: NodeId, node: NodeId) -> NodeId {
        let ring = self.ring_of(node);
        let is_mutual = ring.is_some_and(|ring| !ring.present.has(from));
        if is_mutual { node.max(from) } else { node }
    }

    /// This node does not start, or has met one that runs, and all in the rings of its peers: clients may be served.
    pub(super) fn may_serve(&self) -> bool {
        self.state() != State::Joining || self.someone_runs() && self.has_met_all()
    }

    fn has_met_all(&self) -> bool {
        let present = self.membership.view.present;
        let met = |ring: View| ring.present.minus(present).is_empty();
        present
            .without(self.id)
            .iter()
            .all(|peer| self.ring_of(peer).is_some_and(met))
    }

    fn someone_runs(&self) -> bool {
        let peers = self.membership.view.present.without(self.id);
        let mut states = peers.iter().map(|peer| self.membership.view.state(peer));
        states.any(|state| state == State::Running)
    }

    /// Brings the node's state further (rules R2 to R4).
    pub(super) fn change_state(&mut self, step: &mut Step<'_>) {
        let peers = self.membership.peers();
        let has_given = Slot::of_sessions().all(|slot| self.has_given(slot));
        let has_got = self
            .copies
            .iter()
            .flatten()
            .all(|copy| copy.unanswered.is_empty());
        let someone_runs = self.someone_runs();
        let is_giving = matches!(self.state(), State::Joining | State::MergeMinority);
        if !has_given && is_giving && step.now.is_multiple_of(12) {
            self.offer_all(step);
        }
        let has_waited = step.now - self.membership.up_since > 30;
        let next = match self.state() {
            State::Joining if someone_runs && has_given && has_got && (self.has_met_all() || has_waited) => {
                State::Running
            }
            State::Joining if !someone_runs && has_got && has_waited => State::Running,
            State::MergeMinority if has_given || peers.is_empty() => State::Merging,
            State::Merging if has_got => State::Running,
            state => state,
        };
        if next != self.state() {
            step.trace(|| format!("  node {} becomes {next:?}", self.id.0));
            self.membership.state = next;
            self.send_marker(step, None);
        }
    }

    /// The owners of `slot` have merged an answer of this node's copy.
    fn has_given(&self, slot: Slot) -> bool {
        let owners = self.membership.view.owners(slot).without(self.id);
        self.copy(slot)
            .is_none_or(|copy| owners.minus(copy.served).is_empty())
    }

    fn offer_all(&mut self, step: &mut Step<'_>) {
        for slot in Slot::of_sessions() {
            let Some(copy) = self.copy(slot) else { continue };
            let owners = self.membership.view.owners(slot).without(self.id);
            for owner in owners.minus(copy.served).iter() {
                step.send(owner, Message::Offer { slot });
            }
        }
    }
}
