//! Reads: GET and SCAN of applied state, when the leader has said that enough is applied.
//!
//! Time is where nodes differ. By what one node knows of it a key is past its deadline while by what another knows it is not, and whoever was
//! told that it is gone must never see it again. So the log decides, whose time only moves forward: a read that finds a key past its
//! deadline by what its node knows, but not yet by the log, asks the log to delete it, and is answered when that is decided, by the time
//! of the leader. So it waits for one entry. A node alone does the same, so that what was gone is gone after a restart.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::replica::ReadId;
use mqtt::authorization;
use mqtt::now::Now;
use protocol::state_store::{ErrorText, Glob, Reply, Request};
use store::{CommandAction, ScanPage};

use super::pending::Pending;
use super::{DECIDED_KEY, EXPIRED_KEYS_MAX, Output, StateStoreService, Whose, scan_token};

/// SCANs that may be answered and wait for their turn: one page is a few milliseconds.
#[derive(Debug)]
pub(super) struct Scans {
    waiting: VecDeque<Pending>,
    /// What they may still walk in this turn.
    budget: usize,
    due: Option<Instant>,
    walked: u64,
}

impl Default for Scans {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            budget: SCAN_TURN,
            due: None,
            walked: 0,
        }
    }
}

impl Scans {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn walked(&self) -> u64 {
        self.walked
    }

    /// The turn is over.
    pub(super) fn next_turn(&mut self) {
        self.budget = SCAN_TURN;
        if self.waiting.is_empty() {
            self.due = None;
        }
    }

    fn count(&mut self, walked: usize, decided: usize) {
        self.walked += walked as u64;
        self.budget = self.budget.saturating_sub(walked * decided);
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
            let keys = self.undecided(now, &pending);
            if keys.is_empty() {
                self.answer_read(now, pending, outputs);
                continue;
            }
            let is_traced = pending.trace.is_some();
            let request = self.pending.push(pending);
            if is_traced {
                self.traced.begin(request);
            }
            let (action, needs_disk) = (CommandAction::Expire { keys }, false);
            self.append(now, request, action, Whose::Client { needs_disk }, outputs);
        }
    }

    /// The keys of a read that are past their deadline by what this node knows of the time, and not by the log.
    fn undecided(&self, now: Now, pending: &Pending) -> Vec<Bytes> {
        let time = self.time(now);
        if time <= self.store.stamp().time {
            return Vec::new();
        }
        match &pending.read {
            Some(Request::Get { key }) => {
                let is_there = self.store.get(key, LOG_TIME).is_some();
                let is_over = self.store.get(key, time).is_none();
                let key = (is_there && is_over).then(|| Bytes::copy_from_slice(key));
                key.into_iter().collect()
            }
            Some(Request::Scan { .. }) => self.store.expired(time, EXPIRED_KEYS_MAX),
            _ => Vec::new(),
        }
    }

    /// Answers a GET; a SCAN when it has its turn, which may be at once.
    pub(super) fn answer_read(&mut self, now: Now, pending: Pending, outputs: &mut Vec<Output>) {
        if matches!(pending.read, Some(Request::Scan { .. })) {
            self.scans.waiting.push_back(pending);
            return self.answer_scans(now, outputs);
        }
        self.answer_at_once(now, pending, outputs);
    }

    /// Answers SCANs that wait, as many as make a turn: what they are to see is applied, and more than that does not matter.
    pub(super) fn answer_scans(&mut self, now: Now, outputs: &mut Vec<Output>) {
        while self.scans.budget > 0 {
            let Some(pending) = self.scans.waiting.pop_front() else {
                self.scans.due = None;
                return;
            };
            self.answer_at_once(now, pending, outputs);
        }
        if !self.scans.waiting.is_empty() {
            self.scans.due.get_or_insert(now.instant + SCAN_PAUSE);
        }
    }

    fn answer_at_once(&mut self, now: Now, pending: Pending, outputs: &mut Vec<Output>) {
        let (reply, version) = self.read(&pending);
        let details = match &pending.read {
            Some(Request::Get { key }) if pending.wants_details => {
                self.store.details(key, LOG_TIME).map(Box::new)
            }
            _ => None,
        };
        let mut answer = pending.answer(now, &reply, version);
        answer.details = details;
        outputs.push(Output::Answer(answer));
    }

    fn read(&mut self, pending: &Pending) -> (Reply, Option<store::Version>) {
        match &pending.read {
            Some(Request::Get { key }) => match self.store.get(key, LOG_TIME) {
                Some(found) => (Reply::Value(found.value), Some(found.version)),
                None => (Reply::Missing, None),
            },
            Some(Request::Scan { pattern, token }) => {
                let reply = self.scan(pattern, token.as_deref(), pending);
                (reply, None)
            }
            _ => (Reply::Error(ErrorText::Syntax), None),
        }
    }

    /// Lists a page that fits the client. One with a single key may not.
    fn scan(&mut self, pattern: &[u8], token: Option<&[u8]>, pending: &Pending) -> Reply {
        let access = pending.readable.as_deref();
        let Ok(glob) = Glob::compile(pattern) else {
            return Reply::Error(ErrorText::Syntax);
        };
        let mut limits = self.config.scan;
        limits.bytes_max = limits
            .bytes_max
            .min(pending.reply_room.saturating_sub(TOKEN_ROOM));
        let decided = if access.is_some() { DECIDED_KEY } else { 1 };
        limits.keys_walked_max /= decided;
        let mut may_read = |key: &[u8]| {
            access.is_none_or(|access| access.decide(authorization::Request::ReadKey(key)).is_allowed())
        };
        match self.store.scan(&glob, token, LOG_TIME, limits, &mut may_read) {
            Ok(page) => {
                self.scans.count(page.walked, decided);
                self.fitting(page, pending)
            }
            Err(_) => Reply::Error(ErrorText::ScanToken),
        }
    }

    /// Halves a page until it fits: the token of a long key takes more room than was left for it.
    fn fitting(&self, mut page: ScanPage, pending: &Pending) -> Reply {
        loop {
            let place = scan_token::with_group(page.token.clone(), self.replica.group(), self.groups);
            let reply = Reply::Keys {
                keys: page.keys.clone(),
                token: place.map(|place| self.config.scan_seal.seal(&pending.bound, &place)),
            };
            let count = page.keys.len();
            if count <= 1 || reply.encode(pending.dialect).len() <= pending.reply_room {
                return reply;
            }
            page.cut_to(count / 2);
        }
    }
}

/// What all SCANs of a turn walk: a page, or several that are shorter.
const SCAN_TURN: usize = 10_000;

/// Room for the token in a page that is cut to fit its client: one of a key of up to 119 bytes, and the RESP around it.
const TOKEN_ROOM: usize = 256;

/// How long the others have their turn.
const SCAN_PAUSE: Duration = Duration::from_millis(1);

/// The store takes the time of the log where that is later.
const LOG_TIME: u64 = 0;
