//! Requests that another node has to decide: those of a node that does not lead.
//!
//! A node gives its commands to the leader, which appends them to the log as if they were its own. They are answered where they came
//! from, when that node's replica applies them. A read asks the leader from which index on it sees everything, and is answered here,
//! too, as soon as that much is applied.
//!
//! Nothing is confirmed. Commands wait until they are applied, for [`SENT_AGAIN_FOR`]. They are sent again when there is another
//! leader, or after [`AGAIN_AFTER`] and the time that their bytes take. The log remembers outcomes for longer
//! ([`REMEMBERED_MIN`]), so none of them is executed twice.
//!
//! While nobody leads, requests wait for [`LEADERLESS_MAX`]; after it all are refused at once until somebody does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::peer_header::PeerError;
use cluster::replica::{self, ReadId};
use cluster::{Index, NodeId};
use mqtt::now::Now;
use protocol::state_store::{ErrorText, Reply};
use store::{Command, CommandAction, EntryBuilder, Stamp};

use super::full_entries::FullEntries;
use super::peers::PeerMessage;
use super::pending::Pending;
use super::{Output, StateStoreService, Whose, traced};

/// What is on its way to the leader, and what others have asked of this node while it leads.
#[derive(Debug)]
pub(super) struct Forwarding {
    pub(super) leader: Option<NodeId>,
    leaderless_since: Option<Instant>,
    /// Nobody has led for too long.
    has_given_up: bool,
    /// Commands of this node that are not applied yet, by request.
    waiting: BTreeMap<u64, Waiting>,
    /// Bytes of the keys and values of the commands that wait.
    waiting_bytes: usize,
    /// The leader was sent them up to this one.
    sent: Option<u64>,
    /// Commands that the leader is to be sent again.
    due: BTreeSet<u64>,
    /// Reads that the leader was asked about.
    reads: Vec<AskedRead>,
    next_number: u64,
    /// What others asked about, and how they call it.
    asked: Vec<(ReadId, NodeId, u64)>,
    /// Reads that see enough, of a leader that does not know what time it is.
    untimed: Vec<ReadyRead>,
    /// Moment of the next look for what has to be sent again.
    again_at: Option<Instant>,
    /// The log knows of this run of the node.
    is_introduced: bool,
}

#[derive(Debug)]
struct Waiting {
    command: Command,
    whose: Whose,
    /// If it is a client's: from here on it is not sent again.
    until: Instant,
    /// Moment from which on it is sent again, unless it is applied.
    again_at: Instant,
}

#[derive(Debug)]
struct AskedRead {
    number: u64,
    /// What has to be applied, as far as it is known.
    at: Option<Index>,
    pending: Vec<Pending>,
}

/// A read that sees everything once this index is applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadyRead {
    pub(super) read: ReadId,
    pub(super) index: Index,
}

/// Longer than an election takes that does not fail: two of the longest waits and a few round trips.
const LEADERLESS_MAX: Duration = Duration::from_millis(1_500);

/// Time after which a command that is not applied may have been lost. The time that its bytes take ([`BYTES_A_SECOND`]) comes on top.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Rate at which commands are expected to be applied at least. A large command delays those behind it. One that is sent again too early
/// holds up the nodes that still work on it: each copy goes through the log. Three nodes that share a machine of two cores take 70 MiB
/// a second.
const BYTES_A_SECOND: usize = 16 << 20;

/// Shortest time between two looks for what is due again. A look costs as much as there are commands that wait, and they may be as many
/// as requests may be pending.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// A client's command that is not applied by then is given up: nobody knows what becomes of it. Longer than any leader is looked for
/// ([`LEADERLESS_MAX`]) and than clients wait; this node does not hear what is decided, as it lags or its disk is slow.
const SENT_AGAIN_FOR: Duration = Duration::from_secs(10);

/// How long the outcome of a command is remembered that may be sent again, however short the time for which its client wants that: three
/// times as long, since clocks differ, and what is sent last is on its way for a while.
const REMEMBERED_MIN: Duration = Duration::from_secs(30);

/// Reads that the leader is asked about at the same time; more of them wait, and are asked about together.
const READS_AT_ONCE_MAX: usize = 4;

/// What other nodes may have asked about at the same time.
const ASKED_MAX: usize = 1_024;

impl Default for Forwarding {
    fn default() -> Self {
        Self {
            leader: None,
            leaderless_since: None,
            has_given_up: true,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            sent: None,
            due: BTreeSet::new(),
            reads: Vec::new(),
            next_number: 0,
            asked: Vec::new(),
            untimed: Vec::new(),
            again_at: None,
            is_introduced: false,
        }
    }
}

impl Forwarding {
    /// A command of this node is applied.
    pub(super) fn applied(&mut self, request: u64) {
        if let Some(applied) = self.waiting.remove(&request) {
            self.waiting_bytes -= bytes_of(&applied.command.action);
        }
    }

    /// Keeps a command until it is applied: it may be lost on its way.
    pub(super) fn keep(&mut self, now: Now, request: u64, command: Command, whose: Whose) {
        self.waiting_bytes += bytes_of(&command.action);
        let until = now.instant + SENT_AGAIN_FOR;
        let mut waiting = Waiting {
            command,
            whose,
            until,
            again_at: now.instant,
        };
        waiting.put_off(now.instant, self.waiting_bytes);
        self.look_again_at(waiting.again_at);
        self.waiting.insert(request, waiting);
    }

    /// Looks at this moment, or earlier if something is due before.
    fn look_again_at(&mut self, at: Instant) {
        self.again_at = Some(self.again_at.map_or(at, |before| before.min(at)));
    }

    /// Lets everything that is not applied be sent again.
    fn make_all_due(&mut self, now: Instant) {
        for waiting in self.waiting.values_mut() {
            waiting.again_at = now;
        }
    }

    /// Commands that are to be sent again, in their order. Each of them has its time anew.
    fn take_due(&mut self, now: Instant) -> BTreeSet<u64> {
        let (mut due, mut bytes) = (BTreeSet::new(), 0);
        let mut earliest = (!self.reads.is_empty()).then(|| now + AGAIN_AFTER);
        for (request, waiting) in &mut self.waiting {
            bytes += bytes_of(&waiting.command.action);
            if waiting.again_at <= now {
                due.insert(*request);
                waiting.put_off(now, bytes);
            }
            earliest = Some(earliest.map_or(waiting.again_at, |at| at.min(waiting.again_at)));
        }
        self.again_at = earliest.map(|at| at.max(now + LOOKS_APART));
        due
    }

    /// Forgets the commands of clients of which this is true, and says which they were.
    pub(super) fn take_clients(&mut self, is_taken: impl Fn(&CommandAction) -> bool) -> Vec<u64> {
        self.take_waiting(|waiting| is_taken(&waiting.command.action))
    }

    /// Forgets the commands of clients that may not be sent again any more, and says which they were.
    fn take_given_up(&mut self, now: Instant) -> Vec<u64> {
        self.take_waiting(|waiting| waiting.until <= now)
    }

    fn take_waiting(&mut self, is_taken: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        let is_taken = |waiting: &mut Waiting| waiting.whose != Whose::Own && is_taken(waiting);
        let taken = self.waiting.extract_if(.., |_, waiting| is_taken(waiting));
        let (mut requests, mut bytes) = (Vec::new(), 0);
        for (request, waiting) in taken {
            bytes += bytes_of(&waiting.command.action);
            requests.push(request);
        }
        self.waiting_bytes -= bytes;
        requests
    }

    /// What the leader was not sent yet, or is to be sent again, in entries of about so many bytes.
    fn take_unsent(&mut self, entry_bytes_max: usize) -> Vec<PeerMessage> {
        let after = self.sent.map_or(Bound::Unbounded, Bound::Excluded);
        let due = std::mem::take(&mut self.due);
        let again = due
            .iter()
            .filter_map(|request| self.waiting.get_key_value(request));
        let first_time = self.waiting.range((after, Bound::Unbounded));
        let first_time = first_time.filter(|(request, _)| !due.contains(request));
        let mut unsent = again.chain(first_time).peekable();
        let mut messages = Vec::new();
        while unsent.peek().is_some() {
            let (mut entry, mut needs_disk) = (EntryBuilder::new(), false);
            while entry.len_bytes() < entry_bytes_max
                && let Some((request, waiting)) = unsent.next()
            {
                entry.push(&waiting.command);
                needs_disk |= waiting.whose.needs_disk();
                self.sent = self.sent.max(Some(*request));
            }
            let entry = entry.finish(Stamp::default());
            messages.push(PeerMessage::Commands { needs_disk, entry });
        }
        messages
    }

    /// How many reads wait for what the leader says.
    pub(super) fn reads_len(&self) -> usize {
        self.reads.iter().map(|read| read.pending.len()).sum()
    }

    /// When to look again, if anything waits.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let given_up_at = self.leaderless_since.map(|since| since + LEADERLESS_MAX);
        given_up_at.into_iter().chain(self.again_at).min()
    }
}

impl Waiting {
    /// Puts off when the command is sent again: it is given to the leader behind so many bytes, its own among them.
    fn put_off(&mut self, now: Instant, bytes: usize) {
        let passing = Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND as f64);
        self.again_at = now + AGAIN_AFTER + passing;
        if self.whose != Whose::Own {
            self.again_at = self.again_at.min(self.until);
        }
    }
}

/// Bytes of a command's keys and values. The rest of a command is short.
fn bytes_of(action: &CommandAction) -> usize {
    let key = action.key().map_or(0, <[u8]>::len);
    let others = match action {
        CommandAction::Set { value, .. } => value.len(),
        CommandAction::Delete { only_if, .. } => only_if.as_ref().map_or(0, Bytes::len),
        CommandAction::Reinstate { record } => record.value.len(),
        CommandAction::Expire { keys } => keys.iter().map(Bytes::len).sum(),
        CommandAction::Watch { .. }
        | CommandAction::Unwatch { .. }
        | CommandAction::EndWatches { .. }
        | CommandAction::EndIncarnations { .. }
        | CommandAction::Configure { .. }
        | CommandAction::RaiseFloor { .. } => 0,
    };
    key + others
}

impl StateStoreService {
    /// Whether requests are served, or will be soon.
    pub fn takes_calls(&self) -> bool {
        !self.is_stateless()
            && (self.is_available() || !self.replica.is_alone() && !self.forwarding.has_given_up)
    }

    /// A peer is there, though its message is not whole yet.
    pub fn heard(&mut self, now: Now, from: NodeId, outputs: &mut Vec<Output>) {
        self.replica_step(now, replica::Event::Heard { from }, outputs);
    }

    /// A peer sent these bytes.
    ///
    /// # Errors
    /// If they are none of ours; nothing has changed.
    pub fn message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        outputs: &mut Vec<Output>,
    ) -> Result<(), PeerError> {
        match PeerMessage::decode(message, self.replica.group())? {
            PeerMessage::Raft(bytes) => {
                self.replica_step(now, replica::Event::Message { from, bytes }, outputs);
            }
            PeerMessage::Commands { needs_disk, entry } => {
                let entry = store::decode_entry(entry).map_err(|_| PeerError::Damaged)?;
                self.take_commands(now, needs_disk, &entry.commands, outputs);
            }
            PeerMessage::Read { number } => self.asked_by(now, from, number, outputs),
            PeerMessage::ReadAt { number, index, time } => {
                self.heard_time(now, from, time);
                self.may_read_at(number, index);
                self.answer_asked(now, outputs);
            }
            PeerMessage::Office => {
                if self.forwarding.leader == Some(from) {
                    self.forwarding.make_all_due(now.instant);
                    self.send_again(now, outputs);
                }
            }
            PeerMessage::Offer(offer) => self.offered(now, from, offer, outputs),
            PeerMessage::Pull { number, position } => self.pulled(now, from, number, position, outputs),
            PeerMessage::Chunk(chunk) => self.chunk_came(now, from, chunk, outputs),
            PeerMessage::End {
                number,
                chunks,
                digest,
            } => self.chunks_ended(now, from, (number, chunks, digest), outputs),
            PeerMessage::Gone { number } => self.snapshot_gone(from, number),
            PeerMessage::State { index, digest } => self.announced(now, from, index, digest, outputs),
            PeerMessage::Traces { incarnation, traced } => self.traced_by(now, (from, incarnation), traced),
            PeerMessage::Wanted => self.wanted_by(now, from, outputs),
            PeerMessage::Unfit => self.said_unfit(now, from),
            PeerMessage::Time { time } => self.heard_time(now, from, time),
            PeerMessage::TimeAsked => self.asked_for_time(now, from, outputs),
            PeerMessage::TimeTold(told) => self.told_time(now, from, told, outputs),
        }
        Ok(())
    }

    /// The log is to remember the outcome of a client's command for as long as it may be sent again.
    pub(super) fn remember_for_long(action: &mut CommandAction) {
        action.remember_for(u64::try_from(REMEMBERED_MIN.as_millis()).expect("not that long"));
    }

    /// Whatever is not applied goes to the leader again, and soon.
    pub(super) fn ask_again_at_once(&mut self, now: Now) {
        let forwarding = &mut self.forwarding;
        forwarding.make_all_due(now.instant);
        if !forwarding.waiting.is_empty() || !forwarding.reads.is_empty() {
            forwarding.again_at = Some(now.instant);
        }
    }

    /// Whoever waits is told that nobody knows. What this node itself wants is kept.
    pub(super) fn refuse_clients(&mut self, now: Now, outputs: &mut Vec<Output>) {
        drop(self.forwarding.take_clients(|_| true));
        let asked = self.forwarding.reads.drain(..).flat_map(|read| read.pending);
        self.reads.extend(asked);
        self.refuse_all(now, outputs);
    }

    /// Whoever waits for these is told that nobody knows.
    pub(super) fn leave_in_doubt(&mut self, now: Now, requests: Vec<u64>, outputs: &mut Vec<Output>) {
        for request in requests {
            self.put_back_ended(request, None, outputs);
            if let Some(pending) = self.pending.take(request) {
                let reply = Reply::Error(ErrorText::Unavailable);
                outputs.push(Output::Answer(pending.answer(now, &reply, None)));
            }
        }
    }

    /// Commands of another node. Whoever does not lead drops them: they are sent again.
    fn take_commands(&mut self, now: Now, needs_disk: bool, commands: &[Command], outputs: &mut Vec<Output>) {
        if !self.replica.is_leader() {
            return;
        }
        for command in commands {
            self.push(now, command, Whose::Client { needs_disk }, outputs);
        }
    }

    /// Another node wants to read.
    fn asked_by(&mut self, now: Now, from: NodeId, number: u64, outputs: &mut Vec<Output>) {
        if !self.replica.is_leader() || self.forwarding.asked.len() >= ASKED_MAX {
            return;
        }
        let read = self.new_read();
        self.forwarding.asked.push((read, from, number));
        self.replica_step(now, replica::Event::Read { read }, outputs);
    }

    /// Answers a read that sees enough, its own or that of another node, once it is known what time it is. A leader that was started
    /// again would show keys that are past their deadline.
    pub(super) fn read_ready(&mut self, now: Now, ready: ReadyRead, outputs: &mut Vec<Output>) {
        if !self.time.is_known() {
            self.forwarding.untimed.push(ready);
        } else if !self.answer_peer(now, ready, outputs) && !self.answer_frozen(ready.read, outputs) {
            self.answer_reads(now, ready.read, outputs);
        }
    }

    /// It is known what time it is.
    pub(super) fn answer_untimed(&mut self, now: Now, outputs: &mut Vec<Output>) {
        for ready in std::mem::take(&mut self.forwarding.untimed) {
            self.read_ready(now, ready, outputs);
        }
    }

    /// The answer to another node. False if none asked.
    fn answer_peer(&mut self, now: Now, ready: ReadyRead, outputs: &mut Vec<Output>) -> bool {
        let asked = &mut self.forwarding.asked;
        let Some(position) = asked.iter().position(|(id, _, _)| *id == ready.read) else {
            return false;
        };
        let (_, to, number) = asked.swap_remove(position);
        let (index, time) = (ready.index, self.time(now));
        outputs.push(self.to_peer(to, &PeerMessage::ReadAt { number, index, time }));
        true
    }

    /// What the leader was asked about sees everything once this index is applied.
    fn may_read_at(&mut self, number: u64, index: Index) {
        let mut reads = self.forwarding.reads.iter_mut();
        if let Some(read) = reads.find(|read| read.number == number) {
            read.at = Some(index);
        }
    }

    /// A read was not taken: it is asked again when somebody leads.
    pub(super) fn read_refused(&mut self, read: ReadId) {
        self.forwarding.asked.retain(|(id, _, _)| *id != read);
        if let Some(position) = self.reads_on_the_way.iter().position(|(id, _)| *id == read) {
            let (_, pending) = self.reads_on_the_way.swap_remove(position);
            self.reads.extend(pending);
        }
    }

    /// Sends the leader what it has to decide. Commands that come while an entry is on its way to the disk go with the answer that the
    /// leader gets then: it proposes nothing before.
    pub(super) fn flush_to_leader(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let Some(leader) = self.forwarding.leader else {
            return;
        };
        if !self.replica.is_persisting() {
            self.send_commands(now, leader, outputs);
        }
        self.send_reads(now, leader, outputs);
    }

    fn send_commands(&mut self, now: Now, leader: NodeId, outputs: &mut Vec<Output>) {
        let messages = self.forwarding.take_unsent(self.config.entry_bytes_max);
        if messages.is_empty() {
            return;
        }
        // The leader has to know before the commands come.
        let traces = self.traces_for(now, leader);
        for message in traces.into_iter().chain(messages) {
            outputs.push(self.to_peer(leader, &message));
        }
    }

    fn send_reads(&mut self, now: Now, leader: NodeId, outputs: &mut Vec<Output>) {
        if self.reads.is_empty() || self.forwarding.reads.len() >= READS_AT_ONCE_MAX {
            return;
        }
        // Another one than in the run before: an answer to what that has asked may still be on its way, and knows too little.
        let run = u64::from(self.config.incarnation) << 32;
        let number = run + self.forwarding.next_number;
        self.forwarding.next_number += 1;
        let mut pending = std::mem::take(&mut self.reads);
        traced::ask(now, &mut pending);
        self.forwarding.reads.push(AskedRead {
            number,
            at: None,
            pending,
        });
        self.forwarding.look_again_at(now.instant + AGAIN_AFTER);
        outputs.push(self.to_peer(leader, &PeerMessage::Read { number }));
    }

    /// Answers the reads for which enough is applied.
    pub(super) fn answer_asked(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.forwarding.reads.is_empty() {
            return;
        }
        let applied = self.replica.applied().index;
        let is_ready = |read: &AskedRead| read.at.is_some_and(|at| at <= applied);
        while let Some(position) = self.forwarding.reads.iter().position(is_ready) {
            let read = self.forwarding.reads.remove(position);
            self.answer_all(now, read.pending, outputs);
        }
    }

    /// Somebody leads, or nobody does.
    pub(super) fn leadership(&mut self, now: Now, leader: Option<NodeId>, outputs: &mut Vec<Output>) {
        if self.replica.is_alone() {
            return if self.replica.is_leader() {
                self.take_office(now, outputs);
            } else {
                self.refuse_all(now, outputs);
            };
        }
        self.forwarding.leader = leader;
        self.fitness_of_new_leader();
        self.time_of_new_leader(now, outputs);
        self.look_at_once(now);
        self.proposing = false;
        self.expiring = false;
        self.entry = None;
        self.entry_commands = 0;
        self.full = FullEntries::default();
        self.forwarding.asked.clear();
        self.forwarding.untimed.clear();
        self.traced.forget_others();
        self.refuse_frozen(outputs);
        let local = self.reads_on_the_way.drain(..).flat_map(|(_, pending)| pending);
        let asked = self.forwarding.reads.drain(..).flat_map(|read| read.pending);
        let again: Vec<Pending> = local.chain(asked).collect();
        self.reads.extend(again);
        if leader.is_none() {
            self.forwarding.leaderless_since.get_or_insert(now.instant);
            return;
        }
        let term = self.replica.term();
        outputs.push(Output::Leader { leader, term });
        self.forwarding.leaderless_since = None;
        self.forwarding.has_given_up = false;
        self.forwarding.make_all_due(now.instant);
        self.send_again(now, outputs);
        if self.replica.is_leader() {
            self.take_office(now, outputs);
            // What copies said to the leader before may not be true any more.
            self.announce_soon(now);
            let peers: Vec<NodeId> = self.replica.peers().collect();
            for peer in peers {
                outputs.push(self.to_peer(peer, &PeerMessage::Office));
            }
        } else {
            self.introduce(now, outputs);
        }
        self.flush(now, outputs);
    }

    /// Tells the log that earlier runs of this node watch nothing.
    pub(super) fn introduce(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if !std::mem::replace(&mut self.forwarding.is_introduced, true) {
            let (node, below) = (self.config.node, self.config.incarnation);
            self.append_own(now, CommandAction::EndIncarnations { node, below }, outputs);
        }
    }

    /// Gives the leader what is due again and not applied, and asks about all reads that are not answered.
    fn send_again(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let given_up = self.forwarding.take_given_up(now.instant);
        self.leave_in_doubt(now, given_up, outputs);
        let forwarding = &mut self.forwarding;
        let due = forwarding.take_due(now.instant);
        if self.replica.is_leader() {
            let commands: Vec<_> = due
                .iter()
                .filter_map(|request| forwarding.waiting.get(request))
                .map(|waiting| (waiting.command.clone(), waiting.whose))
                .collect();
            for (command, whose) in &commands {
                self.push(now, command, *whose, outputs);
            }
            return;
        }
        forwarding.due.extend(due);
        if let Some(leader) = self.forwarding.leader {
            let reads = self.forwarding.reads.iter().filter(|read| read.at.is_none());
            let asked: Vec<_> = reads
                .map(|read| self.to_peer(leader, &PeerMessage::Read { number: read.number }))
                .collect();
            outputs.extend(asked);
        }
        self.flush_to_leader(now, outputs);
    }

    /// Gives up, or tries again, what has waited for long enough.
    pub(super) fn forwarding_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let forwarding = &mut self.forwarding;
        let is_over = |since: Instant| since + LEADERLESS_MAX <= now.instant;
        if forwarding.leaderless_since.is_some_and(is_over) {
            forwarding.leaderless_since = None;
            forwarding.has_given_up = true;
            let (leader, term) = (None, self.replica.term());
            outputs.push(Output::Leader { leader, term });
            self.refuse_clients(now, outputs);
        }
        if self.forwarding.again_at.is_some_and(|at| at <= now.instant) {
            self.send_again(now, outputs);
        }
    }

    pub(super) fn to_peer(&self, to: NodeId, message: &PeerMessage) -> Output {
        Output::ToPeer {
            to,
            message: message.encode(self.replica.group()),
        }
    }
}

#[cfg(test)]
mod tests;
