//! Claim of one connection: what it has asked, what it was told, and what it waits for.

use std::collections::BTreeSet;
use std::time::Instant;

use cluster::NodeId;

use crate::connecting::action::RefuseReason;
use crate::connecting::known_session::KnownSession;
use crate::queue_limits::QueueValue;
use crate::{Birth, Dot, VectorFull};

/// Claim of a connection.
#[derive(Debug)]
pub(super) struct Claim<V> {
    is_clean: bool,
    due: Instant,
    stage: Stage,
    /// Counts questions, so that answers from before do not count. 0 before the first.
    round: u64,
    /// The session as the owners have told it.
    pub(super) known: KnownSession<V>,
    /// Older connections that have ended behind their last acknowledgements.
    released: BTreeSet<Dot>,
    /// A connection was released, or its node given up, since the owners were asked last.
    reads_again: bool,
    is_found: bool,
    start: Start,
}

/// Stage of a claim, with what it waits for.
#[derive(Debug)]
enum Stage {
    /// The connection's entry is not made yet.
    Writing,
    /// Owners are asked.
    Asking {
        awaited: BTreeSet<NodeId>,
        is_answered: bool,
    },
    /// Older connections are asked to end.
    Releasing { awaited: BTreeSet<Dot> },
    /// The session's entry is on its way to the owners.
    Starting,
}

/// Entry of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    NotWritten,
    /// The node was asked to make the event.
    Requested,
    Written(Dot),
}

/// Next step of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Waits for others.
    Wait,
    /// Older connections are asked to end.
    Release,
    /// The session is read again (rule `read-after-release`).
    ReadAgain,
    /// The session is started.
    Start,
}

impl<V: Ord + QueueValue + Clone> Claim<V> {
    pub(super) fn new(is_clean: bool, due: Instant) -> Claim<V> {
        Claim {
            is_clean,
            due,
            stage: Stage::Writing,
            round: 0,
            known: KnownSession::default(),
            released: BTreeSet::new(),
            reads_again: false,
            is_found: false,
            start: Start::NotWritten,
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.is_clean
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    pub(super) fn start(&self) -> Start {
        self.start
    }

    pub(super) fn set_start(&mut self, start: Start) {
        self.start = start;
    }

    /// The connection's entry is made, so owners can be asked.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Writing)
    }

    pub(super) fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Starting)
    }

    /// Begins a round of questions; gives its number.
    pub(super) fn ask(&mut self, owners: &[NodeId]) -> u64 {
        self.round += 1;
        self.reads_again = false;
        self.stage = Stage::Asking {
            awaited: owners.iter().copied().collect(),
            is_answered: false,
        };
        self.round
    }

    /// The owner's answer of this round is awaited.
    pub(super) fn awaits_answer(&self, owner: NodeId, round: u64) -> bool {
        self.round == round && self.awaits_owner(owner)
    }

    pub(super) fn awaits_owner(&self, owner: NodeId) -> bool {
        matches!(&self.stage, Stage::Asking { awaited, .. } if awaited.contains(&owner))
    }

    /// Merges what an owner has told.
    pub(super) fn take_answer(&mut self, owner: NodeId, session: KnownSession<V>) -> Result<(), VectorFull> {
        self.known.merge(session)?;
        if let Stage::Asking { awaited, is_answered } = &mut self.stage {
            awaited.remove(&owner);
            *is_answered = true;
        }
        Ok(())
    }

    /// Waits for the end of older connections.
    pub(super) fn release(&mut self, awaited: BTreeSet<Dot>) {
        self.stage = Stage::Releasing { awaited };
    }

    /// Older connections of which the client's connection `own` does not know that they have ended.
    pub(super) fn unreleased(&self, own: Dot) -> Vec<Dot> {
        let older = self.known.older(own);
        older.filter(|dot| !self.released.contains(dot)).collect()
    }

    pub(super) fn has_released(&self, old: Dot) -> bool {
        self.released.contains(&old)
    }

    /// The claim waits for the end of this connection.
    pub(super) fn awaits_release(&self, old: Dot) -> bool {
        matches!(&self.stage, Stage::Releasing { awaited } if awaited.contains(&old))
    }

    /// Connections of a node whose end the claim waits for.
    pub(super) fn awaited_of(&self, node: NodeId) -> Vec<Dot> {
        match &self.stage {
            Stage::Releasing { awaited } => {
                let of_node = awaited.iter().filter(|old| old.run.node == node);
                of_node.copied().collect()
            }
            Stage::Writing | Stage::Asking { .. } | Stage::Starting => Vec::new(),
        }
    }

    /// An older connection has ended. An answer may come when the claim has begun anew: then the
    /// owners were asked before it.
    pub(super) fn take_released(&mut self, own: Dot, old: Dot) {
        let is_older = self.known.older(own).any(|dot| dot == old);
        if let Stage::Releasing { awaited } = &mut self.stage {
            awaited.remove(&old);
        }
        if is_older && self.released.insert(old) {
            self.reads_again = true;
        }
    }

    /// Waits no longer for a node that was given up.
    pub(super) fn forget_node(&mut self, node: NodeId) {
        match &mut self.stage {
            Stage::Asking { awaited, .. } => {
                awaited.remove(&node);
            }
            Stage::Releasing { awaited } => {
                let count = awaited.len();
                awaited.retain(|old| old.run.node != node);
                self.reads_again |= awaited.len() < count;
            }
            Stage::Writing | Stage::Starting => {}
        }
    }

    /// Step that is due. Where no owner was present the next ring is waited for.
    pub(super) fn next(&self) -> Next {
        match &self.stage {
            Stage::Asking { awaited, is_answered } if awaited.is_empty() && *is_answered => Next::Release,
            Stage::Releasing { awaited } if awaited.is_empty() && self.reads_again => Next::ReadAgain,
            Stage::Releasing { awaited } if awaited.is_empty() => Next::Start,
            _ => Next::Wait,
        }
    }

    /// Begins to start the session; gives the birth of the one that is found. `seen` is what is
    /// known with the routes.
    pub(super) fn begin_start(&mut self, seen: &KnownSession<V>) -> Option<Birth> {
        self.stage = Stage::Starting;
        let start = match self.start {
            Start::Written(dot) => Some(dot),
            Start::NotWritten | Start::Requested => None,
        };
        let found = seen.latest_session(start);
        self.is_found |= found.is_some();
        found
    }

    /// Session Present of CONNACK [MQTT-3.2.2-2] [MQTT-3.2.2-3].
    pub(super) fn is_present(&self) -> bool {
        self.is_found && !self.is_clean
    }

    /// Time at which the claim is refused.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Wait that has taken too long.
    pub(super) fn overdue(&self) -> RefuseReason {
        match &self.stage {
            Stage::Writing | Stage::Starting => RefuseReason::NotDurable,
            Stage::Asking { awaited, .. } => {
                let missing = awaited.first();
                missing.map_or(RefuseReason::NoOwner, |owner| RefuseReason::NotAnswered {
                    owner: *owner,
                })
            }
            Stage::Releasing { awaited } => {
                let missing = awaited.first();
                missing.map_or(RefuseReason::NotDurable, |old| RefuseReason::NotReleased {
                    old: *old,
                })
            }
        }
    }
}
