//! Entries of an answer: those that the copy has now, and those that the answer keeps.
//!
//! An answer has its vector as of its begin, and reads its entries later. What an event has removed in
//! between is missing early, and the event removes it at the asker, too. No event removes what a merge
//! brings as dropped garbage. So the answer keeps of it what beats other entries (rule `as-of-begin`).
//!
//! *Invariant*: only entries of events that the answer's vector covers are kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::queue_limits::QueueValue;
use crate::{ClientEntry, ClientId, SessionEntries, SlotEntries};

/// Entries that the copy had when an answer began, that beat others, and that a merge has removed.
#[derive(Debug)]
pub(super) struct KeptEntries<V>(BTreeMap<ClientId, SessionEntries<V>>);

impl<V> Default for KeptEntries<V> {
    /// No entry.
    fn default() -> KeptEntries<V> {
        KeptEntries(BTreeMap::new())
    }
}

impl<V: Ord + QueueValue + Clone> KeptEntries<V> {
    pub(super) fn extend(&mut self, removed: impl Iterator<Item = ClientEntry<V>>) {
        for ClientEntry { client, dot, entry } in removed {
            self.0.entry(client).or_default().insert(dot, entry);
        }
    }

    /// Entries of the answer, where the copy has `now`.
    pub(super) fn with<'a>(&'a self, now: &'a SlotEntries<V>) -> AnswerEntries<'a, V> {
        AnswerEntries { now, kept: &self.0 }
    }
}

/// Entries of an answer.
#[derive(Debug)]
pub(super) struct AnswerEntries<'a, V> {
    /// Entries that the copy has.
    now: &'a SlotEntries<V>,
    /// Entries that the answer keeps.
    kept: &'a BTreeMap<ClientId, SessionEntries<V>>,
}

impl<V: Ord + QueueValue + Clone> AnswerEntries<'_, V> {
    /// Entries of the clients above `after` and up to `up_to`, in ascending order. None is no bound.
    ///
    /// Copies the entries of each client that is reached and of which some are kept; mostly there is none.
    pub(super) fn sessions_between(
        &self,
        after: Option<&ClientId>,
        up_to: Option<&ClientId>,
    ) -> impl Iterator<Item = (&ClientId, Cow<'_, SessionEntries<V>>)> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let kept = self.kept.range::<ClientId, _>((behind, Bound::Unbounded));
        let is_in = move |client: &ClientId| up_to.is_none_or(|up_to| client <= up_to);
        let mut kept = kept.take_while(move |(client, _)| is_in(client)).peekable();
        let mut now = self.now.sessions_between(after, up_to).peekable();
        std::iter::from_fn(move || {
            let next = now.peek().map(|(client, _)| *client);
            let is_next = |(client, _): &(&ClientId, _)| next.is_none_or(|next| *client <= next);
            let Some((client, of_kept)) = kept.next_if(is_next) else {
                return now
                    .next()
                    .map(|(client, session)| (client, Cow::Borrowed(session)));
            };
            let has = now.next_if(|(next, _)| *next == client);
            let mut session = has.map(|(_, session)| session.clone()).unwrap_or_default();
            for (id, entry) in of_kept.iter() {
                session.insert(id.dot, entry.clone());
            }
            Some((client, Cow::Owned(session)))
        })
    }
}
