//! Holes that stay: since when each copy has some, and what is due (rules `ask-again` and
//! `close-numbers`).
//!
//! Most holes are events on their way. One that stays may have lost its sender: all peers are asked
//! again. One that stays longer may be nobody's: once every member is present, all are asked
//! whether anybody has it, and what nobody has is closed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Slot;

/// Holes of merged copies that are apart. Those of copies in step are watched as one.
#[derive(Debug)]
pub(super) struct HoleWatch {
    ask_again_after: Duration,
    close_after: Duration,
    by_slot: BTreeMap<Slot, Hole>,
    in_step: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    since: Instant,
    asked: Instant,
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
    pub(super) fn new(ask_again_after: Duration, close_after: Duration) -> HoleWatch {
        HoleWatch {
            ask_again_after,
            close_after,
            by_slot: BTreeMap::new(),
            in_step: None,
        }
    }

    /// Looks at a merged copy with a hole. Asking again counts as done with this call.
    pub(super) fn look(&mut self, now: Instant, slot: Slot, is_complete: bool) -> HoleStep {
        let first = Hole {
            since: now,
            asked: now,
        };
        let hole = self.by_slot.entry(slot).or_insert(first);
        if is_complete && now >= hole.since + self.close_after {
            return HoleStep::Close;
        }
        if now < hole.asked + self.ask_again_after {
            return HoleStep::Wait;
        }
        hole.asked = now;
        HoleStep::AskAgain
    }

    /// Forgets the hole of a copy: it has none, or holes were closed.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.by_slot.remove(&slot);
    }

    /// Looks at the copies in step. True where their holes have stayed: they are to part.
    pub(super) fn look_in_step(&mut self, now: Instant, has_holes: bool) -> bool {
        if !has_holes {
            self.in_step = None;
            return false;
        }
        let since = *self.in_step.get_or_insert(now);
        let stays = now >= since + self.ask_again_after;
        if stays {
            self.in_step = None;
        }
        stays
    }
}
