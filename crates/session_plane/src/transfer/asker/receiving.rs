//! Parts of answers: staged one by one, and merged when the answer is whole.

use cluster::NodeId;

use super::{Asker, ExchangeKey, MergedAnswer, drop_question, range_of};
use crate::queue_limits::QueueValue;
use crate::transfer::exchange::{Exchange, Stage};
use crate::transfer::message::{AnswerBegin, AnswerId, AskPart, SlotPart, TransferAction, TransferMessage};
use crate::transfer::{PartError, TransferBytes, TransferValue};
use crate::{ClientEntry, Slot, SlotCopy};

/// Effect of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartReceived<V> {
    /// The part is of an answer that is void.
    Void,
    /// The part is staged.
    Staged,
    /// The whole answer is merged: the node tries to claim, and looks for connections that lost.
    Merged {
        /// Entries that beat others and that the merge has removed: the node's own answers keep them
        /// ([`Holder::keep`](crate::transfer::Holder::keep)).
        removed: Vec<ClientEntry<V>>,
    },
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
    ) -> Result<PartReceived<V>, PartError> {
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
        let done = match received {
            Err(error) => {
                if let Some(exchange) = self.exchanges.remove(&key) {
                    self.note_unasked(key);
                    actions.push(drop_question(from, exchange.id));
                }
                Err(error)
            }
            Ok(Next::Ask(ask)) => {
                actions.push(ask_part(from, ask));
                Ok(PartReceived::Staged)
            }
            Ok(Next::Wait) => Ok(PartReceived::Staged),
            Ok(Next::Merge) => {
                let removed = self.merge(key, copy, actions)?;
                Ok(PartReceived::Merged { removed })
            }
        };
        self.compare_next(slot, copy, actions);
        done
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

    /// Merges a complete answer, and takes note of it where it counts. Gives the entries that beat others
    /// and that the merge has removed.
    fn merge(
        &mut self,
        key: ExchangeKey,
        copy: &mut SlotCopy<V, M>,
        actions: &mut Vec<TransferAction<V, M>>,
    ) -> Result<Vec<ClientEntry<V>>, PartError> {
        let Some(exchange) = self.exchanges.remove(&key) else {
            return Ok(Vec::new());
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
        let removed = match merged {
            Ok(removed) => removed,
            Err(error) => {
                self.note_unasked(key);
                actions.push(drop_question(key.holder, id));
                return Err(error);
            }
        };
        actions.push(TransferAction {
            to: key.holder,
            message: TransferMessage::SlotMerged(id),
        });
        let holder = key.holder;
        self.unreported.insert(MergedAnswer { holder, id });
        self.record_merged(key, &begin, counts);
        Ok(removed)
    }

    /// An answer is merged. Where it does not count, its holder is asked again.
    fn record_merged(&mut self, key: ExchangeKey, begin: &AnswerBegin, counts: bool) {
        if !counts {
            self.note_unasked(key);
        }
        if let Some(owned) = self.slots.get_mut(&key.slot).filter(|_| counts) {
            owned.unanswered.remove(&key.holder);
            self.changed.insert(key.slot);
            owned.has_merged |= owned.unanswered.is_empty();
            if let Some(closing) = &mut owned.closing {
                closing.receive(begin);
            }
        }
    }
}

fn ask_part<V, M>(to: NodeId, ask: AskPart) -> TransferAction<V, M> {
    TransferAction {
        to,
        message: TransferMessage::AskPart(ask),
    }
}
