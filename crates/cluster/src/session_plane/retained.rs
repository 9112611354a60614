//! The retained message of a topic, or that it was taken away.
//!
//! The later moment counts, and of two at the same moment the greater dot. Taking away is a message without payload in MQTT, and as such has a moment of its
//! own: unlike in the other kinds of record, it beats a message that it has not seen and that was published before. A record of which
//! nothing is retained is a tombstone.
//!
//! *Invariant*: a write is later than all that its copy has seen, so the later moment never loses to what it has replaced.

use bytes::Bytes;

use super::record::Writer;
use super::retirement::Retired;
use super::vector_clock::ClockFull;
use super::{Actor, Causality, Dot, Hlc, VectorClock};

/// One copy of a topic's record. It travels whole.
#[derive(Debug, Clone)]
pub struct Retained {
    clock: VectorClock,
    latest: Latest,
    /// As in [`super::Record`].
    is_continued: bool,
}

/// Field by field, this is the order in which one beats the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Latest {
    pub(super) hlc: Hlc,
    pub(super) dot: Dot,
    pub(super) message: Option<Bytes>,
}

impl Retained {
    /// Puts a copy together from its parts: `None` if the clock does not contain the dot.
    pub(super) fn from_parts(clock: VectorClock, latest: Latest) -> Option<Retained> {
        clock.contains(latest.dot).then_some(Retained {
            clock,
            latest,
            is_continued: false,
        })
    }

    /// The first write to a topic's record.
    pub fn new(writer: &mut Writer, wall: u64, message: Option<Bytes>) -> Result<Retained, ClockFull> {
        let mut clock = VectorClock::new();
        let dot = writer.next_dot(&mut clock, false)?;
        let hlc = writer.stamp(wall, Hlc::ZERO);
        let latest = Latest { hlc, dot, message };
        Ok(Retained {
            clock,
            latest,
            is_continued: true,
        })
    }

    /// Retains a message, or nothing.
    pub fn set(&mut self, writer: &mut Writer, wall: u64, message: Option<Bytes>) -> Result<(), ClockFull> {
        let dot = writer.next_dot(&mut self.clock, self.is_continued)?;
        self.is_continued = true;
        let hlc = writer.stamp(wall, self.latest.hlc);
        self.latest = Latest { hlc, dot, message };
        Ok(())
    }

    /// Has seen what both copies have seen. Says how this one stood to the other.
    pub fn merge(&mut self, other: &Retained) -> Result<Causality, ClockFull> {
        let causality = self.clock.compare(&other.clock);
        self.clock.merge(&other.clock)?;
        if self.latest < other.latest {
            self.latest = other.latest.clone();
        }
        Ok(causality)
    }

    /// As [`super::Record::retirable`]: all that have ended, but for the one that wrote last.
    pub fn retirable(&self, is_ended: impl Fn(Actor) -> bool) -> Vec<Actor> {
        let mut actors: Vec<Actor> = self.clock.actors().collect();
        actors.dedup();
        actors.retain(|actor| is_ended(*actor) && *actor != self.latest.dot.actor);
        actors
    }

    /// As [`super::Record::retire`]; `None`: this node does not have the record any more.
    #[must_use]
    pub fn retire(mut self, writer: &mut Writer, clock: &VectorClock, what: &Retired) -> Option<Retained> {
        match what {
            Retired::Tombstone if self.is_tombstone() && self.clock == *clock => {
                writer.forget(&self.clock);
                return None;
            }
            Retired::Actors(actors) if self.clock.covers(clock) => {
                let latest = self.latest.dot.actor;
                self.clock
                    .forget(|actor| actors.contains(&actor) && actor != latest);
            }
            Retired::Tombstone | Retired::Actors(_) => {}
        }
        Some(self)
    }

    /// As [`super::Record::continued`].
    #[must_use]
    pub fn continued(mut self) -> Retained {
        self.is_continued = true;
        self
    }

    /// What counts, and since when, and whose write it is.
    pub(super) fn latest(&self) -> &Latest {
        &self.latest
    }

    /// The message.
    pub fn message(&self) -> Option<&Bytes> {
        self.latest.message.as_ref()
    }

    /// When it was retained, or taken away.
    pub fn hlc(&self) -> Hlc {
        self.latest.hlc
    }

    /// What this copy has seen.
    pub fn clock(&self) -> &VectorClock {
        &self.clock
    }

    /// Whether nothing is retained.
    pub fn is_tombstone(&self) -> bool {
        self.latest.message.is_none()
    }

    /// The bytes that this copy takes in memory, without what its message refers to.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.clock.memory_beside()
    }
}

impl PartialEq for Retained {
    /// Whether both hold the same and have seen the same.
    fn eq(&self, other: &Retained) -> bool {
        self.clock == other.clock && self.latest == other.latest
    }
}

impl Eq for Retained {}
