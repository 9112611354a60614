//! Member: what this node knows of one other node, while it is present and while it is not.

use std::collections::BTreeSet;
use std::time::Instant;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::handshake::Confirm;
use crate::{PresentNode, Run, SwimIncarnation, VersionVector, View};

/// Other node of the cluster.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// Removed from the cluster, and not given up yet.
    pub(super) is_removed: bool,
    /// Highest start that was ever seen.
    pub(super) last_start: Option<Incarnation>,
    pub(super) presence: Presence,
}

/// Presence of a member.
#[derive(Debug)]
pub(super) enum Presence {
    Absent(Absence),
    Present(Box<Peer>),
}

/// Handshake that is under way with an absent member.
#[derive(Debug, Default)]
pub(super) struct Absence {
    /// Incarnation that the lower node offers: one for the whole absence. None before it is asked.
    pub(super) offer: Option<SwimIncarnation>,
    /// Offer that the higher node answered last.
    pub(super) answered: Option<Answered>,
    /// The member has given this node up first, and is expected to meet it before this time.
    pub(super) expected_until: Option<Instant>,
}

/// Offer of a lower node, and this node's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    /// Run that made the offer.
    pub(super) run: Run,
    /// Incarnation that it offered.
    pub(super) offer: SwimIncarnation,
    /// Incarnation that this node answered with.
    pub(super) answer: SwimIncarnation,
}

/// One stay of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) present: PresentNode,
    pub(super) begun: Begun,
    /// Last message of the stay from the peer.
    pub(super) heard: Instant,
    /// Last answer to the peer.
    pub(super) answered: Instant,
    /// The peer's machine has refused a connection since the last message.
    pub(super) is_refused: bool,
    /// Last offer by which the peer says that it has given this node up.
    pub(super) offered: Option<Instant>,
    pub(super) suspicion: Option<Suspicion>,
    /// View of the peer's last ring marker. None before its Welcome.
    pub(super) view: Option<View>,
    /// Present nodes that the peer has given up in this stay.
    pub(super) convicted: BTreeSet<NodeId>,
    /// Events that the peer has told in this stay that it knows.
    pub(super) told: VersionVector,
    /// Clock of the peer when it told that last.
    pub(super) told_at: Hlc,
    /// Runs that the peer had for present when it told that last.
    pub(super) told_among: BTreeSet<Run>,
}

/// Handshake that began a stay, so that a repeated message of it is known as such.
#[derive(Debug, Clone)]
pub(super) enum Begun {
    /// This node is the lower one, and has confirmed with this message.
    Confirmed(Confirm),
    /// This node is the higher one, and has answered.
    Answered(Answered),
}

/// Conviction of a peer by another one, which it can refute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suspicion {
    /// A higher incarnation refutes it.
    pub(super) incarnation: SwimIncarnation,
    /// Peer that has given it up.
    pub(super) by: NodeId,
}

impl Default for Presence {
    fn default() -> Presence {
        Presence::Absent(Absence::default())
    }
}

impl Member {
    pub(super) fn peer(&self) -> Option<&Peer> {
        match &self.presence {
            Presence::Present(peer) => Some(peer),
            Presence::Absent(_) => None,
        }
    }

    pub(super) fn peer_mut(&mut self) -> Option<&mut Peer> {
        match &mut self.presence {
            Presence::Present(peer) => Some(peer),
            Presence::Absent(_) => None,
        }
    }
}

impl Peer {
    /// Peer that has been met at `now`.
    pub(super) fn new(now: Instant, present: PresentNode, begun: Begun) -> Peer {
        Peer {
            present,
            begun,
            heard: now,
            answered: now,
            is_refused: false,
            offered: None,
            suspicion: None,
            view: None,
            convicted: BTreeSet::new(),
            told: VersionVector::default(),
            told_at: Hlc::ZERO,
            told_among: BTreeSet::new(),
        }
    }

    /// Takes an incarnation that was heard of. A higher one refutes a conviction.
    pub(super) fn raise_incarnation(&mut self, heard: SwimIncarnation) {
        self.present.incarnation = self.present.incarnation.max(heard);
        let known = self.present.incarnation;
        self.suspicion = self.suspicion.filter(|suspicion| suspicion.incarnation >= known);
    }

    /// The stay has begun by this answer of this node.
    pub(super) fn is_begun_by(&self, answered: Answered) -> bool {
        matches!(self.begun, Begun::Answered(begun) if begun == answered)
    }

    /// The peer makes an offer under `incarnation` only after it has given this stay up.
    pub(super) fn is_ended_by(&self, incarnation: SwimIncarnation) -> bool {
        incarnation > self.begun.peers()
    }
}

impl Begun {
    /// Incarnation of this node under which the stay began.
    pub(super) fn own(&self) -> SwimIncarnation {
        match self {
            Begun::Confirmed(confirm) => confirm.offer,
            Begun::Answered(answered) => answered.answer,
        }
    }

    /// Incarnation of the peer under which the stay began. No earlier offer of its has a higher one.
    fn peers(&self) -> SwimIncarnation {
        match self {
            Begun::Confirmed(confirm) => confirm.answer.incarnation,
            Begun::Answered(answered) => answered.offer,
        }
    }
}
