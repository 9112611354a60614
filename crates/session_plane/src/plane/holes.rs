//! Holes that stay: since when each copy has some, and what is due (rules `ask-again` and
//! `close-numbers`).
//!
//! Most holes are events on their way. One that stays may have lost its sender: all peers are asked
//! about it, and again and again. What they have said counts until a node comes or goes. One that stays longer may be nobody's: once every member is present, all are asked
//! whether anybody has it, and what nobody has is closed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Timing;
use crate::{Slot, SlotSet};

/// Holes of merged copies: as one, and once there are some for a while of each copy.
#[derive(Debug)]
pub(super) struct HoleWatch {
    ask_after: Duration,
    ask_again_after: Duration,
    close_after: Duration,
    by_slot: BTreeMap<Slot, Hole>,
    /// Since when there are some.
    since: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    since: Instant,
    /// When all peers were asked last. None: not since a node came or went.
    asked: Option<Instant>,
}

/// Measure against a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoleStep {
    /// Wait: what is lacking may be on its way.
    Wait,
    /// Ask all peers again.
    AskAgain,
    /// Ask all peers whether anybody has what is lacking, unless that was asked; then close what
    /// nobody has.
    Close,
}

impl HoleWatch {
    pub(super) fn new(timing: &Timing) -> HoleWatch {
        HoleWatch {
            ask_after: timing.ask_after,
            ask_again_after: timing.ask_again_after,
            close_after: timing.close_after,
            by_slot: BTreeMap::new(),
            since: None,
        }
    }

    /// Looks at a merged copy with a hole. Asking again counts as done with this call.
    pub(super) fn look(&mut self, now: Instant, slot: Slot, is_complete: bool) -> HoleStep {
        let first = Hole {
            since: now,
            asked: None,
        };
        let hole = self.by_slot.entry(slot).or_insert(first);
        if is_complete && now >= hole.since + self.close_after {
            return HoleStep::Close;
        }
        let due = hole.asked.map(|asked| asked + self.ask_again_after);
        if now < due.unwrap_or(hole.since + self.ask_after) {
            return HoleStep::Wait;
        }
        hole.asked = Some(now);
        HoleStep::AskAgain
    }

    /// A node has come or gone: what peers have said about holes does not count any more.
    pub(super) fn forget_answers(&mut self) {
        for hole in self.by_slot.values_mut() {
            hole.asked = None;
        }
    }

    /// Forgets the hole of a copy: it has none, or holes were closed.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.by_slot.remove(&slot);
    }

    /// Forgets the holes of copies that have none any more.
    pub(super) fn retain(&mut self, with_holes: &SlotSet) {
        self.by_slot.retain(|slot, _| with_holes.contains(*slot));
    }

    /// Looks at all merged copies. True where some have holes for a while: each is to be looked at.
    pub(super) fn stay(&mut self, now: Instant, have_holes: bool) -> bool {
        if !have_holes {
            self.since = None;
            return false;
        }
        now >= *self.since.get_or_insert(now) + self.ask_after
    }
}
