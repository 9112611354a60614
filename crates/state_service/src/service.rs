//! The MQTT-facing side of the state store: requests in, replies and notifications out.
//!
//! A request is a PUBLISH to the invoke topic. It is checked in the order of the contract, becomes a command in
//! the open log entry (or waits for a read barrier), and is answered when it has been decided. Everything that
//! arrives while an entry is on its way to the disk travels in the next one, so the cost of a sync is shared.
//!
//! The service knows nothing of sessions: it takes [`Call`]s and gives back [`Answer`]s and [`Effect`]s, which the
//! node delivers.

mod backups;
mod call;
mod divergence;
mod fitness;
mod forwarding;
mod full_entries;
mod gathering;
mod group_time;
mod output;
mod peers;
mod pending;
pub mod properties;
mod reads;
mod reply;
pub(crate) mod scan_token;
mod snapshots;
mod spread;
mod trace;
mod traced;

use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::fitness::Fitness;
use cluster::replica::record::{self, LogPoint};
use cluster::replica::{self, ReadId, Refusal, Replica, Request as Asking};
use cluster::{Index, Keyspace, NodeId, Term, Write};
use mqtt::now::Now;
use protocol::state_store::{ErrorText, Reply};
use store::{Command, CommandAction, Effect, EntryBuilder, Origin, Quota, ScanLimits, Store, Watcher};

use self::backups::Backups;
pub(crate) use self::call::Asked;
pub use self::call::DialectChoice;
pub use self::call::{Asker, Call, Checked, Refused, Remark, check, check_envelope};
use self::divergence::Divergence;
use self::forwarding::{Forwarding, ReadyRead};
use self::full_entries::{FullEntries, FullEntry};
use self::gathering::Gathering;
use self::group_time::GroupTime;
pub use self::output::Output;
use self::pending::PendingCalls;
pub use self::pending::{Answer, Pending};
use self::reads::Scans;
use self::snapshots::Snapshots;
use self::spread::Spread;
pub use self::trace::RequestTrace;
use self::traced::TracedCommands;
use crate::scan_seal::ScanSeal;
use crate::service::reply::reply_to;

/// How the state store is set up.
#[derive(Debug, Clone)]
pub struct StateStoreConfig {
    /// This node in the log's commands.
    pub node: u64,
    /// This run of the node.
    pub incarnation: u32,
    /// In which form requests are answered.
    pub dialect: DialectChoice,
    /// How many keys and bytes the store may hold.
    pub quota: Quota,
    /// Bytes of one log entry above which the next request opens another one.
    pub entry_bytes_max: usize,
    /// Requests that may wait for their decision; the next one is refused as unavailable.
    pub pending_max: usize,
    /// Bytes of log after which a snapshot is taken.
    pub snapshot_log_bytes: u64,
    /// Bytes of one chunk of a snapshot that goes to another node.
    pub snapshot_chunk_bytes: usize,
    /// How often replicas compare their stores while something changes.
    pub digest_interval: Duration,
    /// Keys looked at and bytes returned by one page of a SCAN.
    pub scan: ScanLimits,
    /// Seals the continuation tokens of SCAN.
    pub scan_seal: ScanSeal,
}

/// One group of the state store as it was recovered.
#[derive(Debug)]
pub struct RecoveredGroup {
    /// As of the snapshot, or empty.
    pub store: Store,
    /// With the log behind it.
    pub replica: Replica,
    /// What [`Replica::new`] wanted done.
    pub started: Vec<replica::Action>,
}

/// One group of the state store on one node: a replica of the log, the store it feeds, and the requests that wait.
#[derive(Debug)]
pub struct StateStoreService {
    config: StateStoreConfig,
    /// How many groups share the keys.
    groups: u32,
    replica: Replica,
    store: Store,
    /// The open entry: what came since the last one was proposed.
    entry: Option<EntryBuilder>,
    /// How many commands are in it.
    entry_commands: usize,
    /// Full entries, which wait until there is room for them among those that are not applied.
    full: FullEntries,
    gathering: Gathering,
    time: GroupTime,
    /// A request of the open entry asks for the disk, whatever the server's durability is.
    entry_needs_disk: bool,
    /// The same of the entry that was proposed and not yet handed to the disk.
    persist_needs_disk: bool,
    pending: PendingCalls,
    reads: Vec<Pending>,
    scans: Scans,
    reads_on_the_way: Vec<(ReadId, Vec<Pending>)>,
    next_read: u64,
    forwarding: Forwarding,
    spread: Spread,
    fitness: Fitness,
    /// An entry was proposed and is not applied yet.
    proposing: bool,
    expiring: bool,
    snapshotting: bool,
    /// After one that could not be written, the next one is tried when the log is this long.
    snapshot_again_at: u64,
    /// Nothing that needs more memory is taken.
    is_memory_full: bool,
    /// Behind which entry the store is.
    applied: Index,
    snapshots: Snapshots,
    divergence: Divergence,
    backups: Backups,
    traced: TracedCommands,
    replica_actions: Vec<replica::Action>,
    is_draining: bool,
    effects: Vec<Effect>,
}

/// For whom a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// For the node itself.
    Own,
    Client {
        needs_disk: bool,
    },
}

impl Whose {
    fn needs_disk(self) -> bool {
        self == Self::Client { needs_disk: true }
    }
}

/// Keys one command deletes because their time is over; the next ones follow in the next command.
const EXPIRED_KEYS_MAX: usize = 1024;

/// As many keys are walked in the time in which it is decided whether a client may read one.
const DECIDED_KEY: usize = 4;

/// The part of the log that makes a snapshot due while memory is full: not less, since a snapshot is work for as many bytes as
/// the store has.
const LOG_WHEN_FULL: u64 = 4;

impl StateStoreService {
    /// Takes over a recovered store and its replica, one group of so many.
    pub(crate) fn new(config: StateStoreConfig, groups: u32, recovered: RecoveredGroup) -> Self {
        let RecoveredGroup {
            store,
            replica,
            started,
        } = recovered;
        Self {
            config,
            groups,
            applied: replica.applied().index,
            replica,
            store,
            entry: None,
            entry_commands: 0,
            full: FullEntries::default(),
            gathering: Gathering::default(),
            time: GroupTime::default(),
            entry_needs_disk: false,
            persist_needs_disk: false,
            pending: PendingCalls::default(),
            reads: Vec::new(),
            reads_on_the_way: Vec::new(),
            scans: Scans::default(),
            next_read: 0,
            forwarding: Forwarding::default(),
            spread: Spread::default(),
            fitness: Fitness::default(),
            proposing: false,
            expiring: false,
            snapshotting: false,
            snapshot_again_at: 0,
            is_memory_full: false,
            snapshots: Snapshots::default(),
            divergence: Divergence::default(),
            backups: Backups::default(),
            traced: TracedCommands::default(),
            replica_actions: started,
            is_draining: false,
            effects: Vec::new(),
        }
    }

    /// Takes a checked request. Its answer comes as an [`Output::Answer`], perhaps at once.
    pub fn call(&mut self, now: Now, call: Call, outputs: &mut Vec<Output>) {
        let Call { asked, mut pending } = call;
        if let Some(trace) = &mut pending.trace {
            trace.group = Some(self.replica.group());
        }
        let is_full = self.pending_len() >= self.config.pending_max;
        if is_full || !self.takes_calls() {
            outputs.push(Output::Answer(pending.answer(
                now,
                &Reply::Error(ErrorText::Unavailable),
                None,
            )));
            return;
        }
        match asked {
            Asked::Read => self.reads.push(pending),
            // Before it is proposed, so that replicas need not agree about memory. What was, or is being, executed is not refused
            // when it is sent again.
            Asked::Write(action)
                if self.is_memory_full
                    && self.would_grow(now, &action)
                    && !self.pending.contains(&pending) =>
            {
                let reply = Reply::Error(ErrorText::QuotaExceeded);
                outputs.push(Output::Answer(pending.answer(now, &reply, None).forgotten()));
            }
            Asked::Write(action) => {
                let needs_disk = pending.needs_disk;
                let is_traced = pending.trace.is_some();
                let request = self.pending.push(pending);
                if is_traced {
                    self.traced.begin(request);
                }
                self.append(now, request, action, Whose::Client { needs_disk }, outputs);
            }
        }
    }

    /// From now on nothing is taken that needs more memory, or it is again.
    pub(crate) fn note_memory(&mut self, is_full: bool) {
        self.is_memory_full = is_full;
    }

    /// Forgets what a connection watched.
    pub fn connection_ended(&mut self, now: Now, connection: u64, outputs: &mut Vec<Output>) {
        let watcher = self.watcher(connection);
        self.append_own(now, CommandAction::EndWatches { watcher }, outputs);
    }

    /// Changes who takes part in the group.
    pub fn change_members(
        &mut self,
        now: Now,
        changes: Vec<replica::MemberChange>,
        outputs: &mut Vec<Output>,
    ) {
        self.replica_step(now, replica::Event::ChangeMembers { changes }, outputs);
    }

    /// A node is gone for good: if this one leads, it ends what is watched there.
    pub fn end_watches_of(&mut self, now: Now, node: NodeId, outputs: &mut Vec<Output>) {
        if self.replica.is_leader() && self.store.has_watches_of(node.0) {
            let action = CommandAction::EndIncarnations {
                node: node.0,
                below: u32::MAX,
            };
            self.append_own(now, action, outputs);
        }
    }

    /// Which keys a connection watches.
    pub(crate) fn watched_keys(&self, connection: u64) -> Vec<Bytes> {
        self.store.watched_by(self.watcher(connection))
    }

    /// A connection watches a key no more.
    pub fn end_watch(&mut self, now: Now, connection: u64, key: Bytes, outputs: &mut Vec<Output>) {
        let watcher = self.watcher(connection);
        let action = CommandAction::Unwatch {
            key,
            watcher,
            retry: None,
        };
        self.append_own(now, action, outputs);
    }

    /// Who a connection is in the log.
    pub(crate) fn watcher(&self, connection: u64) -> Watcher {
        Watcher {
            node: self.config.node,
            incarnation: self.config.incarnation,
            connection,
        }
    }

    /// Sends out what was collected: the open entry if none is on its way, and one barrier for all reads.
    pub fn flush(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.scans.next_turn();
        if !self.replica.is_leader() && !self.replica.is_alone() {
            self.flush_to_leader(now, outputs);
            return self.drain(now, outputs);
        }
        if !self.reads.is_empty() {
            let read = self.new_read();
            let mut reads = std::mem::take(&mut self.reads);
            traced::ask(now, &mut reads);
            self.reads_on_the_way.push((read, reads));
            self.replica_step(now, replica::Event::Read { read }, outputs);
        }
        if !self.proposing && (!self.full.is_empty() || self.has_gathered(now)) {
            self.propose(now, outputs);
        }
        if self.replica.has_news() {
            self.replica_step(now, replica::Event::Flush, outputs);
        }
        self.drain(now, outputs);
    }

    /// Whether the open entry is to be proposed now. Who is alone has nobody for whom a larger entry is cheaper.
    fn has_gathered(&mut self, now: Now) -> bool {
        self.replica.is_alone() || self.entry.is_some() && self.gathering.is_over(now, self.entry_commands)
    }

    fn new_read(&mut self) -> ReadId {
        let read = ReadId(self.next_read);
        self.next_read += 1;
        read
    }

    /// The replica's writes are durable.
    pub fn persisted(&mut self, now: Now, ticket: replica::Ticket, outputs: &mut Vec<Output>) {
        self.traced
            .each(&mut self.pending, |marks| marks.sync(now.instant, ticket));
        self.replica_step(now, replica::Event::Persisted { ticket }, outputs);
    }

    /// The snapshot of `index` is on disk.
    pub fn snapshot_written(&mut self, now: Now, index: Index, term: Term, outputs: &mut Vec<Output>) {
        self.snapshotting = false;
        self.snapshot_again_at = 0;
        if !self.received_written(now, LogPoint { index, term }, outputs) {
            self.replica_step(now, replica::Event::SnapshotTaken { index, term }, outputs);
        }
    }

    /// The snapshot could not be written; the next one may.
    pub fn snapshot_failed(&mut self, outputs: &mut Vec<Output>) {
        self.snapshotting = false;
        // A disk that is full now is full with the next entry, too.
        self.snapshot_again_at = self.replica.log_bytes() + self.config.snapshot_log_bytes / 4;
        self.received_failed(outputs);
    }

    /// Does what is due: elections, and keys whose time is over.
    pub fn timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.answer_scans(now, outputs);
        if self
            .replica
            .deadline()
            .is_some_and(|deadline| deadline <= now.instant)
        {
            self.replica_step(now, replica::Event::Timeout, outputs);
        }
        self.spread_timeout(now, outputs);
        self.fitness_timeout(now, outputs);
        self.forwarding_timeout(now, outputs);
        self.snapshots_timeout(now, outputs);
        self.divergence_timeout(now, outputs);
        self.time_timeout(now, outputs);
        let time = self.time(now);
        let is_due = self.store.next_expiry().is_some_and(|due| due <= time);
        if is_due && !self.expiring && self.replica.is_leader() {
            let keys = self.store.expired(time, EXPIRED_KEYS_MAX);
            self.expiring = true;
            self.append_own(now, CommandAction::Expire { keys }, outputs);
            if !self.proposing {
                self.propose(now, outputs);
            }
        }
    }

    /// When [`StateStoreService::timeout`] must be called next.
    pub(crate) fn deadline(&self, now: Now) -> Option<Instant> {
        let expiry = self
            .store
            .next_expiry()
            .filter(|_| !self.expiring && self.replica.is_leader())
            .and_then(|due| self.instant_of(due));
        let deadlines = [
            self.replica.deadline(),
            self.forwarding.deadline(),
            self.snapshots_deadline(),
            self.divergence_deadline(now),
            self.spread_deadline(),
            self.fitness_deadline(now),
            // Behind full entries the open one waits for an entry to be applied, and not for a moment.
            self.gathering
                .deadline()
                .filter(|_| self.entry.is_some() && self.full.is_empty()),
            self.time_deadline(),
            self.scans.deadline(),
            expiry,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// In which form requests are answered.
    pub(crate) fn dialect(&self) -> DialectChoice {
        self.config.dialect
    }

    /// Seals the continuation tokens of SCAN.
    pub(crate) fn scan_seal(&self) -> &ScanSeal {
        &self.config.scan_seal
    }

    /// The replica, for figures.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The store, for figures.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The store, to be damaged.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// What SCANs have walked since the start.
    pub fn scan_steps(&self) -> u64 {
        self.scans.walked()
    }

    /// Whether requests are served.
    pub(crate) fn is_available(&self) -> bool {
        !self.is_stateless() && self.known_leader().is_some()
    }

    /// The leader, as far as this node knows.
    pub fn known_leader(&self) -> Option<NodeId> {
        if self.replica.is_leader() {
            return Some(NodeId(self.config.node));
        }
        self.forwarding.leader
    }

    /// How many requests wait for their decision.
    pub(crate) fn pending_len(&self) -> usize {
        let on_the_way = self.reads_on_the_way.iter().map(|(_, reads)| reads.len());
        let reads =
            self.reads.len() + on_the_way.sum::<usize>() + self.forwarding.reads_len() + self.scans.len();
        self.pending.len() + reads
    }

    /// Bytes of log entries that are not proposed, and of places for requests.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let entry = self.entry.as_ref().map_or(0, EntryBuilder::len_bytes);
        (entry + self.full.bytes()) as u64 + self.pending.spare()
    }

    /// Whether a command would add to the store's bytes.
    fn would_grow(&self, now: Now, action: &CommandAction) -> bool {
        let CommandAction::Set {
            key, value, retry, ..
        } = action
        else {
            return false;
        };
        if retry.as_ref().is_some_and(|retry| self.store.remembers(retry)) {
            return false;
        }
        let found = self.store.get(key, self.time(now));
        found.is_none_or(|found| found.value.len() < value.len())
    }

    fn append_own(&mut self, now: Now, action: CommandAction, outputs: &mut Vec<Output>) {
        let request = self.pending.push_own();
        self.append(now, request, action, Whose::Own, outputs);
    }

    /// Gives a command to the log, if need be by way of the leader.
    fn append(
        &mut self,
        now: Now,
        request: u64,
        mut action: CommandAction,
        whose: Whose,
        outputs: &mut Vec<Output>,
    ) {
        let is_alone = self.replica.is_alone();
        if !is_alone {
            Self::remember_for_long(&mut action);
        }
        let origin = Origin {
            node: self.config.node,
            incarnation: self.config.incarnation,
            request,
        };
        let command = Command { origin, action };
        if self.replica.is_leader() || is_alone {
            self.push(now, &command, whose, outputs);
        }
        if !is_alone {
            self.forwarding.keep(now, request, command, whose);
        }
    }

    /// Adds a command to the open entry. If too much waits, it is left out: the node that keeps it gives it again.
    fn push(&mut self, now: Now, command: &Command, whose: Whose, outputs: &mut Vec<Output>) {
        if self.full.is_at_limit() && !self.replica.is_alone() {
            return;
        }
        self.entry_needs_disk |= whose.needs_disk();
        let entry = self.entry.get_or_insert_default();
        entry.push(command);
        self.entry_commands += 1;
        if entry.len_bytes() >= self.config.entry_bytes_max {
            self.close_entry();
            self.propose(now, outputs);
        }
    }

    /// Puts the open entry behind the full ones.
    fn close_entry(&mut self) {
        let needs_disk = std::mem::take(&mut self.entry_needs_disk);
        let commands = std::mem::take(&mut self.entry_commands);
        if let Some(builder) = self.entry.take() {
            self.full.push(FullEntry {
                builder,
                commands,
                needs_disk,
            });
        }
    }

    /// Proposes the full entries, then the open one, as far as there is room.
    fn propose(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.replica.is_handing_over() || !self.time.is_known() {
            // It is decided by the next leader, or here if nothing comes of that; or when it is known what time it is.
            return;
        }
        self.propose_full(now, outputs);
        if self.full.is_empty() {
            self.close_entry();
            self.propose_full(now, outputs);
        }
    }

    /// Proposes the full entries for which there is room. In a group of one nobody gives a command again: all are proposed there, and
    /// what is too much is refused.
    fn propose_full(&mut self, now: Now, outputs: &mut Vec<Output>) {
        while let Some(bytes) = self.full.first_bytes()
            && (self.replica.is_alone() || self.replica.has_room_for(bytes))
            && let Some(entry) = self.full.pop()
        {
            self.propose_entry(now, entry, outputs);
        }
    }

    fn propose_entry(&mut self, now: Now, entry: FullEntry, outputs: &mut Vec<Output>) {
        let FullEntry {
            mut builder,
            commands,
            needs_disk,
        } = entry;
        self.proposing = true;
        self.traced
            .each(&mut self.pending, |marks| marks.propose(now.instant));
        self.gathering.proposed(now, commands);
        if needs_disk {
            self.persist_needs_disk = true;
            if !self.replica.is_alone() {
                builder.ask_for_disk();
            }
        }
        let data = builder.finish(self.stamp(now));
        self.replica_step(now, replica::Event::Propose { data }, outputs);
    }

    /// Carries out what the replica wanted at its start: it may have applied entries that the store has not.
    pub fn start(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.begin_time(now, outputs);
        if self.is_stateless() {
            outputs.push(Output::Fetches);
        }
        self.drain(now, outputs);
    }

    fn replica_step(&mut self, now: Now, event: replica::Event, outputs: &mut Vec<Output>) {
        self.replica.step(now.instant, event, &mut self.replica_actions);
        self.drain(now, outputs);
    }

    /// Carries out what the replica decided.
    fn drain(&mut self, now: Now, outputs: &mut Vec<Output>) {
        // What an action leads to comes after the actions that are there already.
        if std::mem::replace(&mut self.is_draining, true) {
            return;
        }
        while !self.replica_actions.is_empty() {
            let mut actions = std::mem::take(&mut self.replica_actions);
            for action in actions.drain(..) {
                match action {
                    replica::Action::Persist { ticket, writes } => {
                        let needs_disk =
                            std::mem::take(&mut self.persist_needs_disk) || writes.iter().any(asks_for_disk);
                        self.traced
                            .each(&mut self.pending, |marks| marks.give_to_disk(ticket));
                        outputs.push(Output::Persist(ticket, writes, needs_disk));
                    }
                    replica::Action::Apply { index, term, data } => {
                        self.apply(now, index, term, data, outputs);
                    }
                    replica::Action::ReadReady { read, index } => {
                        self.read_ready(now, ReadyRead { read, index }, outputs);
                    }
                    replica::Action::Refused { request, refusal } => {
                        self.refused(now, &request, refusal, outputs);
                    }
                    replica::Action::Leadership { leader, .. } => self.leadership(now, leader, outputs),
                    replica::Action::Send { to, message } => {
                        outputs.push(Output::ToPeer { to, message });
                    }
                    // Who takes part must not be forgotten, even where votes may be.
                    replica::Action::Members { .. } => self.persist_needs_disk = true,
                    replica::Action::OfferSnapshot { to } => self.is_behind(to),
                    replica::Action::KeepSnapshot { .. } => self.keep_snapshot(outputs),
                    replica::Action::Restored { index, term } => self.restored(now, index, term, outputs),
                    replica::Action::SnapshotUnneeded { index } => self.unneeded(index, outputs),
                    replica::Action::Missing { node, missing } => {
                        outputs.push(Output::Missing { node, missing });
                    }
                    replica::Action::Dropped { from, error } => outputs.push(Output::Dropped { from, error }),
                }
            }
            if self.replica_actions.is_empty() {
                self.replica_actions = actions;
            }
        }
        self.is_draining = false;
        self.compare(now, None, outputs);
        self.answer_asked(now, outputs);
        self.offer_snapshots(now, outputs);
        self.take_place(now, outputs);
    }

    /// The replica did not take something. What is decided elsewhere will be; a group of one has no elsewhere.
    fn refused(&mut self, now: Now, request: &Asking, refusal: Refusal, outputs: &mut Vec<Output>) {
        if matches!(request, Asking::Read { .. }) {
            self.refuse_frozen(outputs);
        }
        match (request, refusal) {
            (Asking::Transfer { .. }, _) => {}
            (Asking::Read { read }, _) if !self.replica.is_alone() => self.read_refused(*read),
            (Asking::Propose { .. }, Refusal::NotLeader { .. }) if !self.replica.is_alone() => {
                self.proposing = false;
            }
            (Asking::ChangeMembers { .. }, _) => {}
            _ => self.refuse_all(now, outputs),
        }
    }

    /// What a new leader says first: the quota that holds, and that earlier runs of this node watch nothing.
    fn take_office(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.introduce(now, outputs);
        if self.store.quota() != self.config.quota {
            self.append_own(
                now,
                CommandAction::Configure {
                    quota: self.config.quota,
                },
                outputs,
            );
        }
        self.propose(now, outputs);
    }

    fn apply(&mut self, now: Now, index: Index, term: Term, data: Bytes, outputs: &mut Vec<Output>) {
        self.compare(now, Some(index), outputs);
        self.applied = index;
        if !data.is_empty() {
            // What is in the log was written by this code and passed its checksum.
            let entry = store::decode_entry(data).expect("a committed entry can be read");
            // Also of a store that is not served from: while its replica leads on, entries are stamped with its clock.
            self.store.begin(entry.stamp);
            self.time_of_entry(now, term, entry.stamp);
            // The next entry is proposed when the turn ends, with everything that came in it.
            self.proposing = false;
            self.gathering.decided(now, self.entry_commands);
            if self.is_stateless() {
                return self.pass_over(now, &entry.commands, outputs);
            }
            for command in entry.commands {
                self.apply_command(now, command, outputs);
            }
        }
        self.snapshot_if_due(index, term, outputs);
        if self.replica.is_leader() && !self.replica.is_alone() {
            self.announce_soon(now);
        }
    }

    /// There is no store to apply this to. What this node itself wanted is done all the same; what became of a client's request
    /// is not known here, and a retry of it is answered truthfully.
    fn pass_over(&mut self, now: Now, commands: &[Command], outputs: &mut Vec<Output>) {
        let (node, incarnation) = (self.config.node, self.config.incarnation);
        let is_own =
            |command: &&Command| (command.origin.node, command.origin.incarnation) == (node, incarnation);
        for command in commands.iter().filter(is_own) {
            self.forwarding.applied(command.origin.request);
            self.put_back_ended(command.origin.request, None, outputs);
            if let Some(pending) = self.pending.take(command.origin.request) {
                let reply = Reply::Error(ErrorText::Unavailable);
                outputs.push(Output::Answer(pending.answer(now, &reply, None)));
            }
        }
    }

    fn apply_command(&mut self, now: Now, command: Command, outputs: &mut Vec<Output>) {
        let Origin {
            node,
            incarnation,
            request,
        } = command.origin;
        let command_origin = command.origin;
        if matches!(command.action, CommandAction::Expire { .. }) {
            self.expiring = false;
        }
        let outcome = self.store.apply(command, &mut self.effects);
        self.end_traced(now, command_origin, outputs);
        let (own, run) = (self.config.node, self.config.incarnation);
        let is_here = |effect: &Effect| {
            let Effect::Changed { watcher, .. } = effect;
            watcher.node == own && watcher.incarnation == run
        };
        let effects = self.effects.drain(..).filter(is_here);
        outputs.extend(effects.map(Output::Effect));
        if node != own || incarnation != run {
            return;
        }
        self.forwarding.applied(request);
        self.put_back_ended(request, Some(outcome), outputs);
        if let Some(pending) = self.pending.take(request) {
            if pending.read.is_some() {
                return self.answer_read(now, pending, outputs);
            }
            let (reply, version) = reply_to(outcome);
            outputs.push(Output::Answer(pending.answer(now, &reply, version)));
        }
    }

    fn snapshot_if_due(&mut self, index: Index, term: Term, outputs: &mut Vec<Output>) {
        // A snapshot as large as the store pays off only after as many bytes of log.
        let due = self.config.snapshot_log_bytes.max(self.store.usage().bytes);
        // While memory is full, what the log holds for other nodes has to go.
        let due = if self.is_memory_full {
            due / LOG_WHEN_FULL
        } else {
            due
        };
        let due = due.max(self.snapshot_again_at);
        if !self.snapshotting && self.replica.log_bytes() >= due {
            self.snapshotting = true;
            self.own_snapshot(index);
            outputs.push(Output::Snapshot {
                index,
                term,
                image: self.store.image(),
            });
        }
    }

    /// Nobody can decide: everything that waits is refused. Its fate is unknown, a retry is answered truthfully.
    fn refuse_all(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.proposing = false;
        self.expiring = false;
        self.refuse_frozen(outputs);
        self.refuse_put_back(outputs);
        let reads = self
            .reads_on_the_way
            .drain(..)
            .flat_map(|(_, reads)| reads)
            .chain(self.reads.drain(..));
        for pending in self.pending.drain().chain(reads) {
            outputs.push(Output::Answer(pending.answer(
                now,
                &Reply::Error(ErrorText::Unavailable),
                None,
            )));
        }
    }
}

/// Whether a write of a log is of an entry that has to reach the disk on all replicas that take it.
fn asks_for_disk(write: &Write) -> bool {
    match write {
        Write::Put {
            keyspace: Keyspace::Log,
            value,
            ..
        } => store::asks_for_disk(record::data_of_entry(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
