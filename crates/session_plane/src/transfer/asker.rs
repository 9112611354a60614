//! Asker: makes the copies of this node whole and merged, by asking every present holder.
//!
//! All holders of a slot are asked at once, and their answers begin at once. One question is for many
//! slots. Where a holder has the same entries, by their digest, the answer is merged when it begins.
//! Else entries are compared with one holder after the other: what one has given, the next need not
//! give. Few slots are compared at once.
//!
//! *Invariants*: a slot is merged when no holder is unanswered. An answer is merged as a whole or
//! not at all. Each question has a higher number than those before, and only the last question to a
//! holder is answered. When all holders are asked again, an answer that is under way is merged, and
//! does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::NodeId;

use super::closing::{Closing, ClosingLimits};

use super::message::{AnswerId, TransferAction, TransferMessage};
use super::{TransferBytes, TransferValue};
use crate::queue_limits::QueueValue;
use crate::{Slot, SlotCopy, SlotSet, VectorFull, VersionVector};

mod asking;
mod exchanges;
mod receiving;

pub use receiving::PartReceived;

use exchanges::{ExchangeKey, Exchanges};

/// Limits of an asker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskerLimits {
    /// Slots that one holder is asked for at once; not more than its
    /// [`HolderLimits::slots_per_peer_max`](super::HolderLimits::slots_per_peer_max).
    pub slots_per_peer_max: usize,
    /// Slots that all holders are asked for at once. Further ones wait.
    pub slots_max: usize,
    /// Slots of one question. Their answers may be merged in one step.
    pub slots_per_question_max: usize,
    /// Slots of which entries are compared at once. Further ones wait.
    pub comparing_max: usize,
    /// Bytes of parts that wait to be merged. Beyond them an answer is dropped, and asked for anew.
    pub staged_bytes_max: usize,
    /// Bytes of a question. A question exceeds it by the blocks of one client at most.
    pub question_bytes_max: usize,
}

/// Questions of this node.
#[derive(Debug)]
pub struct Asker<V, M> {
    limits: AskerLimits,
    last_question: u64,
    /// Slots that this node owns.
    slots: BTreeMap<Slot, OwnedSlot>,
    exchanges: Exchanges<V, M>,
    /// Slots that a holder has not answered and is not asked for. None: to be found anew.
    unasked: Option<BTreeMap<NodeId, BTreeSet<Slot>>>,
    /// Answers that are merged, and whose holders were not told. They count as questions.
    unreported: BTreeSet<MergedAnswer>,
    /// Slot of the last question.
    last_asked: Option<Slot>,
    /// Slots that have become merged or unmerged, since they were taken last.
    changed: BTreeSet<Slot>,
    /// Slots that [`Asker::is_merged`] is true of.
    merged: SlotSet,
    /// Slots whose holders were asked about holes, and are the same since.
    asked_about_holes: SlotSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MergedAnswer {
    holder: NodeId,
    id: AnswerId,
}

/// Slot that this node owns.
#[derive(Debug, Default)]
struct OwnedSlot {
    unanswered: BTreeSet<NodeId>,
    has_merged: bool,
    /// QoS 2 numbers that have been holes for long.
    lacking: VersionVector,
    /// Holes when all holders were asked last, as long as the same holders are present.
    asked_for: Arc<VersionVector>,
    closing: Option<Closing>,
}

impl OwnedSlot {
    /// A node has come or gone: what holders have said about holes does not count any more.
    fn forget_holes(&mut self) {
        self.closing = None;
        self.asked_for = Arc::default();
    }
}

impl<V: TransferValue + QueueValue + Ord + Clone, M: TransferBytes> Asker<V, M> {
    /// Asker of a run that owns nothing.
    pub fn new(limits: AskerLimits) -> Asker<V, M> {
        Asker {
            limits,
            last_question: 0,
            slots: BTreeMap::new(),
            exchanges: Exchanges::default(),
            unasked: None,
            unreported: BTreeSet::new(),
            last_asked: None,
            changed: BTreeSet::new(),
            merged: SlotSet::default(),
            asked_about_holes: SlotSet::default(),
        }
    }

    /// Slots of which [`Asker::is_merged`] may say something else than when this was asked last.
    pub fn take_changed(&mut self) -> BTreeSet<Slot> {
        std::mem::take(&mut self.changed)
    }

    /// Begins the ownership of a slot: all present peers are asked.
    pub fn begin(&mut self, slot: Slot, peers: &BTreeSet<NodeId>) {
        let owned = OwnedSlot {
            unanswered: peers.clone(),
            has_merged: peers.is_empty(),
            ..OwnedSlot::default()
        };
        self.unasked = None;
        self.asked_about_holes.remove(slot);
        if self.slots.insert(slot, owned).is_some() {
            self.void_answers(slot);
        }
        self.note_changed(slot);
    }

    /// Notes the holes of copies whose ownership has begun just now: all holders are asked about them.
    pub fn begin_with_holes<'a>(&mut self, copies: impl Iterator<Item = (Slot, &'a VersionVector)>) {
        let mut last: Arc<VersionVector> = Arc::default();
        for (slot, holes) in copies {
            let Some(owned) = self.slots.get_mut(&slot) else {
                continue;
            };
            // Most copies that begin together lack the same.
            if *last != *holes {
                last = Arc::new(holes.clone());
            }
            owned.asked_for = Arc::clone(&last);
            self.asked_about_holes.insert(slot);
        }
    }

    /// Ends the ownership of a slot.
    pub fn end(&mut self, slot: Slot, actions: &mut Vec<TransferAction<V, M>>) {
        self.unasked = None;
        self.asked_about_holes.remove(slot);
        self.slots.remove(&slot);
        self.note_changed(slot);
        for (key, exchange) in self.exchanges.remove_slot(slot) {
            actions.push(drop_question(key.holder, exchange.id));
        }
    }

    /// Meets a peer: all slots are asked of it.
    pub fn meet(&mut self, peer: NodeId) {
        self.forget_questions(peer);
        self.asked_about_holes = SlotSet::default();
        for owned in self.slots.values_mut() {
            owned.forget_holes();
            owned.has_merged = false;
            owned.unanswered.insert(peer);
        }
        self.note_all_changed();
    }

    /// Gives a peer up. Where it has not answered, all `others` are asked again (rule
    /// `ask-all-again`).
    ///
    /// A number that is being closed stays a hole: not every member is present.
    pub fn give_up(&mut self, peer: NodeId, others: &BTreeSet<NodeId>) {
        self.forget_questions(peer);
        let mut asked_again = Vec::new();
        self.asked_about_holes = SlotSet::default();
        for (slot, owned) in &mut self.slots {
            owned.forget_holes();
            if owned.unanswered.remove(&peer) {
                owned.unanswered.clone_from(others);
                asked_again.push(*slot);
            }
        }
        for slot in asked_again {
            self.void_answers(slot);
        }
        for owned in self.slots.values_mut() {
            owned.has_merged |= owned.unanswered.is_empty();
        }
        self.note_all_changed();
    }

    /// Questions about a slot are asked or answered.
    fn note_changed(&mut self, slot: Slot) {
        self.changed.insert(slot);
        let owned = self.slots.get(&slot);
        if owned.is_some_and(|owned| owned.unanswered.is_empty()) {
            self.merged.insert(slot);
        } else {
            self.merged.remove(slot);
        }
    }

    fn note_all_changed(&mut self) {
        self.changed.extend(self.slots.keys());
        let merged = self.slots.iter().filter(|(_, owned)| owned.unanswered.is_empty());
        self.merged = merged.map(|(slot, _)| *slot).collect();
    }

    /// Begins a new connection to a peer: what it has not answered is asked anew.
    pub fn restart_connection(&mut self, peer: NodeId) {
        self.forget_questions(peer);
    }

    /// A holder was told that its answer is merged, by the message that the merge has given. The node
    /// sends that message once the merged copy is durable: the holder may delete its copy then.
    pub fn reported(&mut self, holder: NodeId, id: AnswerId) {
        self.unreported.remove(&MergedAnswer { holder, id });
    }

    /// The holder has no answer for this node any more.
    fn forget_questions(&mut self, peer: NodeId) {
        self.unasked = None;
        self.exchanges.remove_holder(peer);
        self.unreported.retain(|merged| merged.holder != peer);
    }

    /// Takes the offer of a holder that has something to give: it is asked. An answer that is under
    /// way goes on: a holder that needs another one offers again.
    pub fn receive_offer(&mut self, from: NodeId, slot: Slot) {
        if let Some(owned) = self.slots.get_mut(&slot) {
            owned.unanswered.insert(from);
            self.note_changed(slot);
            self.note_unasked(ExchangeKey { slot, holder: from });
        }
    }

    /// Asks all `peers` again, for a hole that does not close (rule `ask-again`). `holes` are those of the
    /// copy.
    pub fn ask_again(&mut self, slot: Slot, holes: &VersionVector, peers: &BTreeSet<NodeId>) {
        if let Some(owned) = self.slots.get_mut(&slot) {
            owned.lacking = holes.qos2_numbers();
            owned.asked_for = Arc::new(holes.clone());
            self.asked_about_holes.insert(slot);
            owned.unanswered.clone_from(peers);
            self.note_changed(slot);
            self.void_answers(slot);
            for holder in peers.iter().copied() {
                self.note_unasked(ExchangeKey { slot, holder });
            }
        }
    }

    /// Asks all `peers` whether anybody has the events of `holes` (rule `close-numbers`). Every
    /// member of the cluster is present.
    pub fn begin_closing(&mut self, slot: Slot, holes: &VersionVector, peers: &BTreeSet<NodeId>) {
        self.ask_again(slot, holes, peers);
        if let Some(owned) = self.slots.get_mut(&slot) {
            owned.closing = Some(Closing::of_holes(holes));
        }
    }

    /// All present holders have answered about these holes of a merged copy, and none has filled them.
    ///
    /// An answer from before a hole was known says nothing about it: its holder may have come to have the
    /// event since. Nor does one from before a node came or went, which may have given that event away.
    pub fn has_answers_about(&self, slot: Slot, holes: &VersionVector) -> bool {
        if !self.is_merged(slot) || !self.asked_about_holes.contains(slot) {
            return holes.is_empty() && self.is_merged(slot);
        }
        let owned = self.slots.get(&slot);
        owned.is_some_and(|owned| holes.is_within(&owned.asked_for))
    }

    /// Covers what nobody has, once all holders have answered. False where answers are awaited, or
    /// nothing is being closed.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would be too long. The holes stay, and may be closed later.
    pub fn close(
        &mut self,
        slot: Slot,
        limits: &ClosingLimits,
        copy: &mut SlotCopy<V, M>,
    ) -> Result<bool, VectorFull> {
        let owned = self
            .slots
            .get_mut(&slot)
            .filter(|owned| owned.unanswered.is_empty());
        let Some(closing) = owned.and_then(|owned| owned.closing.take()) else {
            return Ok(false);
        };
        copy.close(&closing.closable(limits)?)?;
        Ok(true)
    }

    /// Number of slots whose copies have not merged with every present holder.
    pub fn unmerged_len(&self) -> usize {
        self.slots.len() - self.merged.len()
    }

    /// Slots whose holders were asked about holes, and are the same since.
    pub fn asked_about_holes(&self) -> &SlotSet {
        &self.asked_about_holes
    }

    /// Slots whose copies have merged with every present holder.
    pub fn merged(&self) -> &SlotSet {
        &self.merged
    }

    /// The copy has merged with every present holder: sessions are served from it.
    pub fn is_merged(&self, slot: Slot) -> bool {
        self.merged.contains(slot)
    }

    /// The copy has merged with every present holder since the last handshake. Holders may be asked
    /// again since.
    pub fn has_merged(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|owned| owned.has_merged)
    }

    /// All owned slots have merged since the last handshake.
    pub fn has_merged_all(&self) -> bool {
        self.slots.values().all(|owned| owned.has_merged)
    }

    /// No holder of any slot is unanswered.
    pub fn has_all(&self) -> bool {
        self.slots.values().all(|owned| owned.unanswered.is_empty())
    }

    /// Answers that are under way do not count: their holders are asked again.
    fn void_answers(&mut self, slot: Slot) {
        self.exchanges.void(slot);
    }

    /// A holder has not answered about a slot any more.
    fn note_unasked(&mut self, key: ExchangeKey) {
        let owned = self.slots.get(&key.slot);
        let is_awaited = owned.is_some_and(|owned| owned.unanswered.contains(&key.holder));
        let is_asked = self.exchanges.contains(&key);
        if let Some(unasked) = self.unasked.as_mut().filter(|_| is_awaited && !is_asked) {
            unasked.entry(key.holder).or_default().insert(key.slot);
        }
    }
}

fn drop_question<V, M>(to: NodeId, id: AnswerId) -> TransferAction<V, M> {
    TransferAction {
        to,
        message: TransferMessage::DropQuestion(id),
    }
}
