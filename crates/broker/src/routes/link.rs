//! What this node has with one other node: what is on its way there and what came from there, and whether it can be reached.
//!
//! A node is reached when it answers probes: then what was sent before the probe has arrived, or is known to be missing. One that is
//! silent for too long is not reached any more; nobody waits for it, and what was for it is dropped.
//!
//! ```text
//! silent --answer: everything is announced anew--> reached --no answer for long--> silent
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use cluster::NodeId;
use mqtt::now::Now;
use mqtt::origin::Position;

use super::announced::{Announced, Cursor};
use super::inbox::Inbox;
use super::messages::{self, Answer};
use super::outbox::Outbox;
use super::since::Sameness;
use super::waits::{WaitId, Waits};
use crate::awake::{Awake, LOOK_EVERY};

/// One other node.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: NodeId,
    /// As it was heard of in this run.
    pub(super) incarnation: Option<u32>,
    pub(super) is_answering: bool,
    /// The cluster has given it up: what is for it goes to others, also if it answers.
    pub(super) is_lost: bool,
    /// How often it was found again after that.
    pub(super) finds: u64,
    /// It answers, and is not lost.
    pub(super) is_reached: bool,
    /// The latest number when it was reached.
    pub(super) reached_at: u64,
    /// It was reached before, and was given up. It may not have noticed.
    was_given_up: bool,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    /// The nodes that are lost, and under which number it was told so.
    pub(super) losses_said: BTreeMap<NodeId, u64>,
    pub(super) sameness: Sameness,
    /// How far everything was announced to it.
    cursor: Cursor,
    /// Who waits for the end of that.
    announced_waits: Vec<WaitId>,
    /// It has said all that it wants, since this node has started.
    has_said_all: bool,
    /// The same, since it was lost last.
    has_said_again: bool,
    /// Since when what is published here gets to the sessions there. `None`: it does not.
    pub(super) served_since: Option<Instant>,
    /// Who waits for that, and for the node to be reached. `None`: both were so, or it was silent for too long.
    unknown: Option<Vec<WaitId>>,
    probes: Probes,
    /// When something was sent again.
    resent_at: Option<Instant>,
    loose: Loose,
    changes: Vec<LinkChange>,
}

/// What becomes of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkChange {
    /// The node answers.
    Answers,
    /// It does not answer any more.
    Silent,
    /// What it is told reaches it.
    Reached,
    /// It has started anew, and knows what it had on its disk.
    Started,
    /// It had given this node up: it does not say any more what it was about to.
    Asked,
    /// It is not reached any more; what was on its way to it is given up.
    Lost,
}

/// Whether the node answers.
#[derive(Debug)]
struct Probes {
    /// The latest one.
    latest: u64,
    next: Instant,
    awake: Awake,
    /// For how long this node had looked when the latest probe left that was answered.
    answered: Duration,
    /// When that was.
    answered_at: Option<Instant>,
    /// Once it was long after the one before: this node was away, or the other one was.
    had_gap: bool,
    /// The latest silence of more than half of what is allowed that has ended: how long it was, and for how long this node had looked then.
    ended_silence: Option<(Duration, Duration)>,
    /// What is not answered.
    open: VecDeque<Probe>,
}

#[derive(Debug)]
struct Probe {
    number: u64,
    at: Duration,
    sent_at: Instant,
    /// What was sent of QoS 0 before.
    loose: u64,
}

/// Messages of QoS 0, which nobody waits for.
#[derive(Debug, Default)]
struct Loose {
    frame: Option<BytesMut>,
    /// Bytes that were sent, and those before the latest probe that was answered.
    sent: u64,
    answered: u64,
}

/// What a frame says of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is from before the sender's latest start.
    Late,
    Known,
    /// The sender has started anew, or was not heard of before.
    Started,
}

/// How often a node is asked while something is on its way to it, and else.
const PROBE_BUSY: Duration = Duration::from_millis(100);
pub(super) const PROBE_IDLE: Duration = LOOK_EVERY;

/// More than no time.
const MOMENT: Duration = Duration::from_millis(1);

/// How long a node that answers has time to say what it wants after this one has started. Half a gigabyte takes less.
const KNOWING_MAX: Duration = Duration::from_secs(10);

/// Nothing is sent again before so much time has passed: the answer to the first time is on its way.
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// Items about routes that are under way while everything is announced, and those of one piece of it.
const ANNOUNCING_MAX: usize = 4_096;
const ANNOUNCING_PIECE: usize = 512;

/// Changes of routes that are under way; with more of them everything is announced anew.
const ROUTES_MAX: usize = 65_536;

/// Bytes of QoS 0 that are sent without an answer, and after which one is asked for.
const LOOSE_BYTES_MAX: u64 = 8 << 20;
const LOOSE_BYTES_ASKED: u64 = 1 << 20;

impl Link {
    pub(super) fn new(now: Now, node: NodeId, taken: Position) -> Self {
        Self {
            node,
            incarnation: None,
            is_answering: false,
            is_lost: false,
            finds: 0,
            is_reached: false,
            reached_at: 0,
            was_given_up: false,
            outbox: Outbox::default(),
            inbox: Inbox::recovered(taken),
            losses_said: BTreeMap::new(),
            sameness: Sameness::default(),
            cursor: Cursor::Done,
            announced_waits: Vec::new(),
            has_said_all: false,
            has_said_again: false,
            served_since: None,
            unknown: None,
            probes: Probes {
                latest: 0,
                next: now.instant,
                awake: Awake::new(now.instant),
                answered: Duration::ZERO,
                answered_at: None,
                had_gap: false,
                ended_silence: None,
                open: VecDeque::new(),
            },
            resent_at: None,
            loose: Loose::default(),
            changes: Vec::new(),
        }
    }

    pub(super) fn take_changes(&mut self) -> Vec<LinkChange> {
        std::mem::take(&mut self.changes)
    }

    /// A frame came from this run of the node.
    pub(super) fn hear(&mut self, incarnation: u32) -> Heard {
        if self.incarnation.is_some_and(|known| known > incarnation)
            || self.inbox.taken.incarnation > incarnation
        {
            return Heard::Late;
        }
        if self.inbox.taken.incarnation < incarnation {
            self.inbox.begin(incarnation);
        }
        if self.incarnation == Some(incarnation) {
            return Heard::Known;
        }
        let is_another = self.incarnation.replace(incarnation).is_some();
        if is_another {
            self.find_again();
        }
        // What it remembers is what it has on disk.
        self.outbox.rewind(0);
        if self.is_reached {
            self.announce_anew();
            self.changes.push(LinkChange::Started);
        }
        Heard::Started
    }

    /// The node has answered. Says how many items are sent again.
    pub(super) fn answered(&mut self, now: Now, silence_max: Duration, answer: &Answer) -> u64 {
        let probes = &mut self.probes;
        let silence = probes.silence();
        let is_answered = |probe: &mut Probe| probe.number <= answer.probe;
        while let Some(probe) = probes.open.pop_front_if(is_answered) {
            self.loose.answered = probe.loose;
            probes.answered = probe.at;
            probes.had_gap |= probes.is_long_since(probe.sent_at, silence_max / 2);
            probes.answered_at = Some(probe.sent_at);
        }
        if silence > silence_max / 2 && probes.silence() < silence {
            probes.ended_silence = Some((silence, probes.awake.time()));
        }
        if !self.is_answering && answer.probe > 0 && probes.silence() < silence_max {
            self.is_answering = true;
            self.changes.push(LinkChange::Answers);
            self.reach();
        }
        let was_resent = self.resent_at.is_some_and(|at| at + RESEND_AFTER > now.instant);
        if !answer.has_gap || was_resent {
            return 0;
        }
        self.resent_at = Some(now.instant);
        self.outbox.rewind(answer.taken)
    }

    /// Time passes.
    pub(super) fn pass(&mut self, now: Now) {
        self.probes.awake.look(now.instant);
        if self.is_reached && self.has_said_again {
            self.served_since.get_or_insert(now.instant);
        } else {
            self.served_since = None;
        }
    }

    /// For how long the node has not answered.
    pub(super) fn silence(&self) -> Duration {
        self.probes.silence()
    }

    /// The same, also if it has answered since, but not for so long.
    pub(super) fn silence_until(&self, lately: Duration) -> Duration {
        let (ended, time) = (self.probes.ended_silence, self.probes.awake.time());
        let ended = ended.filter(|(_, ended)| time < *ended + lately);
        ended
            .map_or(Duration::ZERO, |(length, _)| length)
            .max(self.silence())
    }

    /// Asks whether the node is there, if it is time. True if it has not answered for so long.
    pub(super) fn look(
        &mut self,
        now: Now,
        own: u32,
        patience: Option<Duration>,
        send: impl FnMut(Bytes),
    ) -> bool {
        if self.probes.next <= now.instant {
            self.ask(now, own, send);
        }
        let has_anything = self.is_answering || self.unknown.is_some();
        let is_silent = has_anything && patience.is_some_and(|patience| self.silence() > patience);
        if is_silent {
            self.fall_silent();
        }
        is_silent
    }

    fn fall_silent(&mut self) {
        if std::mem::take(&mut self.is_answering) {
            self.changes.push(LinkChange::Silent);
        }
    }

    /// The node is missed now, for however long it has been silent.
    pub(super) fn miss(&mut self) {
        self.fall_silent();
        self.stop_reaching();
    }

    /// Whether the node has answered all the time: never less lately than this.
    pub(super) fn is_in_touch(&self, now: Now, lately: Duration) -> bool {
        let probes = &self.probes;
        !probes.had_gap && probes.answered_at.is_some() && !probes.is_long_since(now.instant, lately)
    }

    /// Whatever was before, the node has not given this one up.
    pub(super) fn trust_again(&mut self) {
        self.probes.had_gap = false;
    }

    /// The cluster has given the node up. What is on its way to it stays until it is given to others.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.has_said_again = false;
        self.stop_reaching();
    }

    /// The cluster counts on the node again.
    pub(super) fn find_again(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            self.finds += 1;
            self.sameness.find(self.outbox.latest());
        }
        self.reach();
    }

    fn reach(&mut self) {
        if self.is_answering && !self.is_lost && !self.is_reached {
            self.is_reached = true;
            self.reached_at = self.outbox.latest();
            self.changes.push(LinkChange::Reached);
            self.announce_anew();
            if self.was_given_up {
                self.outbox.push_other(messages::ASK, Bytes::new());
            }
        }
    }

    /// The node lacks what this one has announced.
    pub(super) fn is_asked(&mut self) {
        if !self.is_reached {
            return;
        }
        self.changes.push(LinkChange::Asked);
        if self.cursor == Cursor::Done {
            self.announce_anew();
        }
    }

    /// Whether everything that is announced is on its way to the node.
    pub(super) fn has_announced(&self) -> bool {
        self.is_reached && self.cursor == Cursor::Done
    }

    /// This node does not know yet what the other one wants.
    pub(super) fn begin_to_know(&mut self) {
        self.unknown = Some(Vec::new());
    }

    /// Whether the node has said all that it wants since it was lost last.
    pub(super) fn has_said_again(&self) -> bool {
        self.has_said_again
    }

    /// The node has said all that it wants.
    pub(super) fn has_said_all(&mut self, over: &mut Vec<WaitId>) {
        (self.has_said_all, self.has_said_again) = (true, true);
        self.know(over);
    }

    /// Nobody waits any more if it is known what the node wants, and it is reached, so that it can get it; or after so long.
    pub(super) fn know(&mut self, over: &mut Vec<WaitId>) {
        if self.has_said_all && self.is_reached || self.probes.awake.time() > KNOWING_MAX {
            self.forget_unknown(over);
        }
    }

    fn forget_unknown(&mut self, over: &mut Vec<WaitId>) {
        over.extend(self.unknown.take().into_iter().flatten());
    }

    pub(super) fn is_known(&self) -> bool {
        self.unknown.is_none()
    }

    /// Lets somebody wait until it is known what the node wants, if it is not.
    pub(super) fn wait_to_know(&mut self, wait: WaitId, waits: &mut Waits) {
        if let Some(unknown) = &mut self.unknown {
            waits.add(wait);
            unknown.push(wait);
        }
    }

    /// The node is not reached any more. Says how many messages it does not get.
    pub(super) fn give_up(&mut self, over: &mut Vec<WaitId>) -> u64 {
        self.stop_reaching();
        self.cursor = Cursor::Done;
        self.forget_unknown(over);
        over.append(&mut self.announced_waits);
        self.outbox.give_up(over)
    }

    /// Nothing more is said to the node. What is on its way to it stays.
    pub(super) fn stop_reaching(&mut self) {
        self.served_since = None;
        if std::mem::take(&mut self.is_reached) {
            self.changes.push(LinkChange::Lost);
            self.was_given_up = true;
        }
    }

    /// Appends an item about routes, if the node is reached: else everything is announced when it is.
    pub(super) fn change(&mut self, kind: u8, body: Bytes) {
        if !self.is_reached {
            return;
        }
        if self.outbox.routes() >= ROUTES_MAX {
            return self.announce_anew();
        }
        self.outbox.push_route(kind, body);
    }

    /// Lets somebody wait until the node knows all routes; false if it does, or is not reached.
    pub(super) fn wait_for_routes(&mut self, wait: WaitId, waits: &mut Waits) -> bool {
        if !self.is_reached {
            return false;
        }
        if self.cursor != Cursor::Done {
            waits.add(wait);
            self.announced_waits.push(wait);
            return true;
        }
        self.outbox.wait_for_routes(wait, waits)
    }

    /// Appends a message of QoS 0; false if the node is behind, and does not get it.
    pub(super) fn push_loose(&mut self, own: u32, head: &[u8], body: &[u8]) -> bool {
        if self.loose.sent - self.loose.answered > LOOSE_BYTES_MAX {
            return false;
        }
        let frame = self.loose.frame.get_or_insert_with(|| messages::loose(own));
        messages::put_message(frame, [&[], head, body]);
        self.loose.sent += (head.len() + body.len()) as u64;
        true
    }

    /// What is to be sent now.
    pub(super) fn flush(&mut self, now: Now, own: u32, announced: &Announced, mut send: impl FnMut(Bytes)) {
        if let Some(frame) = self.loose.frame.take() {
            send(frame.freeze());
            let latest = self.probes.open.back();
            let asked = latest.map_or(self.loose.answered, |probe| probe.loose);
            if self.loose.sent - asked > LOOSE_BYTES_ASKED {
                self.ask(now, own, &mut send);
            }
        }
        if self.is_reached {
            self.announce(announced);
        }
        self.outbox.frames(now, own, &mut send);
        if let Some(answer) = self.inbox.take_answer() {
            send(messages::answer(own, &answer));
        }
    }

    /// When it is time to ask, or when the node has been silent for so long.
    pub(super) fn deadline(&self, silence_max: Duration) -> Instant {
        let left = (silence_max + MOMENT).checked_sub(self.silence());
        let missed = left
            .filter(|_| self.is_reached)
            .map(|left| self.probes.awake.looked_at() + left);
        missed.map_or(self.probes.next, |missed| missed.min(self.probes.next))
    }

    /// Sends a probe; behind what may be missing, so that the answer says so.
    fn ask(&mut self, now: Now, own: u32, mut send: impl FnMut(Bytes)) {
        let is_busy = self.is_reached && (!self.outbox.is_empty() || self.cursor != Cursor::Done);
        let pause = if is_busy { PROBE_BUSY } else { PROBE_IDLE };
        self.probes.next = now.instant + pause;
        if let Some(reminder) = self.outbox.reminder(own) {
            send(reminder);
        }
        let number = self.probes.begin(now.instant, self.loose.sent);
        send(messages::probe(own, number));
    }

    /// Something was sent: it is time to ask soon.
    pub(super) fn hurry(&mut self, now: Now) {
        self.probes.next = self.probes.next.min(now.instant + PROBE_BUSY);
    }

    /// The node is to be told everything, and forgets what it is not told.
    fn announce_anew(&mut self) {
        self.outbox.forget_routes(&mut self.announced_waits);
        self.cursor = Cursor::Begin;
    }

    fn announce(&mut self, announced: &Announced) {
        let mut items = Vec::new();
        while self.cursor != Cursor::Done && self.outbox.len() < ANNOUNCING_MAX {
            announced.next(&mut self.cursor, ANNOUNCING_PIECE, &mut items);
            for (kind, body) in items.drain(..) {
                self.outbox.push_route(kind, body);
            }
            if self.cursor == Cursor::Done {
                self.outbox.wait_for_latest_route(&mut self.announced_waits);
            }
        }
    }
}

impl Probes {
    fn begin(&mut self, sent_at: Instant, loose: u64) -> u64 {
        self.latest += 1;
        if self.open.len() < PROBES_MAX {
            self.open.push_back(Probe {
                number: self.latest,
                at: self.awake.time(),
                sent_at,
                loose,
            });
        }
        self.latest
    }

    /// Whether at this moment the latest probe that was answered had left longer ago than this.
    fn is_long_since(&self, now: Instant, lately: Duration) -> bool {
        let since = self.answered_at.map(|at| now.saturating_duration_since(at));
        since.is_some_and(|since| since > lately)
    }

    /// For how long the node has not answered.
    fn silence(&self) -> Duration {
        self.awake.time().saturating_sub(self.answered)
    }
}

/// Probes without an answer that are remembered for what was sent before them.
const PROBES_MAX: usize = 256;
