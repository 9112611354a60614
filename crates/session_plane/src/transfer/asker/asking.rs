//! Asking: which slots are asked of which holder next, and in which question.
//!
//! Slots of which the same is to be said are in one question, wherever they are. A holder is asked once there is room
//! for a whole question: few slots at a time would be as many messages as slots.
//!
//! *Invariant*: slots take turns. One whose hole stays is asked for again and again, and leaves room for others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use cluster::NodeId;

use super::{Asker, AskerLimits, ExchangeKey};
use crate::queue_limits::QueueValue;
use crate::transfer::exchange::Exchange;
use crate::transfer::message::{
    AnswerId, AskSlots, QuestionId, RunPosition, TransferAction, TransferMessage,
};
use crate::transfer::{TransferBytes, TransferValue};
use crate::{Slot, SlotSet, VersionVector};

/// Slots that may be asked for beside those that are.
#[derive(Debug)]
struct Room {
    slots: usize,
    /// Slots that each holder is asked for, merged ones that it was not told of among them.
    asked: BTreeMap<NodeId, usize>,
}

impl Room {
    /// Room for what is not asked of a holder, or for a whole question.
    fn is_wide_for(&self, holder: NodeId, unasked: usize, limits: &AskerLimits) -> bool {
        let asked = self.asked.get(&holder).copied().unwrap_or(0);
        let left = limits.slots_per_peer_max.saturating_sub(asked).min(self.slots);
        left >= unasked.min(limits.slots_per_question_max)
    }

    fn is_left_for(&self, holder: NodeId, limits: &AskerLimits) -> bool {
        let asked = self.asked.get(&holder).copied().unwrap_or(0);
        self.slots > 0 && asked < limits.slots_per_peer_max
    }

    fn take(&mut self, holder: NodeId) {
        self.slots -= 1;
        *self.asked.entry(holder).or_default() += 1;
    }
}

/// Questions that are being made.
#[derive(Debug, Default)]
struct NewQuestions {
    questions: Vec<NewQuestion>,
    /// Places of questions with room, by what they say.
    open: BTreeMap<QuestionTerms, usize>,
}

#[derive(Debug)]
struct NewQuestion {
    to: NodeId,
    ask: AskSlots,
}

/// What a question says of all its slots.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QuestionTerms {
    to: NodeId,
    positions: Vec<RunPosition>,
    lacking: VersionVector,
}

impl NewQuestions {
    /// Adds a slot to the open question of these terms, or to a new one: `next` is its number. Gives the
    /// number of the question.
    fn add(&mut self, slot: Slot, terms: QuestionTerms, next: u64, slots_max: usize) -> QuestionId {
        let open = self
            .open
            .get(&terms)
            .and_then(|place| self.questions.get_mut(*place));
        if let Some(NewQuestion { ask, .. }) = open.filter(|open| open.ask.slots.len() < slots_max) {
            ask.slots.insert(slot);
            return ask.question;
        }
        let question = QuestionId(next);
        let ask = AskSlots {
            question,
            slots: SlotSet::from_iter([slot]),
            positions: terms.positions.clone(),
            lacking: terms.lacking.clone(),
        };
        let to = terms.to;
        self.open.insert(terms, self.questions.len());
        self.questions.push(NewQuestion { to, ask });
        question
    }
}

/// Place of a slot in a round of all slots, which begins behind one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// The slot is before the one that the round begins behind.
    is_wrapped: bool,
    slot: Slot,
}

impl Turn {
    fn of(slot: Slot, origin: Option<Slot>) -> Turn {
        let is_wrapped = origin.is_some_and(|origin| slot <= origin);
        Turn { is_wrapped, slot }
    }
}

/// First slot in a round that begins behind `origin`, behind the turn `early`.
fn first_behind(slots: &BTreeSet<Slot>, origin: Option<Slot>, early: Option<Turn>) -> Option<Slot> {
    let next = |after: Option<Slot>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        slots.range((after, Bound::Unbounded)).next().copied()
    };
    let again = |after: Option<Slot>| next(after).filter(|slot| Some(*slot) <= origin);
    match early {
        Some(Turn {
            is_wrapped: true,
            slot,
        }) => again(Some(slot)),
        Some(Turn { slot, .. }) => next(Some(slot)).or_else(|| again(None)),
        None => next(origin).or_else(|| again(None)),
    }
}

impl<V: TransferValue + QueueValue + Ord + Clone, M: TransferBytes> Asker<V, M> {
    /// Asks each holder that is unanswered, as far as the limits allow.
    ///
    /// `positions` are the markers that made this node an owner of a slot, one for each present
    /// run. None until each present peer has sent such a marker. `covered` are the events that the copy of a
    /// slot has decided upon.
    pub fn ask<'a>(
        &mut self,
        positions: impl Fn(Slot) -> Option<Vec<RunPosition>>,
        covered: impl Fn(Slot) -> Option<&'a VersionVector>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) {
        let mut unasked = self.unasked.take().unwrap_or_else(|| self.find_unasked());
        let mut questions = NewQuestions::default();
        self.add_questions(&mut unasked, positions, &mut questions);
        unasked.retain(|_, slots| !slots.is_empty());
        self.unasked = Some(unasked);
        actions.extend(
            questions
                .questions
                .into_iter()
                .map(|NewQuestion { to, ask }| TransferAction {
                    to,
                    message: TransferMessage::AskSlots(ask),
                }),
        );
        self.compare_ready(covered, actions);
    }

    /// Makes questions of what is not asked, while there is room.
    fn add_questions(
        &mut self,
        unasked: &mut BTreeMap<NodeId, BTreeSet<Slot>>,
        positions: impl Fn(Slot) -> Option<Vec<RunPosition>>,
        questions: &mut NewQuestions,
    ) {
        let (origin, mut early) = (self.last_asked, None);
        let mut room = self.room();
        let limits = self.limits;
        let mut asked: BTreeMap<NodeId, &mut BTreeSet<Slot>> = unasked
            .iter_mut()
            .filter(|(holder, slots)| room.is_wide_for(**holder, slots.len(), &limits))
            .map(|(holder, slots)| (*holder, slots))
            .collect();
        while let Some(key) = self.next_to_ask(&asked, &room, origin, early) {
            let Some(positions) = positions(key.slot) else {
                early = Some(Turn::of(key.slot, origin));
                continue;
            };
            self.last_asked = Some(key.slot);
            if let Some(slots) = asked.get_mut(&key.holder) {
                slots.remove(&key.slot);
            }
            room.take(key.holder);
            self.ask_for(key, positions, questions);
        }
    }

    /// Compares entries of slots whose answers have begun, while there is room.
    fn compare_ready<'a>(
        &mut self,
        covered: impl Fn(Slot) -> Option<&'a VersionVector>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) {
        if self.exchanges.is_full(self.limits.comparing_max) {
            return;
        }
        for slot in self.exchanges.ready_slots() {
            if self.exchanges.is_full(self.limits.comparing_max) {
                return;
            }
            if let Some(covered) = covered(slot) {
                self.compare_next(slot, covered, actions);
            }
        }
    }

    /// Next question for which there is room: that of the first slot behind `origin`, the last one that was
    /// asked for before. `early` is the last slot that this node does not own yet by the rings of all peers.
    ///
    /// Slots take turns: one whose hole stays is asked for again and again, and leaves room for others.
    fn next_to_ask(
        &self,
        unasked: &BTreeMap<NodeId, &mut BTreeSet<Slot>>,
        room: &Room,
        origin: Option<Slot>,
        early: Option<Turn>,
    ) -> Option<ExchangeKey> {
        let with_room = unasked.iter();
        let with_room = with_room.filter(|(holder, _)| room.is_left_for(**holder, &self.limits));
        let next = with_room.filter_map(|(holder, slots)| {
            let slot = first_behind(slots, origin, early)?;
            let holder = *holder;
            Some(ExchangeKey { slot, holder })
        });
        next.min_by_key(|key| (Turn::of(key.slot, origin), key.holder))
    }

    /// Slots by holders that have not answered and are not asked; a pass over all slots.
    fn find_unasked(&self) -> BTreeMap<NodeId, BTreeSet<Slot>> {
        let mut unasked: BTreeMap<NodeId, BTreeSet<Slot>> = BTreeMap::new();
        for (slot, owned) in &self.slots {
            for holder in &owned.unanswered {
                let (slot, holder) = (*slot, *holder);
                if !self.exchanges.contains(&ExchangeKey { slot, holder }) {
                    unasked.entry(holder).or_default().insert(slot);
                }
            }
        }
        unasked
    }

    fn room(&self) -> Room {
        let mut asked: BTreeMap<NodeId, usize> = BTreeMap::new();
        let merged = self.unreported.iter().map(|merged| merged.holder);
        for holder in self.exchanges.holders().chain(merged) {
            *asked.entry(holder).or_default() += 1;
        }
        let slots = self.limits.slots_max.saturating_sub(self.exchanges.len());
        Room { slots, asked }
    }

    /// Adds a slot to a question to a holder.
    fn ask_for(&mut self, key: ExchangeKey, positions: Vec<RunPosition>, questions: &mut NewQuestions) {
        let owned = self.slots.get(&key.slot);
        let lacking = owned.map(|owned| owned.lacking.clone()).unwrap_or_default();
        let (to, slot) = (key.holder, key.slot);
        let terms = QuestionTerms {
            to,
            positions,
            lacking,
        };
        let (next, slots_max) = (self.last_question + 1, self.limits.slots_per_question_max);
        let question = questions.add(slot, terms, next, slots_max);
        self.last_question = self.last_question.max(question.0);
        self.exchanges
            .insert(key, Exchange::new(AnswerId { slot, question }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).expect("in range")
    }

    proptest! {
        /// Each slot has its turn behind the last one, and none comes before an early one again.
        #[test]
        fn slots_take_turns(
            slots in proptest::collection::btree_set(0..8_u16, 0..8),
            origin in proptest::option::of(0..8_u16),
            early in proptest::option::of(0..8_u16),
        ) {
            let slots: BTreeSet<Slot> = slots.into_iter().map(slot).collect();
            let origin = origin.map(slot);
            let early = early.map(|early| Turn::of(slot(early), origin));
            let turns = slots.iter().map(|slot| Turn::of(*slot, origin));
            let next = turns.filter(|turn| early.is_none_or(|early| *turn > early)).min();
            prop_assert_eq!(first_behind(&slots, origin, early), next.map(|turn| turn.slot));
        }
    }
}
