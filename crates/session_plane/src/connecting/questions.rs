//! Questions at an owner: what it says of clients that connect somewhere.
//!
//! Only a merged copy answers (rule `serve-merged`), and only one that has what the asker knows
//! (rule `ask-with-known`), the entry of the asking connection among it. Until then the question
//! waits, also while this node does not own the slot yet: the asker's ring may be ahead.
//!
//! *Invariants*: a connection has one question at most. Each question is answered or refused, unless
//! its asker was given up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::NodeId;

use super::cluster_state::OwnedSessions;
use super::error::ConnectingError;
use super::message::{AskRefusal, AskSession, ConnectingMessage, Outgoing, QuestionRefused, SessionAnswer};
use crate::queue_limits::QueueValue;
use crate::{ClientId, Dot, Slot, VersionVector};

/// Limits of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionLimits {
    /// Questions of one peer that wait at most. A further one is refused as [`AskRefusal::Full`].
    pub waiting_per_peer_max: usize,
    /// Time that a question waits at most. Then it is refused as [`AskRefusal::NotReady`].
    pub wait_max: Duration,
}

/// Questions that wait for a copy of this node.
#[derive(Debug)]
pub struct Questions {
    limits: QuestionLimits,
    waiting: BTreeMap<Place, Waiting>,
    /// Connections that ask, by the node that they are at.
    peers: BTreeMap<NodeId, BTreeMap<Dot, Place>>,
    due: BTreeSet<(Instant, Place)>,
}

/// Place of a question: those of a slot are one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    slot: Slot,
    connection: Dot,
}

/// Question that waits.
#[derive(Debug)]
struct Waiting {
    client: ClientId,
    round: u64,
    known: Arc<VersionVector>,
    due: Instant,
}

impl Questions {
    /// No question.
    pub fn new(limits: QuestionLimits) -> Questions {
        Questions {
            limits,
            waiting: BTreeMap::new(),
            peers: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Takes the question of a present node: answers it, refuses it, or lets it wait.
    ///
    /// # Errors
    ///
    /// [`ConnectingError`] where the question is not of a connection of `from`.
    pub fn ask<V: Ord + QueueValue + Clone>(
        &mut self,
        now: Instant,
        from: NodeId,
        ask: AskSession,
        sessions: &impl OwnedSessions<V>,
        outgoing: &mut Vec<Outgoing<V>>,
    ) -> Result<(), ConnectingError> {
        let dot = ask.connection;
        if dot.run.node != from {
            return Err(ConnectingError::OfAnotherNode { peer: from, dot });
        }
        if dot.number == 0 {
            return Err(ConnectingError::NoEvent { peer: from });
        }
        let place = Place {
            slot: Slot::of_client(ask.client.as_bytes()),
            connection: dot,
        };
        self.forget_connection(from, dot);
        let waiting = Waiting {
            client: ask.client,
            round: ask.round,
            known: ask.known,
            due: now + self.limits.wait_max,
        };
        if let Some(answer) = waiting.answer(dot, sessions) {
            outgoing.push(answer);
        } else if self.peers.get(&from).map_or(0, BTreeMap::len) >= self.limits.waiting_per_peer_max {
            outgoing.push(refused(dot, ask.round, AskRefusal::Full));
        } else {
            self.insert(place, waiting);
        }
        Ok(())
    }

    /// The copy of a slot has become merged, or has more events than before: answers what it may.
    pub fn copy_ready<V: Ord + QueueValue + Clone>(
        &mut self,
        slot: Slot,
        sessions: &impl OwnedSessions<V>,
        outgoing: &mut Vec<Outgoing<V>>,
    ) {
        let first = Place {
            slot,
            connection: Dot::MIN,
        };
        let last = Place {
            slot,
            connection: Dot::MAX,
        };
        let mut answered = Vec::new();
        for (place, waiting) in self.waiting.range(first..=last) {
            if let Some(answer) = waiting.answer(place.connection, sessions) {
                outgoing.push(answer);
                answered.push(*place);
            }
        }
        for place in answered {
            self.remove(place);
        }
    }

    /// A node was given up: nobody waits for its answers.
    pub fn lose_peer(&mut self, peer: NodeId) {
        for place in self.peers.remove(&peer).unwrap_or_default().into_values() {
            self.remove(place);
        }
    }

    /// Refuses what has waited for as long as it may.
    pub fn tick<V>(&mut self, now: Instant, outgoing: &mut Vec<Outgoing<V>>) {
        while let Some((due, place)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, place));
            if let Some(waiting) = self.remove(place) {
                outgoing.push(refused(place.connection, waiting.round, AskRefusal::NotReady));
            }
        }
    }

    /// Time at which [`Questions::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Slots with questions that wait.
    pub fn slots(&self) -> BTreeSet<Slot> {
        self.waiting.keys().map(|place| place.slot).collect()
    }

    /// Questions that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn insert(&mut self, place: Place, waiting: Waiting) {
        let (node, connection) = (place.connection.run.node, place.connection);
        self.peers.entry(node).or_default().insert(connection, place);
        self.due.insert((waiting.due, place));
        self.waiting.insert(place, waiting);
    }

    /// Forgets an earlier question of a connection.
    fn forget_connection(&mut self, peer: NodeId, connection: Dot) {
        let of_peer = self.peers.get(&peer);
        if let Some(place) = of_peer.and_then(|of_peer| of_peer.get(&connection)).copied() {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: Place) -> Option<Waiting> {
        let waiting = self.waiting.remove(&place)?;
        self.due.remove(&(waiting.due, place));
        let node = place.connection.run.node;
        if let Some(of_peer) = self.peers.get_mut(&node) {
            of_peer.remove(&place.connection);
            if of_peer.is_empty() {
                self.peers.remove(&node);
            }
        }
        Some(waiting)
    }
}

impl Waiting {
    /// Answer, if the copy may give it.
    fn answer<V: Ord + QueueValue + Clone>(
        &self,
        connection: Dot,
        sessions: &impl OwnedSessions<V>,
    ) -> Option<Outgoing<V>> {
        let session = sessions.read(&self.client, &self.known)?;
        if !session.has_met(connection) {
            return None;
        }
        let message = ConnectingMessage::Session(SessionAnswer {
            connection,
            round: self.round,
            session,
        });
        let to = connection.run.node;
        Some(Outgoing { to, message })
    }
}

fn refused<V>(connection: Dot, round: u64, reason: AskRefusal) -> Outgoing<V> {
    Outgoing {
        to: connection.run.node,
        message: ConnectingMessage::Refused(QuestionRefused {
            connection,
            round,
            reason,
        }),
    }
}
