//! Membership: the nodes that are present to this node, each in one run, state and incarnation.
//!
//! ```text
//!             handshake: both sides have given each other up
//!   absent --------------------------------------------------> present
//!     ^                                                           |
//!     '---- given up: silent, refused, convicted, a newer run ----'
//! ```
//!
//! SWIM (Das et al., 2002) probes nodes elsewhere. Here present nodes are given up, and ring
//! markers of peers are the gossip: a view that lacks a node convicts it. From a handshake to the
//! giving up is one *stay*; nothing of a stay outlives it.
//!
//! The node applies the actions of a call in their order. Where [`Membership::is_changed`] then,
//! it makes the next ring marker of [`Membership::view`], and calls
//! [`Membership::record_marker`].
//!
//! *Invariants*: two nodes begin a stay only while neither has the other present. Refused input
//! changes nothing. Memory is bounded by the members, of which there are at most [`NODES_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::NodeId;

use crate::view::NODES_MAX;
use crate::{NodeState, PresentNode, Run, SwimIncarnation, View};

mod action;
mod errors;
mod failure;
mod handshake;
mod hearsay;
mod knowledge;
mod lifecycle;
mod peer;

pub use action::{Action, GiveUpReason};
pub use errors::{ConvictionError, HandshakeError, KnowledgeError, MarkerError, MembersError, NotPresent};
pub use handshake::{Answer, Confirm, Handshake, Introduction, Side};
pub use hearsay::Stay;
pub use lifecycle::TransferProgress;

use peer::{Absence, Member, Peer, Presence};

/// Highest incarnation that a run uses, and that a peer may name.
///
/// Far below the end of its type, so that the next one can always be written down. A run that
/// shakes hands a hundred times a second reaches it after 250 days, and is refused from then on.
pub const SWIM_INCARNATION_MAX: SwimIncarnation = SwimIncarnation(u32::MAX / 2);

/// Wait after which a peer whose machine refuses connections is given up: its process is gone.
pub const GONE_AFTER: Duration = Duration::from_millis(300);

/// Node, its cluster, and timeouts of a [`Membership`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipConfig {
    /// This run of this node.
    pub run: Run,
    /// Configured nodes that are not removed; mostly this one among them.
    pub members: BTreeSet<NodeId>,
    /// Silence after which a peer is given up. A peer is sent several answers in this time.
    pub silence_max: Duration,
    /// Silence after which a peer is given up whose machine refuses connections; [`GONE_AFTER`].
    pub gone_after: Duration,
    /// Wait of a JOINING node for a RUNNING one. Longer than `silence_max`, so that nodes that
    /// start together have met. At its end the node becomes RUNNING without.
    pub found_after: Duration,
    /// Time between two offers of a handshake to an absent member; about a quarter of
    /// `silence_max`.
    pub offer_every: Duration,
}

/// Nodes that are present to one node.
///
/// `now` is of a monotonic clock that stops while the process is suspended: a pause is not counted
/// as the peers' silence. The node hands in what has arrived before it calls [`Membership::tick`].
#[derive(Debug)]
pub struct Membership {
    own: PresentNode,
    /// Highest incarnation of this run that a peer was ever told.
    issued: SwimIncarnation,
    silence_max: Duration,
    gone_after: Duration,
    found_after: Duration,
    offer_every: Duration,
    /// Members without this node, and removed nodes that are still present.
    members: BTreeMap<NodeId, Member>,
    /// View of the last ring marker.
    marked: View,
    /// Transfers by the view of the last ring marker.
    progress: TransferProgress,
    /// A JOINING node waits for a RUNNING one from then on.
    joining_since: Instant,
    /// Absent members are offered a handshake next.
    offer_at: Instant,
}

impl Membership {
    /// Membership of a run that has just been started: JOINING, and alone.
    ///
    /// The view of its first ring marker is [`Membership::view`] at this time.
    ///
    /// # Errors
    ///
    /// [`MembersError`] where the members are no cluster.
    pub fn new(now: Instant, config: &MembershipConfig) -> Result<Membership, MembersError> {
        assert!(config.run.node != NodeId(0), "zero is no node's id");
        assert!(config.offer_every > Duration::ZERO, "offers are apart");
        assert!(config.gone_after <= config.silence_max, "a refusal is no delay");
        let incarnation = SwimIncarnation(1);
        let own = PresentNode {
            run: config.run,
            incarnation,
            state: NodeState::Joining,
        };
        let mut membership = Membership {
            own,
            issued: incarnation,
            silence_max: config.silence_max,
            gone_after: config.gone_after,
            found_after: config.found_after,
            offer_every: config.offer_every,
            members: BTreeMap::new(),
            marked: View::new(vec![own]).expect("one node is a view"),
            progress: TransferProgress::default(),
            joining_since: now,
            offer_at: now,
        };
        membership.set_members(now, &config.members)?;
        Ok(membership)
    }

    /// Sets the configured members. A removed node that is present stays so until it is given up;
    /// no handshake follows.
    ///
    /// # Errors
    ///
    /// [`MembersError`] where they are no cluster. The members are as before.
    pub fn set_members(&mut self, now: Instant, members: &BTreeSet<NodeId>) -> Result<(), MembersError> {
        if members.len() > NODES_MAX {
            let count = members.len();
            return Err(MembersError::TooMany { count });
        }
        if members.contains(&NodeId(0)) {
            return Err(MembersError::NodeZero);
        }
        for (node, member) in &mut self.members {
            member.is_removed = !members.contains(node);
        }
        self.members
            .retain(|_, member| !member.is_removed || member.peer().is_some());
        for node in members.iter().filter(|node| **node != self.own.run.node) {
            self.members.entry(*node).or_default();
        }
        self.offer_at = now;
        Ok(())
    }

    /// Offers a handshake with the next tick: a member that is absent can be reached.
    pub fn offer_at_once(&mut self, now: Instant) {
        self.offer_at = now;
    }

    /// Does what is due: gives up peers, offers handshakes, and goes on to the next state.
    pub fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.detect_failures(now, actions);
        self.end_expectations(now);
        if now >= self.offer_at {
            self.offer_at = now + self.offer_every;
            self.offer_handshakes(actions);
        }
        self.change_state(now, actions);
    }

    /// Time at which [`Membership::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let offer = self.absent_members().next().map(|_| self.offer_at);
        let due = [
            self.failure_at(),
            offer,
            self.founding_at(),
            self.expected_until(),
        ];
        due.into_iter().flatten().min()
    }

    /// View for the next ring marker.
    pub fn view(&self) -> View {
        let peers = self.peers_with_ids().map(|(_, peer)| peer.present);
        let nodes = std::iter::once(self.own).chain(peers).collect();
        View::new(nodes).expect("members are few, not zero, and each has one run")
    }

    /// The last ring marker says no more who is present, or in which state, or under which
    /// incarnation this node is.
    ///
    /// Incarnations of others are no reason for a marker: each tells of its own.
    pub fn is_changed(&self) -> bool {
        let marked = self.marked.nodes().iter().map(|present| self.told_of(present));
        !marked.eq(self.view().nodes().iter().map(|present| self.told_of(present)))
    }

    /// Records that a ring marker with `view`, as [`Membership::view`] gave it, is in the stream.
    pub fn record_marker(&mut self, view: View) {
        assert!(view.find(self.own.run.node).is_some(), "the view is of this node");
        self.marked = view;
        self.progress = TransferProgress::default();
    }

    /// This run, with its state and incarnation.
    pub fn own(&self) -> PresentNode {
        self.own
    }

    /// `node` is present, in whichever run. This node always is.
    pub fn is_present(&self, node: NodeId) -> bool {
        node == self.own.run.node || self.peer(node).is_some()
    }

    /// Run, state and incarnation of a present node.
    pub fn find(&self, node: NodeId) -> Option<PresentNode> {
        if node == self.own.run.node {
            return Some(self.own);
        }
        self.peer(node).map(|peer| peer.present)
    }

    /// Present nodes without this one, in ascending order.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers_with_ids().map(|(node, _)| node)
    }

    /// All configured members are present.
    pub fn is_complete(&self) -> bool {
        self.absent_members().next().is_none()
    }

    fn told_of(&self, present: &PresentNode) -> PresentNode {
        let mut told = *present;
        if present.run != self.own.run {
            told.incarnation = SwimIncarnation(0);
        }
        told
    }

    fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.members.get(&node).and_then(Member::peer)
    }

    fn peer_mut(&mut self, node: NodeId) -> Result<&mut Peer, NotPresent> {
        let member = self.members.get_mut(&node);
        member.and_then(Member::peer_mut).ok_or(NotPresent { node })
    }

    fn peers_with_ids(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        let members = self.members.iter();
        members.filter_map(|(node, member)| Some((*node, member.peer()?)))
    }

    fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.members.values_mut().filter_map(Member::peer_mut)
    }

    /// A member is about to meet this node again: it has given this node up first, and is absent for a
    /// moment only.
    ///
    /// A node that wakes up gives up all others, from which it is sent nothing but offers. It has no one
    /// present then, and is yet not the only one that lives. It is so for a `silence_max` at most.
    pub fn is_expected(&self) -> bool {
        self.expected_until().is_some()
    }

    fn expected_until(&self) -> Option<Instant> {
        self.absences().filter_map(|absence| absence.expected_until).min()
    }

    fn end_expectations(&mut self, now: Instant) {
        for member in self.members.values_mut() {
            if let Presence::Absent(absence) = &mut member.presence {
                absence.expected_until = absence.expected_until.filter(|until| *until > now);
            }
        }
    }

    fn absences(&self) -> impl Iterator<Item = &Absence> {
        let members = self.members.values();
        members.filter_map(|member| match &member.presence {
            Presence::Absent(absence) => Some(absence),
            Presence::Present(_) => None,
        })
    }

    fn absent_members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let members = self.members.iter();
        members
            .filter(|(_, member)| member.peer().is_none())
            .map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests;
