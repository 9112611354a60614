//! A node that joins, merges or leaves waits until all have what they are to have of its sessions, and it of theirs.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::lifecycle::NodeState;
use cluster::session_plane::nodes::Handover;
use mqtt::now::Now;

use super::Copies;
use super::messages::CopyMessage;
use crate::node::{Action, Node};
use crate::routes::Routes;

impl Node {
    /// States of nodes have changed, and with them who owns what.
    pub(crate) fn copies_rings_changed(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (Some(copies), Some(states)) = (&mut self.copies, &self.states) else {
            return;
        };
        copies.rings += 1;
        copies.begin_visit();
        copies.is_back &= states.state_of(copies.own.node) != NodeState::Running;
        self.await_owners_of_now();
        self.look_at_holding(now, actions);
        self.take_over_orphans(now, actions);
    }

    /// Goes on with copies: batches were closed, or there is room on the way to others.
    pub(crate) fn go_on_with_copies(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.copies.is_none() {
            return;
        }
        self.forget_orphans();
        self.offer_copies(now);
        self.end_noting(now);
        self.look_at_holding(now, actions);
        self.go_on_with_merging(now, actions);
        let (Some(copies), Some(peers), Some(states)) = (&mut self.copies, &mut self.peers, &self.states)
        else {
            return;
        };
        copies.answer_askers(peers);
        let due = states.handover();
        let is_countable = |node: NodeId| {
            let state = states.state_of(node);
            !matches!(state, NodeState::NotJoined | NodeState::Dead)
        };
        copies.handed_over = copies.hand_over(due, peers, is_countable);
        if copies.handed_over.is_some() {
            self.go_on_handing_over(now, actions);
        }
    }

    /// Whether copies of this node's sessions are where they have to be, and here those of others'.
    pub(crate) fn is_copies_handed_over(&self, handover: Handover) -> bool {
        let copies = self.copies.as_ref();
        copies.is_some_and(|copies| copies.handed_over == Some(handover))
    }
}

impl Copies {
    /// Asks the others whether this node has everything. Returns what is done.
    fn hand_over(
        &mut self,
        due: Option<Handover>,
        peers: &mut Routes,
        is_countable: impl Fn(NodeId) -> bool,
    ) -> Option<Handover> {
        // What this node has to leave to others comes first: they have copies for it afterwards.
        let Some(due) = due.filter(|_| self.giving.is_empty()) else {
            self.handover = None;
            return None;
        };
        if self
            .handover
            .as_ref()
            .is_none_or(|(handover, _)| *handover != due)
        {
            let others: BTreeSet<NodeId> = peers.reached().filter(|node| is_countable(*node)).collect();
            for node in &others {
                self.tell(peers, *node, &CopyMessage::Ask(due.number));
            }
            self.handover = Some((due, others));
        }
        let (_, waiting) = self.handover.as_mut()?;
        waiting.retain(|node| is_countable(*node) && peers.is_reached(*node));
        let is_done = waiting.is_empty() && self.visit.is_none() && self.under_replicated == 0;
        is_done.then_some(due)
    }

    /// A node says that this one has all that it is to have of its sessions.
    pub(super) fn note_done(&mut self, node: NodeId, number: u64) {
        let handover = self.handover.as_mut();
        if let Some((_, waiting)) = handover.filter(|(handover, _)| handover.number == number) {
            waiting.remove(&node);
        }
    }

    /// Tells those who have asked that they have everything, if they have.
    fn answer_askers(&mut self, peers: &mut Routes) {
        if self.visit.is_some() {
            return;
        }
        let has_all = |node: &NodeId| self.lacking.get(node).is_none_or(|lacking| *lacking == 0);
        let done = self.asking.iter().filter(|(node, _)| has_all(node));
        let done: Vec<(NodeId, u64)> = done.map(|(node, number)| (*node, *number)).collect();
        for (node, number) in done {
            self.asking.remove(&node);
            self.tell(peers, node, &CopyMessage::Done(number));
        }
    }
}
