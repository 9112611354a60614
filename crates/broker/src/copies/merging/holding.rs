//! While a node of the smaller side merges, its clients wait.
//!
//! What is published now both sides get. A client that got it here, and then finds its session at the other node, would get it twice.

use std::time::Instant;

use cluster::session_plane::lifecycle::NodeState;
use mqtt::ids::SessionKey;
use mqtt::now::Now;

use crate::copies::Copies;
use crate::node::{Action, Node};
use crate::sessions::SessionEntry;

/// Whether clients wait.
#[derive(Debug, Default)]
pub(in crate::copies) struct Holding {
    is_merging: bool,
    /// A node that waits for others for longer than this serves its clients all the same.
    until: Option<Instant>,
}

impl Holding {
    pub(in crate::copies) fn deadline(&self) -> Option<Instant> {
        self.until
    }
}

impl Node {
    /// Whether a session sends its client nothing for now.
    pub(crate) fn is_held_for_merging(&self, key: SessionKey) -> bool {
        let copies = self
            .copies
            .as_ref()
            .filter(|copies| copies.holding.until.is_some());
        copies.is_some_and(|copies| {
            self.sessions
                .get(key)
                .is_some_and(|entry| copies.has_parted(entry))
        })
    }

    /// The states of nodes have changed, or time has passed.
    pub(in crate::copies) fn look_at_holding(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (Some(copies), Some(states)) = (&mut self.copies, &self.states) else {
            return;
        };
        let is_merging = matches!(states.own_state(), NodeState::MergeMinority | NodeState::Merging);
        let holding = &mut copies.holding;
        let was_merging = std::mem::replace(&mut holding.is_merging, is_merging);
        if is_merging && !was_merging {
            holding.until = Some(now.instant + self.config.routes.silence_max);
        }
        let is_over = |until: &mut Instant| !is_merging || *until <= now.instant;
        if holding.until.take_if(is_over).is_none() {
            return;
        }
        let parted = self.sessions.iter().filter(|(_, entry)| copies.has_parted(entry));
        let parted: Vec<SessionKey> = parted.map(|(key, _)| key).collect();
        for key in parted {
            self.pump(now, key, actions);
        }
    }
}

impl Copies {
    /// Whether another node may have gone on with a session.
    fn has_parted(&self, entry: &SessionEntry) -> bool {
        let held = self.held.get(&entry.session.number);
        held.is_some_and(|held| held.marks.is_some())
    }
}
