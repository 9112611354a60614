//! Who waits for other nodes: for a message to be durable there, or for a route to be known there.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::waiting::Waiter;

/// Something that several nodes have to confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitId(u64);

/// Everything that is waited for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    next: u64,
    waiting: BTreeMap<WaitId, Wait>,
    /// Until when it is waited for, in that order.
    until: VecDeque<(Instant, WaitId)>,
}

#[derive(Debug, Default)]
struct Wait {
    /// How many nodes have not confirmed.
    open: usize,
    /// Who goes on then, if that is known already.
    waiter: Option<Box<Waiter>>,
    /// Nobody waits for it any more.
    is_over: bool,
}

impl Waits {
    /// Something new to wait for, which nobody has to confirm yet.
    pub(super) fn open(&mut self) -> WaitId {
        self.next += 1;
        let id = WaitId(self.next);
        self.waiting.insert(id, Wait::default());
        id
    }

    /// One more node has to confirm.
    pub(super) fn add(&mut self, id: WaitId) {
        if let Some(wait) = self.waiting.get_mut(&id) {
            wait.open += 1;
        }
    }

    /// A node has confirmed. Who has waited for it goes on, if it was the last one.
    pub(super) fn end(&mut self, id: WaitId) -> Option<Box<Waiter>> {
        let wait = self.waiting.get_mut(&id)?;
        wait.open -= 1;
        if wait.open > 0 {
            return None;
        }
        self.waiting.remove(&id)?.waiter
    }

    /// Forgets it if nobody has to confirm; whether somebody has.
    pub(super) fn keep_open(&mut self, id: WaitId) -> Option<WaitId> {
        let is_open = self.waiting.get(&id).is_some_and(|wait| wait.open > 0);
        if !is_open {
            self.waiting.remove(&id);
        }
        is_open.then_some(id)
    }

    /// Whether somebody still has to confirm.
    pub(super) fn is_open(&self, id: WaitId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Until when it is waited for at most. Those of later calls are later.
    pub(super) fn limit(&mut self, id: WaitId, until: Instant) {
        self.until.push_back((until, id));
    }

    /// Lets somebody wait, or gives it back if there is nothing to wait for any more.
    pub(crate) fn park(&mut self, id: WaitId, waiter: Box<Waiter>) -> Option<Box<Waiter>> {
        match self.waiting.get_mut(&id) {
            Some(wait) if !wait.is_over => {
                wait.waiter = Some(waiter);
                None
            }
            _ => Some(waiter),
        }
    }

    /// Something that was waited for long enough; who has waited for it goes on.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<Option<Box<Waiter>>> {
        while let Some((_, id)) = self.until.pop_front_if(|(until, _)| *until <= now) {
            if let Some(wait) = self.waiting.get_mut(&id) {
                wait.is_over = true;
                return Some(wait.waiter.take());
            }
        }
        None
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until.front().map(|(until, _)| *until)
    }
}
