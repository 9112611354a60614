//! Parts of answers: staged one by one, and merged when the answer is whole.

use cluster::NodeId;

use super::{Asker, ExchangeKey, MergedAnswer, drop_question};
use crate::queue_limits::QueueValue;
use crate::transfer::exchange::{Exchange, Stage};
use crate::transfer::message::{
    AnswerBegin, AnswerId, AskPart, SlotDigest, SlotPart, SlotsMerged, TransferAction, TransferMessage,
};
use crate::transfer::{PartError, TransferBytes, TransferValue, size};
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
        let Some(key) = self.awaited(from, part.id)? else {
            return Ok(PartReceived::Void);
        };
        let received = self.stage(key, part, copy);
        self.go_on(key, received, copy, actions)
    }

    /// Receives the begin of an answer that has nothing but entries, with their digest. It is merged at once where
    /// `copy`, this node's copy of the slot, has the same.
    ///
    /// # Errors
    ///
    /// [`PartError`] where it is refused. The copy is not changed.
    pub fn receive_digest(
        &mut self,
        from: NodeId,
        id: AnswerId,
        (begin, digest): (&AnswerBegin, &SlotDigest),
        copy: &mut SlotCopy<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) -> Result<PartReceived, PartError> {
        let Some(key) = self.awaited(from, id)? else {
            return Ok(PartReceived::Void);
        };
        let received = self.stage_with(key, size::of_begin(begin), |exchange| {
            exchange
                .receive_digest(begin.clone(), digest, copy)
                .map(|()| None)
        });
        self.go_on(key, received, copy, actions)
    }

    /// Exchange that an answer is of. None where the answer is void.
    fn awaited(&self, holder: NodeId, id: AnswerId) -> Result<Option<ExchangeKey>, PartError> {
        let AnswerId { slot, question } = id;
        if question.0 == 0 || question.0 > self.last_question {
            return Err(PartError::UnknownQuestion);
        }
        let key = ExchangeKey { slot, holder };
        let exchange = self.exchanges.get(&key);
        Ok(exchange.filter(|exchange| exchange.id == id).map(|_| key))
    }

    /// Does what follows from a part.
    fn go_on(
        &mut self,
        key: ExchangeKey,
        received: Result<Next, PartError>,
        copy: &mut SlotCopy<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) -> Result<PartReceived, PartError> {
        let ExchangeKey { slot, holder: from } = key;
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
        if self.exchanges.is_full(self.limits.comparing_max) {
            return;
        }
        let Some(key) = self.exchanges.next_ready(slot) else {
            return;
        };
        let asked = self.exchanges.change(key, |exchange| exchange.compare(copy));
        actions.extend(asked.map(|ask| ask_part(key.holder, ask)));
    }

    fn stage(
        &mut self,
        key: ExchangeKey,
        part: SlotPart<V, M>,
        copy: &SlotCopy<V, M>,
    ) -> Result<Next, PartError> {
        part.check_kinds()?;
        let question_bytes_max = self.limits.question_bytes_max;
        self.stage_with(key, part.bytes(), |exchange| {
            exchange.receive(part, copy.entries(), question_bytes_max)
        })
    }

    /// Stages so many bytes.
    fn stage_with(
        &mut self,
        key: ExchangeKey,
        bytes: usize,
        receive: impl FnOnce(&mut Exchange<V, M>) -> Result<Option<AskPart>, PartError>,
    ) -> Result<Next, PartError> {
        let bytes_max = self.limits.staged_bytes_max;
        let all = self.exchanges.bytes().saturating_add(bytes);
        if all > bytes_max {
            let bytes = all;
            return Err(PartError::StagingFull { bytes, bytes_max });
        }
        let received = self.exchanges.change(key, |exchange| {
            exchange.bytes += bytes;
            let asked = receive(exchange)?;
            Ok(match (asked, &exchange.stage) {
                (Some(ask), _) => Next::Ask(ask),
                (None, Stage::Complete) => Next::Merge,
                (None, _) => Next::Wait,
            })
        });
        received.unwrap_or(Err(PartError::UnknownQuestion))
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
            message: TransferMessage::SlotsMerged(SlotsMerged::one(id)),
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
