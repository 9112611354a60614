//! Linearizable reads on the leader of a group with several voters.
//!
//! A read is safe at the commit index of the moment it was asked for, once a majority has confirmed after that moment that
//! this replica still leads. Reads are batched: while one round of confirmations is under way, new reads wait for the next.

use std::collections::VecDeque;
use std::mem;

use super::{Action, ReadId, Refusal, Request};
use crate::Index;

/// Reads in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: Vec<ReadId>,
    /// The round under way; its number is the context that Raft carries.
    round: Option<Vec<ReadId>>,
    round_number: u64,
    /// Confirmed; served when the index is applied.
    confirmed: VecDeque<(Index, Vec<ReadId>)>,
}

impl Reads {
    pub(super) fn ask(&mut self, read: ReadId) {
        self.waiting.push(read);
    }

    /// The context of a new round, if reads wait and no round is under way.
    pub(super) fn next_round(&mut self) -> Option<Vec<u8>> {
        if self.waiting.is_empty() || self.round.is_some() {
            return None;
        }
        self.round = Some(mem::take(&mut self.waiting));
        self.round_number += 1;
        Some(self.round_number.to_be_bytes().to_vec())
    }

    /// A majority has confirmed the round with this context.
    pub(super) fn round_ended(&mut self, context: &[u8], index: Index) {
        if context == self.round_number.to_be_bytes()
            && let Some(reads) = self.round.take()
        {
            self.confirmed.push_back((index, reads));
        }
    }

    /// Answers the reads whose index is applied.
    pub(super) fn answer(&mut self, applied: Index, actions: &mut Vec<Action>) {
        while self.confirmed.front().is_some_and(|(index, _)| *index <= applied) {
            let (index, reads) = self.confirmed.pop_front().expect("just seen");
            actions.extend(reads.into_iter().map(|read| Action::ReadReady { read, index }));
        }
    }

    /// Leadership was lost: nobody will confirm anything.
    pub(super) fn refuse_all(&mut self, refusal: Refusal, actions: &mut Vec<Action>) {
        let confirmed = self.confirmed.drain(..).flat_map(|(_, reads)| reads);
        let reads = confirmed
            .chain(self.round.take().unwrap_or_default())
            .chain(mem::take(&mut self.waiting));
        actions.extend(reads.map(|read| Action::Refused {
            request: Request::Read { read },
            refusal,
        }));
    }
}
