//! Parts of answers: staged one by one, and merged when the answer is whole.

use cluster::NodeId;

use super::{Asker, ExchangeKey, MergedAnswer, drop_question};
use crate::queue_limits::QueueValue;
use crate::transfer::exchange::{Exchange, Stage};
use crate::transfer::message::{
    AnswerBegin, AnswerId, AskPart, SlotDigest, SlotPart, SlotsMerged, TransferAction, TransferMessage,
};
use crate::transfer::{PartError, TransferBytes, TransferValue, size};
use crate::{ClientEntry, Slot, SlotCopy, VersionVector};

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
    ) -> Result<PartReceived<V>, PartError> {
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
    ) -> Result<PartReceived<V>, PartError> {
        let ExchangeKey { slot, holder: from } = key;
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
        self.compare_next(slot, copy.covered(), actions);
        done
    }

    /// Compares entries with the next holder of a slot, if none is being compared.
    pub(super) fn compare_next(
        &mut self,
        slot: Slot,
        covered: &VersionVector,
        actions: &mut Vec<TransferAction<V, M>>,
    ) {
        if self.exchanges.is_full(self.limits.comparing_max) {
            return;
        }
        let Some(key) = self.exchanges.next_ready(slot) else {
            return;
        };
        let asked = self
            .exchanges
            .change(key, |exchange| exchange.compare(covered.clone()));
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
            message: TransferMessage::SlotsMerged(SlotsMerged::one(id)),
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
            owned.has_merged |= owned.unanswered.is_empty();
            if let Some(closing) = &mut owned.closing {
                closing.receive(begin);
            }
            self.note_changed(key.slot);
        }
    }
}

fn ask_part<V, M>(to: NodeId, ask: AskPart) -> TransferAction<V, M> {
    TransferAction {
        to,
        message: TransferMessage::AskPart(ask),
    }
}
