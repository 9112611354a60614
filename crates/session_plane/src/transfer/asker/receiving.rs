//! Parts of answers: staged one by one, and merged when the answer is whole.

use cluster::NodeId;

use super::{Asker, ExchangeKey, MergedAnswer, drop_question, range_of};
use crate::queue_limits::QueueValue;
use crate::transfer::exchange::{Exchange, Stage};
use crate::transfer::message::{AnswerId, AskPart, SlotPart, TransferAction, TransferMessage};
use crate::transfer::{PartError, TransferBytes, TransferValue};
use crate::{Slot, SlotCopy};

/// Effect of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartReceived {
    /// The part is of an answer that is void.
    Void,
    /// The part is staged.
    Staged,
    /// The whole answer is merged: the node tries to claim, and looks for connections that lost.
    Merged,
}

/// Step after a part.
#[derive(Debug)]
enum Next {
    Ask(AskPart),
    Wait,
    Merge,
}

impl<V: TransferValue + QueueValue + Ord + Clone, M: TransferBytes> Asker<V, M> {
    /// Receives a part of an answer; `copy` is this node's copy of the part's slot.
    ///
    /// # Errors
    ///
    /// [`PartError`] where the part is refused. The copy is not changed.
    pub fn receive_part(
        &mut self,
        from: NodeId,
        part: SlotPart<V, M>,
        copy: &mut SlotCopy<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) -> Result<PartReceived, PartError> {
        let AnswerId { slot, question } = part.id;
        let key = ExchangeKey { slot, holder: from };
        if question.0 == 0 || question.0 > self.last_question {
            return Err(PartError::UnknownQuestion);
        }
        if self
            .exchanges
            .get(&key)
            .is_none_or(|exchange| exchange.id != part.id)
        {
            return Ok(PartReceived::Void);
        }
        let received = self.stage(key, part, copy);
        match &received {
            Err(_) => {
                if let Some(exchange) = self.exchanges.remove(&key) {
                    self.note_unasked(key);
                    actions.push(drop_question(from, exchange.id));
                }
            }
            Ok(Next::Ask(ask)) => actions.push(ask_part(from, ask.clone())),
            Ok(Next::Wait) => {}
            Ok(Next::Merge) => self.merge(key, copy, actions)?,
        }
        self.compare_next(slot, copy, actions);
        Ok(match received? {
            Next::Merge => PartReceived::Merged,
            Next::Ask(_) | Next::Wait => PartReceived::Staged,
        })
    }

    /// Compares entries with the next holder of a slot, if none is being compared.
    pub(super) fn compare_next(
        &mut self,
        slot: Slot,
        copy: &SlotCopy<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) {
        let mut of_slot = self.exchanges.range_mut(range_of(slot));
        if of_slot.any(|(_, exchange)| exchange.is_comparing()) {
            return;
        }
        let mut of_slot = self.exchanges.range_mut(range_of(slot));
        if let Some((key, exchange)) = of_slot.find(|(_, exchange)| matches!(exchange.stage, Stage::Ready)) {
            actions.push(ask_part(key.holder, exchange.compare(copy)));
        }
    }

    fn stage(
        &mut self,
        key: ExchangeKey,
        part: SlotPart<V, M>,
        copy: &SlotCopy<V, M>,
    ) -> Result<Next, PartError> {
        part.check_kinds()?;
        let bytes_max = self.limits.staged_bytes_max;
        let staged: usize = self.exchanges.values().map(|exchange| exchange.bytes).sum();
        let bytes = staged.saturating_add(part.bytes());
        if bytes > bytes_max {
            return Err(PartError::StagingFull { bytes, bytes_max });
        }
        let Some(exchange) = self.exchanges.get_mut(&key) else {
            return Err(PartError::UnknownQuestion);
        };
        exchange.bytes += bytes - staged;
        let asked = exchange.receive(part, copy.entries(), self.limits.question_bytes_max)?;
        Ok(match (asked, &exchange.stage) {
            (Some(ask), _) => Next::Ask(ask),
            (None, Stage::Complete) => Next::Merge,
            (None, _) => Next::Wait,
        })
    }

    /// Merges a complete answer, and takes note of it where it counts.
    fn merge(
        &mut self,
        key: ExchangeKey,
        copy: &mut SlotCopy<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) -> Result<(), PartError> {
        let Some(exchange) = self.exchanges.remove(&key) else {
            return Ok(());
        };
        let Exchange {
            id,
            counts,
            staging,
            shared,
            ..
        } = exchange;
        let begin = staging.begin().clone();
        let merged = staging
            .into_difference(shared, copy.entries())
            .and_then(|difference| Ok(copy.merge_difference(difference)?));
        if let Err(error) = merged {
            self.note_unasked(key);
            actions.push(drop_question(key.holder, id));
            return Err(error);
        }
        actions.push(TransferAction {
            to: key.holder,
            message: TransferMessage::SlotMerged(id),
        });
        let holder = key.holder;
        self.unreported.insert(MergedAnswer { holder, id });
        if !counts {
            self.note_unasked(key);
        }
        if let Some(owned) = self.slots.get_mut(&key.slot).filter(|_| counts) {
            owned.unanswered.remove(&key.holder);
            self.changed.insert(key.slot);
            owned.has_merged |= owned.unanswered.is_empty();
            if let Some(closing) = &mut owned.closing {
                closing.receive(&begin);
            }
        }
        Ok(())
    }
}

fn ask_part<V, M>(to: NodeId, ask: AskPart) -> TransferAction<V, M> {
    TransferAction {
        to,
        message: TransferMessage::AskPart(ask),
    }
}
