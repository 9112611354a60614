//! For backups: an image of the store with everything that was decided before it was asked for, and keys that come back.
//!
//! Where no majority is left to decide, a node can give an image of its own copy: that is asked for by name.
//!
//! An image is taken by whoever leads, behind a read barrier as every read, so it misses nothing that was answered before. Keys come back by
//! way of the log, as requests do. What cannot be decided here and now is said to be in doubt, and may be asked again: it changes nothing the second time.

use std::collections::BTreeMap;

use cluster::replica::record::LogPoint;
use cluster::replica::{self, ReadId};
use mqtt::now::Now;
use store::{CommandAction, Outcome, Store};

use super::snapshots::apply_all;
use super::{Output, StateStoreService, Whose};

/// Who waits for images, and for keys to be back.
#[derive(Debug, Default)]
pub(super) struct Backups {
    freezing: Vec<(ReadId, u64)>,
    /// For which question a request was made.
    putting_back: BTreeMap<u64, u64>,
}

/// Images that may be waited for at the same time.
const FREEZING_MAX: usize = 16;

impl StateStoreService {
    /// An image is wanted. It comes as an [`Output::Frozen`]: none, if this node does not lead.
    pub fn freeze(&mut self, now: Now, question: u64, outputs: &mut Vec<Output>) {
        let is_full = self.backups.freezing.len() >= FREEZING_MAX;
        if is_full || self.is_stateless() || !self.replica.is_leader() {
            let image = None;
            return outputs.push(Output::Frozen { question, image });
        }
        let read = self.new_read();
        self.backups.freezing.push((read, question));
        self.replica_step(now, replica::Event::Read { read }, outputs);
    }

    /// Gives an image of this node's own copy, with the rest of its log: for a backup of what has survived without a majority. The
    /// node itself goes on without the rest, which may be replaced. It comes as an [`Output::Frozen`]: none, if there is no copy.
    pub fn freeze_own(&self, question: u64, outputs: &mut Vec<Output>) {
        let image = self.own_copy().map(|store| Box::new(store.image()));
        outputs.push(Output::Frozen { question, image });
    }

    fn own_copy(&self) -> Option<Store> {
        if self.is_stateless() {
            return None;
        }
        let mut store = self.store.clone();
        apply_all(&mut store, self.replica.unapplied()?);
        Some(store)
    }

    /// End of the log up to which [`freeze_own`](Self::freeze_own) has everything; `None`: there is no copy.
    pub fn own_copy_end(&self) -> Option<LogPoint> {
        (!self.is_stateless()).then(|| self.replica.log_end())
    }

    /// Enough is applied for an image. False if it is not one that was asked for with this read.
    pub(super) fn answer_frozen(&mut self, read: ReadId, outputs: &mut Vec<Output>) -> bool {
        let freezing = &mut self.backups.freezing;
        let Some(position) = freezing.iter().position(|(id, _)| *id == read) else {
            return false;
        };
        let (_, question) = freezing.swap_remove(position);
        let image = Some(Box::new(self.store.image()));
        outputs.push(Output::Frozen { question, image });
        true
    }

    /// Nobody gets an image any more: this node does not lead, or cannot say whether it does.
    pub(super) fn refuse_frozen(&mut self, outputs: &mut Vec<Output>) {
        for (_, question) in self.backups.freezing.drain(..) {
            let image = None;
            outputs.push(Output::Frozen { question, image });
        }
    }

    /// A command of a backup. What becomes of it comes as an [`Output::PutBack`].
    pub fn put_back(&mut self, now: Now, question: u64, action: CommandAction, outputs: &mut Vec<Output>) {
        let is_full = self.backups.putting_back.len() >= self.config.pending_max;
        if is_full || !self.takes_calls() {
            let outcome = None;
            return outputs.push(Output::PutBack { question, outcome });
        }
        let request = self.pending.push_own();
        self.backups.putting_back.insert(request, question);
        // What counts as restored is on disk, whatever the server's durability is.
        let whose = Whose::Client { needs_disk: true };
        self.append(now, request, action, whose, outputs);
    }

    /// One of this node's requests is decided, or nobody knows any more what becomes of it.
    pub(super) fn put_back_ended(
        &mut self,
        request: u64,
        outcome: Option<Outcome>,
        outputs: &mut Vec<Output>,
    ) {
        if let Some(question) = self.backups.putting_back.remove(&request) {
            outputs.push(Output::PutBack { question, outcome });
        }
    }

    /// Nobody can decide.
    pub(super) fn refuse_put_back(&mut self, outputs: &mut Vec<Output>) {
        for question in std::mem::take(&mut self.backups.putting_back).into_values() {
            let outcome = None;
            outputs.push(Output::PutBack { question, outcome });
        }
    }
}
