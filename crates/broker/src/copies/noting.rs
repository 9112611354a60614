//! While nodes come and go, sessions take note of which messages they get.
//!
//! A message may come to a session by several ways then: from the node where it was published, from one that gives way, and from another one that had it from there. What a
//! session has got it does not take a second time.

use std::ops::Bound;
use std::time::{Duration, Instant};

use mqtt::ids::SessionNumber;
use mqtt::now::Now;
use mqtt::origin::MessageId;
use mqtt::session::Session;
use mqtt::session::got::RANGES_MAX;
use protocol::Text;

use super::Copies;
use super::retiring::COPIES_BEFORE;
use crate::node::Node;

/// For how long after the latest node has come or gone.
const NOTED_FOR: Duration = Duration::from_secs(60);

/// Ranges of numbers that all sessions of a node may note, of 16 bytes each: 64 MiB.
const RANGES_OF_ALL: usize = 4 << 20;

/// Ranges of one session, however many sessions there are.
const RANGES_MIN: usize = 8;

/// Sessions that forget before others have their turn: less than a millisecond.
pub(super) const FORGET_MAX: usize = 1_024;

/// Whether sessions take note.
#[derive(Debug, Default)]
pub(super) enum Noting {
    #[default]
    Off,
    /// Until then, or from when nodes come and go no more.
    On(Option<Instant>),
    /// It is over since then, and these are the next ones to forget: a session of this node, and behind which copy.
    Forgetting(Instant, SessionNumber, Option<Text>),
    /// Clocks of sessions are to be shorter (`retiring.rs`) from then on, and this is the next one.
    Retiring(Instant, SessionNumber),
}

impl Noting {
    /// A node has come or gone.
    pub(super) fn begin(&mut self) {
        *self = Self::On(None);
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::On(_))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Off => None,
            Self::On(until) => *until,
            Self::Forgetting(at, ..) | Self::Retiring(at, _) => Some(*at),
        }
    }
}

impl Copies {
    /// A session has got a message (see [`Got::id_of`](mqtt::session::got::Got::id_of)).
    pub(crate) fn note_got(&self, session: &mut Session, id: Option<MessageId>) {
        if let (Some(ranges_max), Some(id)) = (self.noted_ranges(), id)
            && session.is_durable()
        {
            session.note_got(id, ranges_max);
        }
    }

    /// How many ranges of numbers a session may note. `None`: nothing is to be noted.
    pub(crate) fn noted_ranges(&self) -> Option<usize> {
        if !self.noting.is_on() {
            return None;
        }
        let sessions = self.held.len() + self.standing_by.len();
        Some((RANGES_OF_ALL / sessions.max(1)).clamp(RANGES_MIN, RANGES_MAX))
    }
}

impl Node {
    /// How many sessions, of this node and of others, have noted what they got. It looks at all of them.
    pub fn noted_sessions(&self) -> usize {
        let Some(copies) = &self.copies else { return 0 };
        let held = copies.held.values().filter(|held| {
            let key = self.sessions.find(&held.client_id);
            key.and_then(|key| self.sessions.get(key))
                .is_some_and(|entry| entry.session.has_noted())
        });
        held.count()
            + copies
                .standing_by
                .values()
                .filter(|copy| copy.session.has_noted())
                .count()
    }

    /// Ends it when nodes have neither come nor gone for a while, and lets all sessions forget, some at a time.
    pub(super) fn end_noting(&mut self, now: Now) {
        let (Some(copies), Some(states)) = (&mut self.copies, &self.states) else {
            return;
        };
        if let Noting::On(until) = &mut copies.noting {
            if now.instant < *until.get_or_insert(now.instant + NOTED_FOR) {
                return;
            }
            copies.noting = Noting::Forgetting(now.instant, SessionNumber(0), None);
        }
        let Noting::Forgetting(_, next, behind) = &mut copies.noting else {
            return self.retire_of_sessions(now);
        };
        let may_retire = states.is_everybody_running();
        let mut left = FORGET_MAX;
        for (number, held) in copies.held.range(*next..).take(FORGET_MAX) {
            left -= 1;
            *next = SessionNumber(number.0 + 1);
            let key = self.sessions.find(&held.client_id);
            if let Some(entry) = key.and_then(|key| self.sessions.get_mut(key)) {
                entry.session.forget_got();
            }
        }
        let begin = behind.clone().map_or(Bound::Unbounded, Bound::Excluded);
        for (client_id, copy) in copies.standing_by.range_mut((begin, Bound::Unbounded)).take(left) {
            left -= 1;
            *behind = Some(client_id.clone());
            copy.session.forget_got();
            if may_retire && copy.retire() {
                self.commits.write(copy.put());
            }
        }
        if left > 0 {
            copies.noting = Noting::Retiring(now.instant + COPIES_BEFORE, SessionNumber(0));
        }
    }
}
