//! Another node, by what it has said and whether it can be reached.

use std::time::Instant;

use crate::NodeId;
use crate::session_plane::announcement::{Announcement, Word};
use crate::session_plane::lifecycle::{NodeState, Reason};

/// Another node.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) said: Option<Announcement>,
    /// The last word of this node that it has confirmed.
    pub(super) heard: Word,
    /// Failure detection says so.
    pub(super) is_alive: bool,
    /// What is written here reaches it.
    pub(super) is_linked: bool,
    /// It has been, in this run.
    pub(super) was_up: bool,
    /// It was taken for dead while it was responsible for something, or about to be. This node's word that told of it.
    pub(super) parted: Option<Word>,
    /// Since when it and this node are both responsible, and one of them does not count on the other one.
    pub(super) disagrees_since: Option<Instant>,
    /// What others are told that it is.
    pub(super) state: NodeState,
    pub(super) since: Instant,
}

impl Peer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            said: None,
            heard: Word::NONE,
            is_alive: false,
            is_linked: false,
            was_up: false,
            parted: None,
            disagrees_since: None,
            state: NodeState::NotJoined,
            since: now,
        }
    }

    /// It can be reached, in both ways.
    pub(super) fn is_up(&self) -> bool {
        self.is_alive && self.is_linked
    }

    pub(super) fn note_up(&mut self, is_alive: bool, is_linked: bool) {
        (self.is_alive, self.is_linked) = (is_alive, is_linked);
        self.was_up |= self.is_up();
    }

    /// It is not parted any more when it knows that it was, and is not responsible: it gets what it lacks when it is counted on again.
    pub(super) fn forgive(&mut self) {
        let has_heard = self.parted.is_some_and(|parted| parted <= self.heard);
        if has_heard && !self.is_running() {
            self.parted = None;
        }
    }

    /// How far it has said to be.
    pub(super) fn said_state(&self) -> Option<NodeState> {
        self.said.as_ref().map(|said| said.state)
    }

    /// How far it is, as this node sees it.
    pub(super) fn standing(&self) -> NodeState {
        match &self.said {
            None => NodeState::NotJoined,
            Some(said) if said.state == NodeState::NotJoined => NodeState::NotJoined,
            Some(said) if self.is_up() && self.parted.is_none() => said.state,
            Some(_) if !self.was_up && self.parted.is_none() => NodeState::NotJoined,
            Some(_) => NodeState::Dead,
        }
    }

    pub(super) fn reason(&self) -> Reason {
        match &self.said {
            None => Reason::Started,
            Some(_) if self.state == NodeState::Dead => Reason::NotHeardOf,
            Some(said) => said.reason,
        }
    }

    /// Whether it is responsible beside this node, and not with it.
    pub(super) fn is_beyond_split(&self, own: NodeId) -> bool {
        self.is_up() && self.is_running() && (self.parted.is_some() || !self.counts_on(own))
    }

    pub(super) fn is_running(&self) -> bool {
        self.said_state() == Some(NodeState::Running)
    }

    pub(super) fn counts_on(&self, node: NodeId) -> bool {
        let said = self.said.as_ref();
        said.is_some_and(|said| said.counts_on.contains(&node))
    }
}
