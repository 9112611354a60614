//! Part of the group as a naive primary owner reads it: all entries are looked at for each question.

use super::SOURCE;
use crate::groups::tests::*;

/// Entries of a part.
#[derive(Debug, Default)]
pub(super) struct NaivePart {
    /// Births of members.
    members: BTreeSet<Dot>,
    earliest: Option<Hlc>,
    pub(super) presences: BTreeMap<Dot, NaivePresence>,
    messages: BTreeMap<Dot, Hlc>,
    assignments: Vec<NaiveAssignment>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct NaivePresence {
    birth: Dot,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct NaiveAssignment {
    pub(super) dot: Dot,
    message: Dot,
    pub(super) presence: Dot,
}

impl NaivePart {
    pub(super) fn of(entries: &[ReadEntry]) -> NaivePart {
        let mut part = NaivePart::default();
        for ReadEntry { dot, entry } in entries.iter().copied() {
            match entry {
                GroupEntry::Member { birth, since } => {
                    part.members.insert(birth);
                    part.earliest = part.earliest.into_iter().chain([since]).min();
                }
                GroupEntry::Presence { birth } => {
                    part.presences.insert(dot, NaivePresence { birth });
                }
                GroupEntry::Message { clock } => {
                    part.messages.insert(dot, clock);
                }
                GroupEntry::Assignment { assigned, .. } => {
                    let AssignedMessage { message, presence } = assigned;
                    part.assignments.push(NaiveAssignment {
                        dot,
                        message,
                        presence,
                    });
                }
            }
        }
        part
    }

    pub(super) fn assignments_of(&self, message: Dot) -> impl Iterator<Item = &NaiveAssignment> {
        self.assignments.iter().filter(move |of| of.message == message)
    }

    /// Messages that a presence is given. None where it is not certain: one has several assignments.
    fn held_by(&self, presence: Dot) -> Option<usize> {
        let of_presence = self.assignments.iter().filter(|of| of.presence == presence);
        let mut messages = of_presence.clone().map(|of| of.message);
        let is_certain = messages.all(|message| {
            let counts = |clock: &Hlc| self.earliest.is_some_and(|earliest| earliest < *clock);
            self.assignments_of(message).count() == 1 && self.messages.get(&message).is_some_and(counts)
        });
        is_certain.then(|| of_presence.count())
    }

    /// A message that nobody was given is the earliest one, and goes to the presence with the fewest.
    #[track_caller]
    pub(super) fn assert_next(&self, assigned: AssignedMessage, runs: &BTreeSet<Run>) {
        let message = self.messages.get(&assigned.message).zip(self.earliest);
        let presence = self.presences.get(&assigned.presence);
        let Some(((clock, earliest), chosen)) = message.zip(presence) else {
            // It has gone since it was asked for.
            return;
        };
        let is_before = |(message, other): (&Dot, &Hlc)| {
            let is_new = self.assignments_of(*message).next().is_none();
            is_new && earliest < *other && (*other, *message) < (*clock, assigned.message)
        };
        assert!(
            !self.messages.iter().any(is_before),
            "an earlier message waits: {self:?}"
        );
        assert!(self.members.contains(&chosen.birth) && runs.contains(&assigned.presence.run));
        let Some(held) = self.held_by(assigned.presence) else {
            return;
        };
        assert!(held < SOURCE.window, "{assigned:?} beyond a window: {self:?}");
        for (dot, presence) in &self.presences {
            let may_have = self.members.contains(&presence.birth) && runs.contains(&dot.run);
            if let Some(others) = self.held_by(*dot).filter(|_| may_have) {
                assert!(held <= others, "another has fewer: {self:?}");
            }
        }
    }

    /// A message that counts, though a connection of a member is open in one of `runs`. One that a
    /// presence may have that is still to come does not matter.
    pub(super) fn left(&self, runs: &BTreeSet<Run>, covers: impl Fn(Dot) -> bool) -> Option<Dot> {
        let mut open = self.presences.iter();
        open.find(|(dot, presence)| runs.contains(&dot.run) && self.members.contains(&presence.birth))?;
        let earliest = self.earliest?;
        let may_come = |of: &NaiveAssignment| runs.contains(&of.presence.run) && !covers(of.presence);
        let counting = self.messages.iter().filter(|(_, clock)| earliest < **clock);
        let mut left = counting.map(|(message, _)| *message);
        left.find(|message| !self.assignments_of(*message).any(may_come))
    }
}
