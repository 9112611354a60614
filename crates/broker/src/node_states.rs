//! How far the nodes of the cluster are in the session plane: what `cluster::session_plane::nodes` needs, from what happens to the node.
//!
//! A node that joins or merges is not responsible before every part of the session plane has handed over what it has to: it and all that
//! it counts on have the same retained messages then.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use bytes::{BufMut, Bytes};
use cluster::peer_header::{self, HEADER_LENGTH, PeerError};
use cluster::session_plane::announcement::Word;
use cluster::session_plane::detection::DetectionConfig;
use cluster::session_plane::lifecycle::{NodeState, Reason};
use cluster::session_plane::nodes::{Handover, NodeStanding, Nodes, NodesOutput, StateChange};
use cluster::session_plane::{Actor, Ring};
use cluster::{GroupId, Incarnation, NodeId};
use mqtt::now::Now;

use crate::control_group::RemovedNode;
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::report::Report;
use crate::routes::Lost;

/// What nodes tell each other of their states travels under this number, which no group has.
pub(crate) const NODE_STATES: GroupId = GroupId(u32::MAX - 2);

/// The kind of all messages; there is one.
const KIND: u8 = 1;

/// What this node knows of the states of all.
#[derive(Debug)]
pub(crate) struct NodeStates {
    nodes: Nodes,
    known: BTreeSet<NodeId>,
    /// Who is responsible now, and who will be when joins and merges have ended: made anew when a state changes.
    primary: Ring,
    minority: Ring,
    /// What the parts are handing over.
    handover: Option<Handover>,
    /// Last states of nodes that were removed in this run, the newest last.
    removed: VecDeque<RemovedNode>,
}

/// As many removed nodes are remembered; of more, the newest.
const REMOVED_MAX: usize = 64;

impl NodeStates {
    fn new(now: Now, config: &DetectionConfig) -> Self {
        let mut nodes = Nodes::new(now.instant, config);
        nodes.rely_on_links();
        Self {
            nodes,
            known: BTreeSet::new(),
            primary: Ring::primary([]),
            minority: Ring::minority([]),
            handover: None,
            removed: VecDeque::new(),
        }
    }

    /// Remembers the states of nodes that are not in the cluster any more.
    fn record_removed(&mut self, gone: &[NodeId]) {
        let standings = self.nodes.standings().into_iter();
        let found = standings.filter(|standing| gone.contains(&standing.node));
        self.removed.extend(found.map(|standing| RemovedNode {
            node: standing.node,
            sessions: (standing.state, standing.reason),
        }));
        let excess = self.removed.len().saturating_sub(REMOVED_MAX);
        self.removed.drain(..excess);
    }

    /// Who is responsible now.
    pub(crate) fn primary(&self) -> &Ring {
        &self.primary
    }

    /// Who will be responsible when joins and merges have ended.
    pub(crate) fn minority(&self) -> &Ring {
        &self.minority
    }

    /// How far this node is.
    pub(crate) fn own_state(&self) -> NodeState {
        self.state_of(self.nodes.own())
    }

    /// How far a node is, as this one sees it.
    pub(crate) fn state_of(&self, node: NodeId) -> NodeState {
        self.nodes.state_of(node)
    }

    /// Whether a node is counted on, whatever it does.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        !matches!(self.state_of(node), NodeState::NotJoined | NodeState::Dead)
    }

    /// Whether all nodes of the cluster are there and responsible: nobody may come with something of old.
    pub(crate) fn is_everybody_running(&self) -> bool {
        let mut known = self.known.iter();
        known.all(|node| self.state_of(*node) == NodeState::Running)
    }

    /// The other nodes that are.
    fn present(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.nodes.own();
        let others = self.known.iter().copied().filter(move |node| *node != own);
        others.filter(|node| self.is_there(*node))
    }

    /// What is to be handed over now, if anything is.
    pub(crate) fn handover(&self) -> Option<Handover> {
        self.handover
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.nodes.deadline()
    }

    /// How each node stands, by id.
    pub(crate) fn standings(&self) -> Vec<NodeStanding> {
        self.nodes.standings()
    }
}

impl Node {
    /// From here on the node takes part, in a cluster.
    pub(crate) fn begin_node_states(&mut self, now: Now, (node, incarnation): (NodeId, u32)) {
        if self.control.is_none() {
            return;
        }
        let config = DetectionConfig {
            own: Actor {
                node,
                incarnation: Incarnation(incarnation),
            },
            dead_after: self.config.routes.silence_max,
            seed: self.config.seed ^ u64::from(incarnation),
        };
        self.states = Some(Box::new(NodeStates::new(now, &config)));
    }

    /// How each node of the cluster stands in the session plane, by id. Empty where there is none.
    pub fn standings(&self) -> Vec<NodeStanding> {
        let states = self.states.as_ref();
        states.map(|states| states.standings()).unwrap_or_default()
    }

    /// Nodes that were removed in this run, with their last states.
    pub(crate) fn removed_nodes(&self) -> Vec<RemovedNode> {
        let states = self.states.iter();
        states.flat_map(|states| states.removed.iter().copied()).collect()
    }

    /// Word that first told of this node's state: it changes with the state, and with each start. `None`: there is no cluster.
    pub fn state_word(&self) -> Option<Word> {
        let states = self.states.as_ref()?;
        Some(states.nodes.state_word())
    }

    /// What another node says of states.
    pub(crate) fn node_states_message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        if message[HEADER_LENGTH - 1] != KIND {
            return drop_message(from, PeerError::Damaged, actions);
        }
        let message = message.slice(HEADER_LENGTH..);
        let mut heard = Ok(());
        self.with_states(now, actions, |nodes, outputs| {
            heard = nodes.hear(now.instant, from, message, outputs);
        });
        if let Err(error) = heard {
            drop_message(from, error, actions);
        }
    }

    /// Does what is due.
    pub(crate) fn node_states_timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.with_states(now, actions, |nodes, outputs| nodes.tick(now.instant, outputs));
        self.go_on_handing_over(now, actions);
    }

    /// A node that is not reached directly misses what is written here.
    pub(crate) fn note_answering(
        &mut self,
        now: Now,
        (node, is_answering): (NodeId, bool),
        actions: &mut Vec<Action>,
    ) {
        self.with_states(now, actions, |nodes, outputs| {
            nodes.set_linked(now.instant, node, is_answering, outputs);
        });
    }

    /// Another node has lost one, and redirects what was for it.
    pub(crate) fn hear_of_lost_state(&mut self, now: Now, lost: NodeId, actions: &mut Vec<Action>) {
        self.with_states(now, actions, |nodes, outputs| {
            nodes.hear_of_loss(now.instant, lost, outputs);
        });
    }

    /// Takes over which nodes the cluster has.
    pub(crate) fn compare_members(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.with_states(now, actions, |_, _| {});
    }

    /// The node stops, and says so.
    pub(crate) fn stop_node_states(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.with_states(now, actions, |nodes, outputs| nodes.stop(now.instant, outputs));
    }

    /// Goes on when every part has handed over what there is.
    pub(crate) fn go_on_handing_over(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some(handover) = self.states.as_ref().and_then(|states| states.handover)
            && self.has_handed_over(handover)
        {
            self.with_states(now, actions, |nodes, outputs| {
                nodes.handed_over(now.instant, handover, outputs);
            });
        }
    }

    /// Whether every part has.
    fn has_handed_over(&self, handover: Handover) -> bool {
        // What whoever leaves has retained is durable at the others by then.
        let leaves = handover.state == NodeState::ShuttingDown;
        if leaves && !self.is_all_said() {
            return false;
        }
        let mut present = self.states.iter().flat_map(|states| states.present());
        (leaves || self.replication.is_merged_with(&mut present)) && self.is_copies_handed_over(handover)
    }

    /// Whether it has said goodbye to its clients, and others know all that follows from that.
    fn is_all_said(&self) -> bool {
        let is_confirmed = self.peers.as_ref().is_none_or(|peers| peers.is_all_confirmed());
        let is_settled = self.commits.is_settled() && self.replication.is_settled();
        self.ending.has_said_goodbye && is_settled && is_confirmed
    }

    /// Whether nobody counts on this node any more.
    pub(crate) fn has_left(&self) -> bool {
        let states = self.states.as_ref();
        states.is_none_or(|states| states.own_state() == NodeState::NotJoined)
    }

    fn with_states(
        &mut self,
        now: Now,
        actions: &mut Vec<Action>,
        call: impl FnOnce(&mut Nodes, &mut Vec<NodesOutput>),
    ) {
        let (Some(states), Some(control)) = (&mut self.states, &self.control) else {
            return;
        };
        let mut outputs = Vec::new();
        let (mut removed, mut gone) = (Vec::new(), Vec::new());
        let nodes = control.control().nodes().keys();
        if !nodes.clone().eq(&states.known) {
            let before = std::mem::replace(&mut states.known, nodes.copied().collect());
            gone.extend(before.difference(&states.known).copied());
            removed.extend(gone.iter().filter_map(|node| lost(&states.nodes, *node)));
            states.record_removed(&gone);
            states.nodes.set_nodes(now.instant, &states.known, &mut outputs);
            // Those that are new here may have answered before.
            for node in self.peers.iter().flat_map(|peers| peers.answering()) {
                states.nodes.set_linked(now.instant, node, true, &mut outputs);
            }
        }
        call(&mut states.nodes, &mut outputs);
        let handover = states.nodes.to_hand_over();
        states.handover = handover;
        let mut changes = Vec::new();
        actions.extend(outputs.into_iter().map(|output| match output {
            NodesOutput::Send(to, message) => Action::ToPeer {
                to,
                message: framed(&message).into(),
            },
            NodesOutput::Changed(change) => {
                changes.push(change);
                Action::Report(Report::NodeState(change))
            }
        }));
        if !changes.is_empty() || !removed.is_empty() {
            (states.primary, states.minority) = (states.nodes.primary(), states.nodes.minority());
            self.visit_wills();
            // Who is there again gets what was for those that are lost in the same moment.
            let lost_here: BTreeSet<NodeId> = changes
                .iter()
                .filter(|it| is_loss(it))
                .map(|it| it.node)
                .collect();
            let (losses, finds): (Vec<_>, Vec<_>) = changes
                .into_iter()
                .partition(|change| lost_here.contains(&change.node));
            finds
                .into_iter()
                .for_each(|change| self.note_state(now, change, actions));
            removed
                .into_iter()
                .for_each(|lost| self.lose_node(now, lost, actions));
            losses
                .into_iter()
                .for_each(|change| self.note_state(now, change, actions));
            self.copies_rings_changed(now, actions);
        }
        for node in gone {
            self.ask_again_without(now, node, actions);
        }
        self.await_unplaced();
    }

    /// A node is in another state: what it had goes on at others, or it is there again.
    fn note_state(&mut self, now: Now, change: StateChange, actions: &mut Vec<Action>) {
        let Some(peers) = &mut self.peers else { return };
        if Some(change.node) == self.states.as_ref().map(|states| states.nodes.own()) {
            match (change.to, change.reason) {
                // What it has given away it may not have back.
                (NodeState::Running, Reason::SplitAgain) => {}
                (state, _) => peers.set_lacks_copies(state != NodeState::Running),
            }
        }
        if !is_loss(&change) {
            peers.find_again(change.node);
            if matches!(change.from, NodeState::NotJoined | NodeState::Dead) {
                self.note_found_again(change.node);
            }
            return;
        }
        self.note_loss_of_plane(change.node);
        // One that was not counted on is lost when it is silent.
        if change.from == NodeState::NotJoined {
            return;
        }
        let states = self.states.as_ref();
        if let Some(lost) = states.and_then(|states| lost(&states.nodes, change.node)) {
            self.lose_node(now, lost, actions);
        }
    }

    /// A node does not answer any more: it is lost, unless others reach it and it is counted on.
    pub(crate) fn lose_silent(&mut self, now: Now, node: NodeId, actions: &mut Vec<Action>) {
        let states = self.states.as_ref().filter(|states| !states.is_there(node));
        if let Some(lost) = states.and_then(|states| lost(&states.nodes, node)) {
            self.lose_node(now, lost, actions);
        }
    }
}

/// Whether a node is not there any more: it is dead, or has left.
fn is_loss(change: &StateChange) -> bool {
    let has_left = (change.from, change.to) == (NodeState::ShuttingDown, NodeState::NotJoined);
    change.to == NodeState::Dead || has_left
}

/// A node that is lost, after the last that was heard of it.
fn lost(nodes: &Nodes, node: NodeId) -> Option<Lost> {
    let after = nodes.word_of(node)?;
    Some(Lost { node, after })
}

fn framed(message: &Bytes) -> Bytes {
    let mut framed = peer_header::begin(NODE_STATES, message.len());
    framed.put_u8(KIND);
    framed.put_slice(message);
    framed.freeze()
}
