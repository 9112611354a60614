//! Fitness of replicas to lead a group, beyond what Raft knows of it.
//!
//! Raft knows who votes, was heard, and has the log. It does not know that a replica has no store that it could lead with, since that comes from
//! another node, nor that its disk is slow. Such a replica says so to the leader, again and again while it is so, and is not asked to lead.
//! One that was asked and did not come to lead is not asked again for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::NodeId;

/// Fitness of the other replicas, and what they are told of that of this one.
#[derive(Debug, Default)]
pub struct Fitness {
    /// When others said last that they cannot lead.
    unfit: BTreeMap<NodeId, Instant>,
    /// When others were asked last to lead, since this replica leads.
    tried: BTreeMap<NodeId, Instant>,
    /// When this replica says again that it cannot lead.
    say_at: Option<Instant>,
}

/// How often a replica that cannot lead says so.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// A replica that has not said it for so long can lead again. Two of these messages may be lost.
const UNFIT_FOR: Duration = Duration::from_secs(3);

/// How long a replica is left alone that was asked to lead. If nothing comes of that, no requests are taken for an election timeout.
const TRIED_FOR: Duration = Duration::from_secs(30);

impl Fitness {
    /// Another replica says that it cannot lead.
    pub fn said_unfit(&mut self, now: Instant, from: NodeId) {
        self.unfit.retain(|_, at| now < *at + UNFIT_FOR);
        self.unfit.insert(from, now);
    }

    /// Whether a replica has not said that it cannot lead.
    pub fn is_fit(&self, now: Instant, node: NodeId) -> bool {
        self.unfit.get(&node).is_none_or(|at| now >= *at + UNFIT_FOR)
    }

    /// Remembers that a replica was asked to lead.
    pub fn note_tried(&mut self, now: Instant, node: NodeId) {
        self.tried.insert(node, now);
    }

    /// Whether a replica was asked to lead a moment ago, and this one leads on.
    pub fn was_tried(&self, now: Instant, node: NodeId) -> bool {
        self.tried.get(&node).is_some_and(|at| now < *at + TRIED_FOR)
    }

    /// There is another leader, or none.
    pub fn has_new_leader(&mut self) {
        self.tried.clear();
        self.say_at = None;
    }

    /// Whether it is time to say that this replica cannot lead.
    pub fn timeout(&mut self, now: Instant, is_unfit: bool) -> bool {
        let is_due = is_unfit && self.say_at.is_none_or(|at| at <= now);
        if is_due {
            self.say_at = Some(now + SAY_EVERY);
        } else if !is_unfit {
            self.say_at = None;
        }
        is_due
    }

    /// When it is time to say it, if this replica cannot lead.
    pub fn say_at(&self, now: Instant) -> Instant {
        self.say_at.unwrap_or(now)
    }
}
