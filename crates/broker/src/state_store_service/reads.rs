//! Reads: GET and SCAN of applied state, when the leader has said that enough is applied.
//!
//! Time is where nodes differ. By the clock of one node a key is past its deadline while by that of another it is not, and whoever was told that
//! it is gone must never see it again. So where there are several nodes the log decides, whose time only moves forward: a read that finds a key past its
//! deadline by the clock of its node, but not yet by the log, waits for the log. The leader gets it there (`timeout` in the parent), as soon as the
//! deadline has passed by the leader's clock.

use cluster::replica::ReadId;
use protocol::state_store::{ErrorText, Glob, Reply, Request};

use super::pending::Pending;
use super::{DECIDED_KEY, Output, StateStoreService, scan_token};
use crate::authorization::{self, Access};
use crate::now::Now;

/// A read that would answer from a time which the log has not come to.
#[derive(Debug)]
pub(super) struct AheadOfLog {
    /// In milliseconds since the Unix epoch.
    time: u64,
    pending: Pending,
}

impl AheadOfLog {
    pub(super) fn into_pending(self) -> Pending {
        self.pending
    }
}

impl StateStoreService {
    /// Enough is applied for these.
    pub(super) fn answer_reads(&mut self, now: Now, read: ReadId, outputs: &mut Vec<Output>) {
        let Some(position) = self.reads_on_the_way.iter().position(|(id, _)| *id == read) else {
            return;
        };
        let (_, reads) = self.reads_on_the_way.swap_remove(position);
        self.answer_all(now, reads, outputs);
    }

    pub(super) fn answer_all(&mut self, now: Now, reads: Vec<Pending>, outputs: &mut Vec<Output>) {
        for pending in reads {
            let time = now.wall;
            if self.is_ahead_of_log(&pending, time) {
                self.ahead.push(AheadOfLog { time, pending });
            } else {
                self.answer_read(now, pending, outputs);
            }
        }
    }

    /// The log has moved on: answers the reads that it has reached.
    pub(super) fn answer_ahead(&mut self, now: Now, outputs: &mut Vec<Output>) {
        for read in std::mem::take(&mut self.ahead) {
            if self.is_ahead_of_log(&read.pending, read.time) {
                self.ahead.push(read);
            } else {
                self.answer_read(now, read.pending, outputs);
            }
        }
    }

    fn is_ahead_of_log(&self, pending: &Pending, time: u64) -> bool {
        if self.replica.is_alone() || time <= self.store.clock() {
            return false;
        }
        match &pending.read {
            Some(Request::Get { key }) => {
                self.store.get(key, LOG_TIME).is_some() && self.store.get(key, time).is_none()
            }
            Some(Request::Scan { .. }) => self.store.next_expiry().is_some_and(|due| due <= time),
            _ => false,
        }
    }

    fn answer_read(&self, now: Now, pending: Pending, outputs: &mut Vec<Output>) {
        let (reply, version) = self.read(now, &pending);
        outputs.push(Output::Answer(pending.answer(now, &reply, version)));
    }

    fn read(&self, now: Now, pending: &Pending) -> (Reply, Option<store::Version>) {
        let time = if self.replica.is_alone() {
            now.wall
        } else {
            LOG_TIME
        };
        match &pending.read {
            Some(Request::Get { key }) => match self.store.get(key, time) {
                Some(found) => (Reply::Value(found.value), Some(found.version)),
                None => (Reply::Missing, None),
            },
            Some(Request::Scan { pattern, token }) => {
                let access = pending.readable.as_deref();
                (self.scan(time, pattern, token.as_deref(), access), None)
            }
            _ => (Reply::Error(ErrorText::Syntax), None),
        }
    }

    fn scan(&self, time: u64, pattern: &[u8], token: Option<&[u8]>, access: Option<&Access>) -> Reply {
        let Ok(glob) = Glob::compile(pattern) else {
            return Reply::Error(ErrorText::Syntax);
        };
        let mut limits = self.config.scan;
        if access.is_some() {
            limits.keys_walked_max /= DECIDED_KEY;
        }
        let mut may_read = |key: &[u8]| {
            access.is_none_or(|access| access.decide(authorization::Request::ReadKey(key)).is_allowed())
        };
        match self.store.scan(&glob, token, time, limits, &mut may_read) {
            Ok(page) => Reply::Keys {
                keys: page.keys,
                token: scan_token::with_group(page.token, self.replica.group(), self.groups),
            },
            Err(_) => Reply::Error(ErrorText::Syntax),
        }
    }
}

/// The store takes the time of the log where that is later.
const LOG_TIME: u64 = 0;
