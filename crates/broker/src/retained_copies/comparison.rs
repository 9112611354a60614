//! How two nodes find out in what their retained messages differ, and get what they lack.
//!
//! One sends its digests. If those of the other are the same it says so. Else it answers with its own, and each of both goes through what the other has in the buckets that
//! differ: it has the other list its editions there, piece by piece, and asks for those that are later than what it has. Nobody sends what was not asked for,
//! and nobody asks for more before it has what it asked for. What is written meanwhile is told as always.
//!
//! ```text
//! closed --compare--> open --same--> closed
//!                     open --differs: both get what they lack--> closed when both have it
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::TopicName;

use super::digests::{Buckets, Digests};
use super::messages::{Listed, Said};

/// How this node compares itself with one other.
#[derive(Debug)]
pub(super) struct Comparison {
    is_reached: bool,
    /// What the other node asked before it was reached: it is answered then.
    asked: Option<(u64, Digests)>,
    /// The latest that this node has begun.
    round: u64,
    open: Option<Open>,
    /// What this node lacks is being looked for.
    pull: Option<Pull>,
    /// The round of the other node's that waits for the end of that.
    owed: Option<u64>,
    /// What is asked is numbered.
    ask: u64,
    /// When it is time again.
    next: Instant,
    /// Both had the same at some moment after the last [`restart`](Self::restart).
    pub(super) is_complete: bool,
    /// Topics that this node lacked when it last looked.
    pub(super) differing: u64,
    /// Something was not told to the node since it did not keep up.
    pub(super) is_missing_some: bool,
}

/// A comparison that this node has begun.
#[derive(Debug)]
struct Open {
    round: u64,
    is_answered: bool,
    is_pulled: bool,
    is_done_there: bool,
}

/// Going through what another node has.
#[derive(Debug)]
struct Pull {
    buckets: Buckets,
    /// Were found to differ since it began.
    again: Buckets,
    /// Everything before is known; and where the next piece begins.
    place: Bytes,
    next: Bytes,
    wanted: VecDeque<Listed>,
    found: u64,
}

/// How often nodes compare what they have.
pub(super) const PERIOD: Duration = Duration::from_secs(30);

/// Topics and bytes that are asked for at a time, unless one message has more.
const WANTED_MAX: usize = 256;
const WANTED_BYTES: u64 = 1 << 20;

impl Comparison {
    /// Rounds and questions are numbered from here on; a run of a node must not use those of an earlier one.
    pub(super) fn new(now: Instant, first: u64) -> Self {
        Self {
            is_reached: false,
            asked: None,
            round: first,
            open: None,
            pull: None,
            owed: None,
            ask: first,
            next: now,
            is_complete: false,
            differing: 0,
            is_missing_some: false,
        }
    }

    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// The other node answers, or has started anew.
    pub(super) fn reached(&mut self, now: Instant, own: &Digests, out: &mut Vec<Said>) {
        let asked = self.asked.take().filter(|_| !self.is_reached);
        self.lost();
        self.is_reached = true;
        self.begin(now, own, true, out);
        if let Some((round, theirs)) = asked {
            self.answer(round, &theirs, own, out);
        }
    }

    /// It does not answer any more: what was on its way is gone.
    pub(super) fn lost(&mut self) {
        *self = Self {
            round: self.round,
            ask: self.ask,
            ..Self::new(self.next, 0)
        };
    }

    /// Compares again, from now on.
    pub(super) fn restart(&mut self, now: Instant, own: &Digests, out: &mut Vec<Said>) {
        self.is_complete = false;
        if self.is_reached {
            self.begin(now, own, false, out);
        }
    }

    /// Compares if it is time.
    pub(super) fn tick(&mut self, now: Instant, own: &Digests, out: &mut Vec<Said>) {
        if self.is_reached && self.next <= now {
            self.begin(now, own, false, out);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.is_reached.then_some(self.next)
    }

    /// The other node has sent its digests.
    pub(super) fn compare(
        &mut self,
        now: Instant,
        (round, is_anew, theirs): (u64, bool, Digests),
        own: &Digests,
        out: &mut Vec<Said>,
    ) {
        if !self.is_reached {
            self.asked = Some((round, theirs));
            return;
        }
        self.answer(round, &theirs, own, out);
        // What it was asked before may be lost.
        if is_anew && let Some(pull) = &mut self.pull {
            pull.wanted.clear();
            pull.next = pull.place.clone();
            self.list(out);
        }
        if is_anew && self.open.is_some() {
            self.begin(now, own, false, out);
        }
    }

    /// The other node has the same as this one had.
    pub(super) fn same(&mut self, round: u64) {
        if self.open.take_if(|open| open.round == round).is_some() {
            self.is_complete = true;
            self.differing = 0;
        }
    }

    /// The other node has something else.
    pub(super) fn differs(&mut self, round: u64, theirs: &Digests, own: &Digests, out: &mut Vec<Said>) {
        let Some(open) = self.open.as_mut().filter(|open| open.round == round) else {
            return;
        };
        open.is_answered = true;
        self.pull(own.differing(theirs), out);
    }

    /// The other node has what this one had.
    pub(super) fn done(&mut self, round: u64) {
        if let Some(open) = self.open.as_mut().filter(|open| open.round == round) {
            open.is_done_there = true;
            self.close();
        }
    }

    /// The other node has listed a piece of what it has.
    pub(super) fn listed(
        &mut self,
        ask: u64,
        (place, topics): (Bytes, Vec<Listed>),
        mut lacks: impl FnMut(&Listed) -> bool,
        out: &mut Vec<Said>,
    ) {
        let Some(pull) = self.pull.as_mut().filter(|_| ask == self.ask) else {
            return;
        };
        pull.wanted
            .extend(topics.into_iter().filter(|listed| lacks(listed)));
        pull.found += pull.wanted.len() as u64;
        pull.next = place;
        self.go_on(out);
    }

    /// The other node has sent what was wanted.
    pub(super) fn given(&mut self, ask: u64, out: &mut Vec<Said>) {
        if ask == self.ask {
            self.go_on(out);
        }
    }

    fn begin(&mut self, now: Instant, own: &Digests, is_anew: bool, out: &mut Vec<Said>) {
        self.round += 1;
        self.next = now + PERIOD;
        self.is_missing_some = false;
        self.open = Some(Open {
            round: self.round,
            is_answered: false,
            is_pulled: false,
            is_done_there: false,
        });
        out.push(Said::Compare {
            round: self.round,
            is_anew,
            digests: own.clone(),
        });
    }

    fn answer(&mut self, round: u64, theirs: &Digests, own: &Digests, out: &mut Vec<Said>) {
        let differing = own.differing(theirs);
        if differing.is_empty() {
            return out.push(Said::Same { round });
        }
        out.push(Said::Differs {
            round,
            digests: own.clone(),
        });
        self.owed = Some(round);
        self.pull(differing, out);
    }

    /// Looks for what this node lacks in these buckets.
    fn pull(&mut self, buckets: Buckets, out: &mut Vec<Said>) {
        if let Some(pull) = &mut self.pull {
            pull.again = pull.again.with(buckets);
            return;
        }
        self.pull = Some(Pull {
            buckets,
            again: Buckets::default(),
            place: Bytes::new(),
            next: Bytes::new(),
            wanted: VecDeque::new(),
            found: 0,
        });
        if buckets.is_empty() {
            self.go_on(out);
        } else {
            self.list(out);
        }
    }

    /// Asks for the next messages, or for the next piece of the list, or is at the end.
    fn go_on(&mut self, out: &mut Vec<Said>) {
        let Some(pull) = &mut self.pull else { return };
        if !pull.wanted.is_empty() {
            return self.want(out);
        }
        pull.place = std::mem::take(&mut pull.next);
        if !pull.place.is_empty() {
            return self.list(out);
        }
        self.differing = std::mem::take(&mut pull.found);
        pull.buckets = std::mem::take(&mut pull.again);
        if !pull.buckets.is_empty() {
            return self.list(out);
        }
        self.pull = None;
        out.extend(self.owed.take().map(|round| Said::Done { round }));
        if let Some(open) = self.open.as_mut().filter(|open| open.is_answered) {
            open.is_pulled = true;
            self.close();
        }
    }

    fn list(&mut self, out: &mut Vec<Said>) {
        let Some(pull) = &self.pull else { return };
        self.ask += 1;
        out.push(Said::List {
            ask: self.ask,
            buckets: pull.buckets,
            place: pull.place.clone(),
        });
    }

    fn want(&mut self, out: &mut Vec<Said>) {
        let Some(pull) = &mut self.pull else { return };
        let (mut topics, mut bytes): (Vec<TopicName>, u64) = (Vec::new(), 0);
        while let Some(listed) = pull
            .wanted
            .pop_front_if(|_| topics.len() < WANTED_MAX && bytes < WANTED_BYTES)
        {
            bytes += u64::from(listed.bytes) + listed.topic.as_str().len() as u64;
            topics.push(listed.topic);
        }
        self.ask += 1;
        out.push(Said::Want {
            ask: self.ask,
            topics,
        });
    }

    fn close(&mut self) {
        let is_closed = |open: &mut Open| open.is_pulled && open.is_done_there;
        self.is_complete |= self.open.take_if(is_closed).is_some();
    }
}
