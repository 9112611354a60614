//! How far each node is, as this one knows it, and how far this one is itself.
//!
//! Every node alone says what its own state is ([`announcement`](super::announcement)), and tells all others with every message of failure detection, and at once
//! when it changes. That others have heard it is confirmed with what they say themselves. Failure detection only says whether a node can be reached: what
//! follows from that for this node's own state is in `nodes/decisions.rs`.
//!
//! A node that was taken for dead and is responsible for something may have gone on by itself, with others on its side of a split; and lacks what was written here.
//! It is *parted*: it can be reached again and still counts as dead until it knows that, and merges or begins again; or until this node itself finds
//! that it is on the smaller side.

mod decisions;
mod peer;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::peer::Peer;
use super::Ring;
use super::announcement::{Announcement, AnnouncementError, Word};
use super::detection::{Detection, DetectionConfig, DetectionError, Found};
use super::lifecycle::{NodeState, Reason, next};
use crate::NodeId;

/// What becomes of this node, and of the others.
#[derive(Debug)]
pub struct Nodes {
    own: NodeId,
    word: Word,
    state: NodeState,
    reason: Reason,
    since: Instant,
    /// The word that told of the state first.
    state_word: Word,
    counts_on: BTreeSet<NodeId>,
    /// What had to be handed over in this state is where it belongs.
    has_handed_over: bool,
    is_stopping: bool,
    /// The cluster has it.
    is_member: bool,
    /// There was somebody responsible when it found the cluster.
    has_joined_others: bool,
    /// A node that is linked is not dead, whatever failure detection says.
    relies_on_links: bool,
    /// When it does not wait for nodes any more that are not there, and begins without them.
    begin_at: Instant,
    /// When those who have not confirmed this node's word are told again.
    remind_at: Instant,
    patience: Duration,
    peers: BTreeMap<NodeId, Peer>,
    detection: Detection,
}

/// What is to be done, or has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodesOutput {
    /// A message for the [`Nodes`] of another node.
    Send(NodeId, Bytes),
    /// A node is in another state, as this one sees it.
    Changed(StateChange),
}

/// Something that a node has to hand over in one of its states, each time it is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// In which state.
    pub state: NodeState,
    /// The number of the word that told of it.
    pub number: u64,
}

/// A node's state has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// Whose.
    pub node: NodeId,
    /// What it was.
    pub from: NodeState,
    /// What it is now.
    pub to: NodeState,
    /// Why.
    pub reason: Reason,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStanding {
    /// Which.
    pub node: NodeId,
    /// How far it is.
    pub state: NodeState,
    /// Why.
    pub reason: Reason,
    /// Since when, as far as this node knows.
    pub since: Instant,
}

/// A message that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// What it announces.
    #[error(transparent)]
    Announcement(#[from] AnnouncementError),
    /// What it says for failure detection.
    #[error(transparent)]
    Detection(#[from] DetectionError),
}

impl Nodes {
    /// A node that has just started, and knows of nobody.
    pub fn new(now: Instant, config: &DetectionConfig) -> Self {
        let word = Word {
            run: config.own.incarnation,
            number: 1,
        };
        Self {
            own: config.own.node,
            word,
            state: NodeState::NotJoined,
            reason: Reason::Started,
            since: now,
            state_word: word,
            counts_on: BTreeSet::new(),
            has_handed_over: false,
            is_stopping: false,
            is_member: false,
            has_joined_others: false,
            relies_on_links: false,
            begin_at: now + 2 * config.dead_after,
            remind_at: now,
            patience: config.dead_after,
            peers: BTreeMap::new(),
            detection: Detection::new(now, config),
        }
    }

    /// From here on a node that is linked is dead only when it is not linked any more, or when another node has lost it: failure detection carries on what somebody has found who
    /// was cut off, and may have found all others dead, one after the other. It says still who is there.
    pub fn rely_on_links(&mut self) {
        self.relies_on_links = true;
    }

    /// Which nodes the cluster has, this one among them. Until this is called, this one does not begin.
    pub fn set_nodes(&mut self, now: Instant, nodes: &BTreeSet<NodeId>, outputs: &mut Vec<NodesOutput>) {
        self.is_member = nodes.contains(&self.own);
        self.peers.retain(|node, _| nodes.contains(node));
        for node in nodes.iter().filter(|node| **node != self.own) {
            self.peers.entry(*node).or_insert_with(|| Peer::new(now));
        }
        self.detection.set_nodes(now, nodes);
        // One that was away from the cluster for a moment is found anew by nobody.
        for (node, peer) in &mut self.peers {
            let is_trusted = self.relies_on_links && peer.is_up();
            peer.note_up(is_trusted || self.detection.is_up(*node), peer.is_linked);
        }
        self.settle(now, outputs);
    }

    /// A message of another node's.
    ///
    /// # Errors
    /// It is malformed, or from another version of the program. Nothing has changed then, except what came before the error.
    pub fn hear(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Bytes,
        outputs: &mut Vec<NodesOutput>,
    ) -> Result<(), NodesError> {
        let (announcement, heard, detection) = Announcement::decode(message)?;
        let mut found = Vec::new();
        let result = if detection.is_empty() {
            Ok(())
        } else {
            self.detection.hear(now, from, &detection, &mut found)
        };
        let is_news = self.note_said(from, announcement, heard);
        self.note_found(found, outputs);
        self.settle(now, outputs);
        if is_news {
            // So that it knows; and at once, since it may wait for that.
            self.tell(from, &[], outputs);
        }
        Ok(result?)
    }

    /// Whether what is written here reaches another node directly. One that is not linked is as good as dead, also when others reach it: it misses what is
    /// written. No node is linked before this is called.
    pub fn set_linked(
        &mut self,
        now: Instant,
        node: NodeId,
        is_linked: bool,
        outputs: &mut Vec<NodesOutput>,
    ) {
        let is_alive = is_linked && self.is_trusted(node) || self.detection.is_up(node);
        self.note_down(node, |peer| peer.note_up(is_alive, is_linked));
        self.settle(now, outputs);
    }

    /// Another node has lost a node, and gives what was for it to others: so it is dead for this node as well, until it has heard of that.
    pub fn hear_of_loss(&mut self, now: Instant, lost: NodeId, outputs: &mut Vec<NodesOutput>) {
        let peer = self.peers.get(&lost);
        if peer.is_some_and(|peer| peer.parted.is_none()) {
            self.part(lost);
        }
        self.settle(now, outputs);
    }

    /// The last that was heard of another node. A node that is lost and comes back has said more.
    pub fn word_of(&self, node: NodeId) -> Option<Word> {
        let said = self.peers.get(&node)?.said.as_ref();
        said.map(|said| said.word)
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let waits = self.state == NodeState::NotJoined && self.is_member && !self.is_stopping;
        let begins = waits.then_some(self.begin_at);
        let reminds = self.unconfirmed().next().map(|_| self.remind_at);
        let disagreements = self.peers.values().filter_map(|peer| peer.disagrees_since);
        let settles = disagreements.map(|since| since + self.patience).min();
        let detection = self.detection.deadline();
        detection
            .into_iter()
            .chain(begins)
            .chain(reminds)
            .chain(settles)
            .min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, outputs: &mut Vec<NodesOutput>) {
        let mut found = Vec::new();
        self.detection.tick(now, &mut found);
        self.note_found(found, outputs);
        if self.remind_at <= now {
            self.remind_at = now + self.patience / 4;
            let unconfirmed: Vec<NodeId> = self.unconfirmed().collect();
            for node in unconfirmed {
                self.tell(node, &[], outputs);
            }
        }
        self.settle(now, outputs);
    }

    /// What is to be handed over now, if anything is: a node gives to all who are responsible what it has, and gets from them what it lacks (the state says which
    /// rings that is about). When all who are responsible by then have answered, [`handed_over`](Self::handed_over) is called. Everybody sends this node what is written from here on.
    pub fn to_hand_over(&self) -> Option<Handover> {
        let is_due = match self.state {
            NodeState::Joining | NodeState::MergeMinority | NodeState::Merging | NodeState::ShuttingDown => {
                !self.has_handed_over && self.is_counted_on()
            }
            NodeState::NotJoined | NodeState::Running | NodeState::Dead => false,
        };
        let handover = Handover {
            state: self.state,
            number: self.state_word.number,
        };
        is_due.then_some(handover)
    }

    /// What had to be handed over is where it belongs. Says nothing if that is not what is due now.
    pub fn handed_over(&mut self, now: Instant, handover: Handover, outputs: &mut Vec<NodesOutput>) {
        if self.to_hand_over() == Some(handover) {
            self.has_handed_over = true;
            self.settle(now, outputs);
        }
    }

    /// This node is to leave: it hands over what it owns.
    pub fn stop(&mut self, now: Instant, outputs: &mut Vec<NodesOutput>) {
        self.is_stopping = true;
        self.settle(now, outputs);
    }

    /// Which node this is.
    pub fn own(&self) -> NodeId {
        self.own
    }

    /// How far this node is.
    pub fn state(&self) -> NodeState {
        self.state
    }

    /// How far a node is, as this one sees it; one that is unknown has not joined.
    pub fn state_of(&self, node: NodeId) -> NodeState {
        if node == self.own {
            return self.state;
        }
        let peer = self.peers.get(&node);
        peer.map_or(NodeState::NotJoined, |peer| peer.state)
    }

    /// Word that first told of this node's state: no two stays in a state have the same one, over all runs of the node.
    pub fn state_word(&self) -> Word {
        self.state_word
    }

    /// All nodes, by id.
    pub fn standings(&self) -> Vec<NodeStanding> {
        let own = NodeStanding {
            node: self.own,
            state: self.state,
            reason: self.reason,
            since: self.since,
        };
        let peers = self.peers.iter().map(|(node, peer)| NodeStanding {
            node: *node,
            state: peer.state,
            reason: peer.reason(),
            since: peer.since,
        });
        let mut standings: Vec<NodeStanding> = peers.chain([own]).collect();
        standings.sort_by_key(|standing| standing.node);
        standings
    }

    /// Who is responsible now.
    pub fn primary(&self) -> Ring {
        Ring::primary(self.states())
    }

    /// Who will be responsible when joins and merges have ended.
    pub fn minority(&self) -> Ring {
        Ring::minority(self.states())
    }

    fn states(&self) -> impl Iterator<Item = (NodeId, NodeState)> {
        let peers = self.peers.iter().map(|(node, peer)| (*node, peer.state));
        peers.chain([(self.own, self.state)])
    }

    /// Who can be reached and has not confirmed this node's word.
    fn unconfirmed(&self) -> impl Iterator<Item = NodeId> {
        let peers = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.is_up() && peer.heard < self.word);
        peers.map(|(node, _)| *node)
    }

    /// Takes note of what a node has said and heard. True if it is new.
    fn note_said(&mut self, from: NodeId, announcement: Announcement, heard: Word) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else {
            return false;
        };
        peer.heard = peer.heard.max(heard);
        let before = peer.said.as_ref().map_or(Word::NONE, |said| said.word);
        let is_news = before < announcement.word;
        if before.run < announcement.word.run {
            // Who is responsible already and has not joined before this node's eyes has begun elsewhere.
            let has_joined = matches!(announcement.state, NodeState::NotJoined | NodeState::Joining);
            (peer.was_up, peer.parted) = (peer.is_up(), None);
            if !has_joined && self.state != NodeState::NotJoined {
                self.word.number += 1;
                peer.parted = Some(self.word);
            }
        }
        if is_news {
            peer.said = Some(announcement);
        }
        peer.forgive();
        is_news
    }

    fn note_found(&mut self, found: Vec<Found>, outputs: &mut Vec<NodesOutput>) {
        for found in found {
            match found {
                Found::Send(to, message) => self.tell(to, &message, outputs),
                Found::Up(node) => {
                    if let Some(peer) = self.peers.get_mut(&node) {
                        peer.note_up(true, peer.is_linked);
                    }
                }
                Found::Down(node) if self.is_trusted(node) => {}
                Found::Down(node) => self.note_down(node, |peer| peer.note_up(false, peer.is_linked)),
            }
        }
    }

    /// Whether a node is there, whatever failure detection says.
    fn is_trusted(&self, node: NodeId) -> bool {
        let peer = self.peers.get(&node);
        self.relies_on_links && peer.is_some_and(Peer::is_up)
    }

    /// A node cannot be reached any more: it is taken for dead.
    fn note_down(&mut self, node: NodeId, note: impl FnOnce(&mut Peer)) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let was_up = peer.is_up();
        note(peer);
        if was_up && !peer.is_up() {
            self.part(node);
        }
    }

    /// From here on a node misses what is written, if it was responsible for something or about to be.
    fn part(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let state = peer.said_state();
        if state.is_some_and(|state| state.is_responsible() || state == NodeState::Joining) {
            self.word.number += 1;
            peer.parted = Some(self.word);
        }
    }

    /// Decides until nothing is left to decide, and tells the others what has changed.
    fn settle(&mut self, now: Instant, outputs: &mut Vec<NodesOutput>) {
        let before = self.word;
        self.look_around(now, outputs);
        while let Some(reason) = self.due(now) {
            if reason == Reason::SmallerSide {
                self.accept_larger_sides(now);
            }
            if reason == Reason::Found {
                let there_are_others = self.responsible().next().is_some();
                self.has_joined_others = there_are_others;
            }
            self.change(now, reason, outputs);
            self.look_around(now, outputs);
        }
        let counts_on: BTreeSet<NodeId> = self.countable().collect();
        if counts_on != self.counts_on {
            self.counts_on = counts_on;
            self.word.number += 1;
        }
        if before < self.word {
            let up: Vec<NodeId> = self.unconfirmed().collect();
            for node in up {
                self.tell(node, &[], outputs);
            }
            self.remind_at = now + self.patience / 4;
        }
    }

    /// Changes this node's state, if that is a reason to.
    fn change(&mut self, now: Instant, reason: Reason, outputs: &mut Vec<NodesOutput>) {
        let Some(to) = next(self.state, reason) else {
            return;
        };
        let from = std::mem::replace(&mut self.state, to);
        (self.reason, self.since, self.has_handed_over) = (reason, now, false);
        self.word.number += 1;
        self.state_word = self.word;
        if to == NodeState::NotJoined {
            self.begin_at = now + 2 * self.patience;
        }
        outputs.push(NodesOutput::Changed(StateChange {
            node: self.own,
            from,
            to,
            reason,
        }));
    }

    fn look_around(&mut self, now: Instant, outputs: &mut Vec<NodesOutput>) {
        self.note_states(now, outputs);
        if self.accept_their_friends() {
            self.note_states(now, outputs);
        }
        self.note_disagreements(now);
    }

    /// What other nodes are, by all that is known of them.
    fn note_states(&mut self, now: Instant, outputs: &mut Vec<NodesOutput>) {
        for (node, peer) in &mut self.peers {
            let to = peer.standing();
            let from = std::mem::replace(&mut peer.state, to);
            if from != to {
                peer.since = now;
                outputs.push(NodesOutput::Changed(StateChange {
                    node: *node,
                    from,
                    to,
                    reason: peer.reason(),
                }));
            }
        }
    }

    fn tell(&self, to: NodeId, detection: &[u8], outputs: &mut Vec<NodesOutput>) {
        let said = self.peers.get(&to).and_then(|peer| peer.said.as_ref());
        let heard = said.map_or(Word::NONE, |said| said.word);
        let own = Announcement {
            word: self.word,
            state: self.state,
            reason: self.reason,
            counts_on: self.counts_on.clone(),
        };
        outputs.push(NodesOutput::Send(to, own.encode(heard, detection)));
    }
}
