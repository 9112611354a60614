//! Holder: answers questions of owners for the slots of which this node has a copy.
//!
//! An answer begins when this node has taken each present run up to the positions of the question.
//! Its vectors, pending messages and single dots are as of then (rule `as-of-begin`), and are kept
//! until they are sent. Its entries are read when the asker wants them. The entries of one client
//! are read at one moment.
//!
//! *Invariants*: a peer has one answer for each slot. While an answer is under way the copy is not
//! deleted, and garbage in it is not dropped ([`Holder::is_answering`]). What a merge drops of it the
//! answer keeps, where it beats other entries ([`Holder::keep`]). A refused question changes nothing.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use cluster::NodeId;

use super::answer::{Answer, Begun};
use super::difference::check_question;
use super::message::{
    AnswerBegin, AnswerId, AskPart, AskSlot, OwnEvent, QuestionId, SlotDigest, SlotDigests, TransferAction,
    TransferMessage, Wanted,
};
use super::{AskError, TransferBytes, TransferValue};
use crate::queue_limits::QueueValue;
use crate::view::NODES_MAX;
use crate::{
    ClientDot, ClientEntry, PendingMessage, Run, Slot, SlotCopy, SlotEntries, SlotSet, VersionVector,
};

/// Limits of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderLimits {
    /// Slots that one peer asks for at most. A question for more is refused: askers know this limit.
    pub slots_per_peer_max: usize,
    /// Answers that are under way at once, beside those that begin with a digest. Further ones wait.
    pub answers_max: usize,
    /// Bytes of a part. A part exceeds it by one item at most.
    pub part_bytes_max: usize,
}

/// Copy of this node as an answer begins with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held<V, M> {
    /// Sets of events. Empty where this node has no copy.
    pub begin: AnswerBegin,
    /// Pending messages of the copy.
    pub pending: Vec<PendingMessage<M>>,
    /// Single covered dots of the copy.
    pub single: Vec<ClientDot>,
    /// This node's own events for the slot that too few owners have confirmed. QoS 2 messages that
    /// fill holes of the question are among them.
    pub own: Vec<OwnEvent<V, M>>,
    /// No ring names this node as an owner of the slot (rule `late-answers`).
    pub is_abandoned: bool,
    /// Digest of all entries, if the copy has nothing else and they are few enough.
    pub digest: Option<SlotDigest>,
}

impl<V, M> Held<V, M> {
    /// The copy has nothing to tell but its sets of events and its entries.
    pub fn is_plain(&self) -> bool {
        self.pending.is_empty() && self.single.is_empty() && self.own.is_empty()
    }
}

impl<V, M> Default for Held<V, M> {
    /// No copy.
    fn default() -> Held<V, M> {
        Held {
            begin: AnswerBegin::default(),
            pending: Vec::new(),
            single: Vec::new(),
            own: Vec::new(),
            is_abandoned: false,
            digest: None,
        }
    }
}

impl<V: Ord + QueueValue, M: Clone> Held<V, M> {
    /// State of a copy that has a vector of its own.
    pub fn of_copy(copy: &SlotCopy<V, M>) -> Held<V, M> {
        let mut held = Held::whole(copy.entries(), copy.covered());
        held.begin.taken = copy.taken().clone();
        held.begin.holes = copy.holes().clone();
        let pending = copy.pending().map(|(dot, pending)| PendingMessage {
            dot,
            pending: pending.clone(),
        });
        held.pending = pending.collect();
        held
    }

    /// State of a copy that is whole, with the vector `covered` of its node.
    pub fn whole(entries: &SlotEntries<V>, covered: &VersionVector) -> Held<V, M> {
        let mut held = Held::default();
        held.begin.covered = covered.clone();
        for (client, dots) in entries.single().iter() {
            held.single.extend(dots.iter().map(|dot| ClientDot {
                client: client.clone(),
                dot: *dot,
            }));
        }
        held
    }
}

/// Answer that its asker has merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Slot of the answer.
    pub slot: Slot,
    /// Owner that has merged it.
    pub owner: NodeId,
    /// The answer began when no ring named this node (rule `late-answers`).
    pub is_late: bool,
}

/// Answers of this node.
#[derive(Debug)]
pub struct Holder<V, M> {
    limits: HolderLimits,
    answers: BTreeMap<AnswerKey, Answer<V, M>>,
    /// Slots that each peer asks for.
    asked: BTreeMap<NodeId, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct AnswerKey {
    slot: Slot,
    to: NodeId,
}

impl<V: TransferValue + QueueValue + Ord + Clone, M: TransferBytes> Holder<V, M> {
    /// Holder without a question.
    pub fn new(limits: HolderLimits) -> Holder<V, M> {
        Holder {
            limits,
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Takes a question. A later question of the same peer for the same slot voids the earlier one.
    ///
    /// # Errors
    ///
    /// [`AskError`] where a limit is exceeded.
    pub fn receive_question(&mut self, from: NodeId, ask: AskSlot) -> Result<(), AskError> {
        let count = ask.positions.len();
        if count > NODES_MAX {
            return Err(AskError::TooManyPositions { count });
        }
        let key = AnswerKey {
            slot: ask.id.slot,
            to: from,
        };
        match self.answers.get(&key) {
            Some(answer) if ask.id.question <= answer.ask.id.question => return Ok(()),
            Some(_) => {}
            None => self.check_room(from)?,
        }
        if self.answers.insert(key, Answer::new(ask)).is_none() {
            *self.asked.entry(from).or_default() += 1;
        }
        Ok(())
    }

    /// Begins each answer that may begin (rule `holder-waits`).
    ///
    /// `received` is the position that this node has taken of a run; None if the run is not
    /// present. `held` gives the copy of a slot, as it stands.
    pub fn begin_ready(
        &mut self,
        received: impl Fn(Run) -> Option<u64>,
        mut held: impl FnMut(&AskSlot) -> Held<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) {
        let limits = self.limits;
        let begun = self.answers.values().filter_map(|answer| answer.begun.as_ref());
        let mut begun = begun.filter(|begun| !begun.has_digest()).count();
        let mut digests = NewDigests::default();
        for (key, answer) in &mut self.answers {
            let has_room = begun < limits.answers_max;
            if answer.begun.is_some() || answer.needs_room && !has_room || !answer.is_ready(&received) {
                continue;
            }
            let held = held(&answer.ask);
            if let Some(digest) = held.digest {
                let question = answer.ask.id.question;
                let begin = answer.begin_with_digest(held);
                digests.add(key.to, question, begin, digest);
            } else if has_room {
                begun += 1;
                let part = answer.begin(held, limits.part_bytes_max);
                let (to, message) = (key.to, TransferMessage::SlotPart(part));
                actions.push(TransferAction { to, message });
            } else {
                answer.needs_room = true;
            }
        }
        actions.extend(digests.into_actions());
    }

    /// A question waits for its answer to begin.
    pub fn has_unbegun(&self) -> bool {
        self.answers.values().any(|answer| answer.begun.is_none())
    }

    /// Gives the next part of an answer; `entries` are those of this node's copy, if it has one.
    ///
    /// A question for an answer that a later question has voided is ignored.
    ///
    /// # Errors
    ///
    /// [`AskError`] where the part cannot be the next one.
    pub fn receive_ask_part(
        &mut self,
        from: NodeId,
        ask: &AskPart,
        entries: Option<&SlotEntries<V>>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) -> Result<(), AskError> {
        let key = AnswerKey {
            slot: ask.id.slot,
            to: from,
        };
        let answer = self.answers.get_mut(&key).ok_or(AskError::UnknownAnswer)?;
        if ask.id.question < answer.ask.id.question {
            return Ok(());
        }
        let begun = answer.begun_for(ask)?;
        if let Wanted::Sessions(asked) = &ask.wanted {
            check_question(asked, self.limits.part_bytes_max)?;
        }
        let nothing = SlotEntries::default();
        let content = begun.content(ask, entries.unwrap_or(&nothing), self.limits.part_bytes_max)?;
        actions.push(TransferAction {
            to: from,
            message: TransferMessage::SlotPart(begun.part(ask.id, content)),
        });
        Ok(())
    }

    /// Ends an answer that its asker has merged. None where the answer was void already.
    ///
    /// # Errors
    ///
    /// [`AskError`] where the asker cannot have the whole answer.
    pub fn receive_merged(&mut self, from: NodeId, id: AnswerId) -> Result<Option<Served>, AskError> {
        let key = AnswerKey {
            slot: id.slot,
            to: from,
        };
        let Some(answer) = self.answers.get(&key) else {
            return Ok(None);
        };
        if id.question < answer.ask.id.question {
            return Ok(None);
        }
        if id.question > answer.ask.id.question {
            return Err(AskError::UnknownAnswer);
        }
        let begun = answer.begun.as_ref().ok_or(AskError::NotBegun)?;
        if !begun.may_be_merged() {
            return Err(AskError::Unexpected);
        }
        let is_late = begun.is_late();
        self.remove(&key);
        Ok(Some(Served {
            slot: id.slot,
            owner: from,
            is_late,
        }))
    }

    /// A ring names this node as an owner of `slots`: what it takes from here on is in no answer that
    /// has begun.
    pub fn regain(&mut self, slots: &SlotSet) {
        let regained = self
            .answers
            .iter_mut()
            .filter(|(key, _)| slots.contains(key.slot));
        let begun = regained.filter_map(|(_, answer)| answer.begun.as_mut());
        begun.for_each(Begun::end_late);
    }

    /// Keeps entries that a merge has removed from the copy of a slot and that beat others: the answers under
    /// way have them still (rule `as-of-begin`).
    ///
    /// A node that had dropped them as garbage had dropped with them all that they beat. The vector of an answer
    /// that has begun may not cover that. So the asker would lose what beats, and take from another holder
    /// what was beaten.
    pub fn keep(&mut self, slot: Slot, removed: &[ClientEntry<V>]) {
        let of_slot = self.answers.range_mut(keys_of(slot));
        let begun = of_slot.filter_map(|(_, answer)| answer.begun.as_mut());
        begun.for_each(|begun| begun.keep(removed));
    }

    /// Ends an answer that its asker needs no more.
    pub fn receive_drop(&mut self, from: NodeId, id: AnswerId) {
        let key = AnswerKey {
            slot: id.slot,
            to: from,
        };
        let is_same = |answer: &Answer<V, M>| answer.ask.id == id;
        if self.answers.get(&key).is_some_and(is_same) {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &AnswerKey) {
        if self.answers.remove(key).is_some()
            && let Some(asked) = self.asked.get_mut(&key.to)
        {
            *asked -= 1;
        }
    }

    /// Begins a new connection to a peer, over which it asks anew.
    ///
    /// The confirmation of a merged answer may be lost with the old connection.
    pub fn restart_connection(&mut self, peer: NodeId) {
        self.end_answers(peer);
    }

    /// Ends all answers to a peer that was given up.
    pub fn give_up(&mut self, peer: NodeId) {
        self.end_answers(peer);
    }

    fn end_answers(&mut self, peer: NodeId) {
        self.answers.retain(|key, _| key.to != peer);
        self.asked.remove(&peer);
    }

    /// An answer about the slot is asked for: the copy must not be deleted.
    pub fn is_asked(&self, slot: Slot) -> bool {
        self.of_slot(slot).next().is_some()
    }

    /// An answer about the slot is under way: garbage must not be dropped.
    pub fn is_answering(&self, slot: Slot) -> bool {
        self.of_slot(slot).any(|answer| answer.begun.is_some())
    }

    fn of_slot(&self, slot: Slot) -> impl Iterator<Item = &Answer<V, M>> {
        self.answers.range(keys_of(slot)).map(|(_, answer)| answer)
    }

    fn check_room(&self, peer: NodeId) -> Result<(), AskError> {
        let slots_max = self.limits.slots_per_peer_max;
        if self.asked.get(&peer).is_some_and(|asked| *asked >= slots_max) {
            return Err(AskError::TooManySlots { peer, slots_max });
        }
        Ok(())
    }
}

fn keys_of(slot: Slot) -> RangeInclusive<AnswerKey> {
    let bound = |to| AnswerKey { slot, to };
    bound(NodeId(0))..=bound(NodeId(u64::MAX))
}

/// Begins of answers with a digest that are being made.
#[derive(Debug, Default)]
struct NewDigests(BTreeMap<DigestsKey, Vec<SlotDigests>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DigestsKey {
    to: NodeId,
    question: QuestionId,
}

impl NewDigests {
    /// Adds an answer to the message of its question that has the same sets of events, or to a new one. Slots with
    /// different sets may take turns.
    fn add(&mut self, to: NodeId, question: QuestionId, begin: AnswerBegin, digest: SlotDigest) {
        let of_question = self.0.entry(DigestsKey { to, question }).or_default();
        match of_question.iter_mut().find(|same| same.begin == begin) {
            Some(same) => same.slots.push(digest),
            None => of_question.push(SlotDigests {
                question,
                begin,
                slots: vec![digest],
            }),
        }
    }

    fn into_actions<V, M>(self) -> impl Iterator<Item = TransferAction<V, M>> {
        self.0.into_iter().flat_map(|(key, of_question)| {
            of_question.into_iter().map(move |digests| TransferAction {
                to: key.to,
                message: TransferMessage::SlotDigests(digests),
            })
        })
    }
}

impl<V, M> Answer<V, M> {
    /// Answer of which `ask` may want the next part.
    fn begun_for(&mut self, ask: &AskPart) -> Result<&mut Begun<V, M>, AskError> {
        if ask.id.question > self.ask.id.question {
            return Err(AskError::UnknownAnswer);
        }
        self.begun.as_mut().ok_or(AskError::NotBegun)
    }
}
