//! Runs the node: feeds it what happens and carries out what it says.
//!
//! Everything here lives on one thread. Socket tasks call [`Driver::step`] with each packet; the turn ends when the
//! tasks that were ready have run: then the node is flushed (one log entry, one batch of records for everything that
//! came in the turn), and each socket that got something is written to once.

mod api;
mod conditions;
mod reading;
mod rolled_back;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Action, ClusterAnswer, CopyNews, Event, Node, OutgoingPublish, Report, SlowOperation};
use bytes::BytesMut;
use cluster::NodeId;
use cluster::forming::Founder;
use cluster::replica::record::LogPoint;
use mqtt::authentication::{Answer, Question};
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use mqtt::policies::Policies;
use mqtt::traces::Span;
use protocol::packet::Decoder;
use protocol::{Packet, ReasonCode};
use rustls::pki_types::CertificateDer;
use tokio::sync::{Notify, mpsc, watch};

use crate::admin::api::{Answered as ApiAnswered, Said, ServedAt};
use crate::admin::{AdminRequest, ClusterAnswered};
use crate::audit::Audit;
use crate::authentication::{Answered, Asked, AuthenticationThread};
use crate::clock::{self, Clock};
use crate::condition::Condition;
use crate::disk_thread::{Batch, DiskEvent, DiskThread};
use crate::encoding::Encoder;
use crate::ends::Ends;
use crate::error::RunError;
use crate::listener::Origin;
use crate::observed::Observed;
use crate::peers::{PeerEvent, Peers};
use crate::questions::Questions;
use crate::read_blocks::ReadBlocks;
use crate::read_budget::ReadBudget;
use crate::reporting::{self, Place};
use crate::snapshot_thread::{SnapshotEvent, SnapshotThread};
use crate::socket::{Socket, WORK_AT_LEAST, WORK_AT_ONCE_MAX, Written};
use crate::sockets::Sockets;
use crate::standing::Standing;
use crate::strangers::Strangers;
use crate::traces::Traces;
use storage::Fault;

/// The node and the sockets it talks through.
#[derive(Debug)]
pub(crate) struct Driver {
    node: RefCell<Node>,
    sockets: RefCell<Sockets>,
    actions: RefCell<Vec<Action>>,
    /// Sockets with something to write.
    dirty: RefCell<Vec<Rc<Socket>>>,
    /// Memory for packets on their way out.
    spare: RefCell<Vec<BytesMut>>,
    encoder: RefCell<Encoder>,
    /// Where all sockets read to, in turn.
    pub(crate) read_blocks: RefCell<ReadBlocks>,
    /// Memory for packets that have not arrived whole.
    read_budget: RefCell<ReadBudget>,
    /// The sum over all sockets of what they take beside that.
    overheads: Cell<usize>,
    /// Handshakes that are under way.
    handshakes: Cell<usize>,
    /// Bytes of changes that the engine has not moved to tables, as it said last.
    engine_held: Cell<u64>,
    disk: DiskThread,
    /// What the present turn wants written, of all groups and of the node itself: one batch.
    writes: RefCell<Option<Batch>>,
    snapshots: SnapshotThread,
    /// There is one if any listener asks who clients are.
    authentication: Option<AuthenticationThread>,
    /// The other nodes, if it is one of a cluster.
    peers: Option<Peers>,
    /// Where spans go, if anything is traced.
    traces: Option<Traces>,
    settings: DriverSettings,
    audit: Audit,
    /// Figures that only the edge can see.
    pub(crate) observed: RefCell<Observed>,
    cluster_questions: RefCell<Questions<ClusterAnswered>>,
    administrations: RefCell<Questions<ApiAnswered>>,
    /// Where clients are served, to be shown.
    listeners: RefCell<Vec<ServedAt>>,
    /// Time since which the node is in its state of the session plane, in Unix milliseconds, to be shown.
    state_since: Cell<u64>,
    /// Waiting places of all ports, to be shown.
    pools: Vec<Strangers>,
    clock: Rc<Clock>,
    /// When the present turn's first event came: all its events are of the same moment.
    turn_began: Cell<Option<Now>>,
    turn_ends: Notify,
    /// What sockets' tasks have done in the present turn, in units of about a microsecond.
    turn_work: Cell<u64>,
    ends: Ends,
    /// Bytes that wait to be written to all sockets.
    waiting: Cell<usize>,
    /// What the node was told: bytes that wait, the memory of reading, and that of the engine.
    told: Cell<(usize, usize, u64)>,
}

/// What the driver must know of the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriverSettings {
    pub(crate) node: NodeId,
    pub(crate) packet_size_max: u32,
    pub(crate) filters_per_packet_max: usize,
    pub(crate) connect_packet_size_max: u32,
    /// `limits.memory_max` in bytes.
    pub(crate) memory_max: u64,
    pub(crate) outbound_bytes_max: usize,
}

impl DriverSettings {
    /// Memory that the engine may take beside its changes: its cache, and a table that is being written, of 8 MiB each.
    fn engine_reserve(&self) -> u64 {
        (self.memory_max / ENGINE_RESERVE_PART).min(ENGINE_RESERVE_MAX)
    }
}

/// The part of `limits.memory_max` that counts for it, and what counts at most.
const ENGINE_RESERVE_PART: u64 = 16;
const ENGINE_RESERVE_MAX: u64 = 16 << 20;

/// What the driver waits for besides sockets.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) disk: mpsc::Receiver<DiskEvent>,
    pub(crate) snapshots: mpsc::Receiver<SnapshotEvent>,
    pub(crate) admin: mpsc::Receiver<AdminRequest>,
    pub(crate) answers: mpsc::Receiver<Answered>,
    pub(crate) policies: watch::Receiver<Policies>,
    pub(crate) peers: mpsc::Receiver<PeerEvent>,
}

/// What the driver works with besides the node and its disk.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) authentication: Option<AuthenticationThread>,
    pub(crate) peers: Option<Peers>,
    pub(crate) traces: Option<Traces>,
    pub(crate) clock: Rc<Clock>,
    pub(crate) settings: DriverSettings,
    /// Places of strangers, to be shown.
    pub(crate) pools: Vec<Strangers>,
}

impl Driver {
    pub(crate) fn new(node: Node, disk: DiskThread, snapshots: SnapshotThread, edge: Edge) -> Self {
        let Edge {
            authentication,
            peers,
            traces,
            clock,
            settings,
            pools,
        } = edge;
        Self {
            node: RefCell::new(node),
            sockets: RefCell::default(),
            actions: RefCell::default(),
            dirty: RefCell::default(),
            spare: RefCell::default(),
            encoder: RefCell::default(),
            read_blocks: RefCell::default(),
            read_budget: RefCell::new(ReadBudget::new(
                settings.memory_max,
                settings.packet_size_max,
                settings.connect_packet_size_max,
            )),
            overheads: Cell::default(),
            handshakes: Cell::default(),
            engine_held: Cell::new(settings.engine_reserve()),
            disk,
            writes: RefCell::default(),
            snapshots,
            authentication,
            peers,
            traces,
            settings,
            audit: Audit::of_thread(),
            observed: RefCell::default(),
            cluster_questions: RefCell::default(),
            administrations: RefCell::default(),
            listeners: RefCell::default(),
            state_since: Cell::new(clock::wall()),
            pools,
            clock,
            turn_began: Cell::default(),
            turn_ends: Notify::new(),
            turn_work: Cell::default(),
            ends: Ends::new(),
            waiting: Cell::default(),
            told: Cell::default(),
        }
    }

    /// Gives the node an event, and carries out what it says.
    pub(crate) fn step(&self, event: Event) {
        self.step_quietly(event);
        self.turn_ends.notify_one();
    }

    fn step_quietly(&self, event: Event) {
        let mut actions = self.actions.take();
        self.node.borrow_mut().step(self.now(), event, &mut actions);
        for action in actions.drain(..) {
            self.execute(action);
        }
        self.actions.replace(actions);
    }

    /// Carries out what the node wanted done when it was made.
    pub(crate) fn execute_all(&self, actions: Vec<Action>) {
        for action in actions {
            self.execute(action);
        }
    }

    /// Ends turns until the state store can serve: what is in the log has been applied.
    pub(crate) async fn run_until_available(self: &Rc<Self>, inputs: &mut Inputs) -> Result<(), Fault> {
        self.end_turn()?;
        while !self.is_available() {
            self.turn(inputs).await?;
        }
        Ok(())
    }

    /// Ends turns until the disk fails.
    pub(crate) async fn run(self: &Rc<Self>, inputs: &mut Inputs) -> Fault {
        loop {
            if let Err(fault) = self.turn(inputs).await {
                return fault;
            }
        }
    }

    /// Waits for something to happen, and ends one turn.
    pub(crate) async fn turn(self: &Rc<Self>, inputs: &mut Inputs) -> Result<(), Fault> {
        let deadline = self.deadline();
        if deadline.is_some_and(|deadline| deadline <= clock::instant()) {
            // There was more than one turn is for: sockets come first.
            tokio::task::yield_now().await;
        }
        let reading_late = self.read_budget.borrow().deadline();
        tokio::select! {
            biased;
            Some(event) = inputs.disk.recv() => self.disk_event(event)?,
            () = self.turn_ends.notified() => {}
            Some(answered) = inputs.answers.recv() => self.authenticated(answered, &mut inputs.answers),
            Ok(()) = inputs.policies.changed() => {
                let policies = inputs.policies.borrow_and_update().clone();
                self.step_quietly(Event::Policies(policies));
            }
            Some(event) = inputs.peers.recv() => self.peer_event(event, &mut inputs.peers),
            () = links_changed(self.peers.as_ref()) => {}
            Some(event) = inputs.snapshots.recv() => self.snapshot_event(event),
            Some(request) = inputs.admin.recv() => self.admin_request(request),
            () = until(deadline) => {}
            () = until(reading_late) => self.end_overruns(),
        }
        while let Ok(event) = inputs.disk.try_recv() {
            self.disk_event(event)?;
        }
        self.hear_others(inputs);
        // While there is always something else to do, time passes all the same.
        if deadline.is_some_and(|deadline| deadline <= self.now().instant) {
            self.step_quietly(Event::Timeout);
        }
        self.end_turn()?;
        self.stop_timing();
        self.ends.next_turn();
        Ok(())
    }

    /// Takes what others have said: while clients always have something, it would not be heard otherwise.
    fn hear_others(&self, inputs: &mut Inputs) {
        if let Ok(answered) = inputs.answers.try_recv() {
            self.authenticated(answered, &mut inputs.answers);
        }
        if let Ok(event) = inputs.peers.try_recv() {
            self.peer_event(event, &mut inputs.peers);
        }
        if let Some(reached) = self.peers.as_ref().and_then(Peers::take_links) {
            self.step_quietly(Event::Links { reached });
        }
        if let Ok(event) = inputs.snapshots.try_recv() {
            self.snapshot_event(event);
        }
        if let Ok(request) = inputs.admin.try_recv() {
            self.admin_request(request);
        }
    }

    /// Sends out what the turn has collected, and writes what the disk's thread leaves to this one.
    fn end_turn(self: &Rc<Self>) -> Result<(), Fault> {
        let Some(batch) = self.flush(DiskThread::persist) else {
            return Ok(());
        };
        self.stop_timing();
        let event = self.disk.write(batch);
        self.disk_event(event)?;
        // What follows from that is left to the thread: this one has stood still for long enough.
        self.flush(|disk, batch| {
            disk.hand_over(batch);
            None
        });
        Ok(())
    }

    /// What comes next is of another moment; what was until now has taken its time.
    fn stop_timing(&self) {
        if let Some(began) = self.turn_began.take() {
            let now = clock::instant();
            self.observed.borrow_mut().slow.turn(now, now - began.instant);
        }
    }

    /// Everybody is told before anything is written here. Gives back what is left to be written.
    fn flush(self: &Rc<Self>, persist: impl FnOnce(&DiskThread, Batch) -> Option<Batch>) -> Option<Batch> {
        self.encoder.borrow_mut().forget();
        self.turn_work.set(0);
        self.read_blocks.borrow_mut().sweep();
        self.tell_buffered();
        self.step_quietly(Event::Flush);
        // After a fault the thread takes nothing; its event stops the node.
        let left = self.writes.take().and_then(|mut batch| {
            let starts = self.peers.iter().flat_map(Peers::starts_to_write);
            batch.writes.extend(starts);
            persist(&self.disk, batch)
        });
        if let Some(peers) = &self.peers {
            peers.flush();
        }
        self.write_dirty();
        left
    }

    fn write_dirty(self: &Rc<Self>) {
        loop {
            let mut dirty = self.dirty.take();
            if dirty.is_empty() {
                self.dirty.replace(dirty);
                return;
            }
            for socket in dirty.drain(..) {
                socket.is_dirty.set(false);
                match self.write(&socket) {
                    Written::All => {}
                    Written::Blocked => socket.leave_to_task(),
                    Written::Failed => {
                        socket.is_closing.set(true);
                        socket.changed.notify_one();
                    }
                }
            }
            if self.dirty.borrow().is_empty() {
                self.dirty.replace(dirty);
            }
        }
    }

    /// Writes to a socket; tells the node if it asked for that.
    pub(crate) fn write(&self, socket: &Socket) -> Written {
        let (waited, was_behind) = (socket.waiting(), self.is_behind(socket));
        let written = socket.write(&mut self.spare.borrow_mut());
        let waiting = socket.waiting();
        self.observed.borrow_mut().bytes_sent += (waited - waiting) as u64;
        self.count_waiting(socket, waiting);
        if was_behind && !self.is_behind(socket) {
            // Its task may have looked before this, and wait to be told that it can read on.
            socket.changed.notify_one();
        }
        if written == Written::All && socket.reports_drained.replace(false) {
            self.step(Event::Drained {
                connection: socket.id,
            });
        }
        written
    }

    /// False while nothing should be read from the socket.
    pub(crate) fn may_read(&self, socket: &Socket) -> bool {
        self.node.borrow().is_reading(socket.id) && !self.is_behind(socket)
    }

    /// Whether its client has to take something before more is read from it.
    pub(crate) fn is_behind(&self, socket: &Socket) -> bool {
        socket.is_behind(self.settings.outbound_bytes_max)
    }

    /// Which node it drives.
    pub(crate) fn node_id(&self) -> NodeId {
        self.settings.node
    }

    /// The wall clock, in milliseconds since the Unix epoch.
    pub(crate) fn wall(&self) -> u64 {
        self.clock.now().wall
    }

    /// For what a client sends that has not been let in.
    pub(crate) fn decoder(&self) -> Decoder {
        let decoder = Decoder::for_server(self.settings.connect_packet_size_max);
        decoder.with_filters_max(self.settings.filters_per_packet_max)
    }

    /// A packet from a client. Returns how much work it was, in units of about a microsecond.
    pub(crate) fn received(&self, connection: ConnectionId, packet: Packet) -> u64 {
        self.step(Event::Received { connection, packet });
        let work = self.node.borrow_mut().take_work();
        self.turn_work.set(self.turn_work.get() + work);
        work
    }

    /// How much a task may still do before others have their turn. What all of them do in a turn is bounded as long as few are
    /// busy; each has a little in any case.
    pub(crate) fn is_turn_long(&self, work: usize) -> bool {
        let is_long = self.turn_work.get() >= TURN_WORK_MAX;
        work >= if is_long { WORK_AT_LEAST } else { WORK_AT_ONCE_MAX }
    }

    /// A task did this much, besides what the node did.
    pub(crate) fn count_work(&self, units: u64) {
        self.turn_work.set(self.turn_work.get() + units);
    }

    /// The largest packet of a client that has been let in.
    pub(crate) fn packet_size_max(&self) -> u32 {
        self.settings.packet_size_max
    }

    /// Whether the state store can serve.
    pub(crate) fn is_available(&self) -> bool {
        self.node.borrow().is_available()
    }

    /// Tells the other nodes why this one stops.
    pub(crate) fn say_last(&self, why: &RunError) {
        if let Some(peers) = &self.peers {
            peers.say_last(&why.to_string());
        }
    }

    /// Whether others still take over what this node leads.
    pub(crate) fn is_stopping(&self) -> bool {
        self.node.borrow().is_stopping()
    }

    /// A connection id for a new socket; `memory` where that is full, and sockets and their buffers have had their part of it.
    pub(crate) fn reserve(&self) -> Result<ConnectionId, &'static str> {
        let buffers_max = self.settings.memory_max / BUFFERS_PART;
        if self.overheads.get() as u64 > buffers_max && self.node.borrow().is_memory_full() {
            return Err("memory");
        }
        Ok(self.sockets.borrow_mut().reserve())
    }

    /// Whether a CONNECT is looked at. Where nobody asks who the client is, it takes its place here.
    pub(crate) fn may_connect(&self, socket: &Socket) -> bool {
        if socket.origin.policy.is_some() {
            return true;
        }
        let let_in = socket.let_in();
        if let Err(limit) = let_in {
            let (peer, listener) = (socket.peer, &socket.origin.listener);
            tracing::debug!(%peer, %listener, why = limit.name(), "closed a connection: a limit is reached");
            self.turned_away(limit.name());
        }
        let_in.is_ok()
    }

    /// Counts a connection that is closed as soon as it is accepted.
    pub(crate) fn turned_away(&self, why: &'static str) {
        *self.observed.borrow_mut().turned_away.entry(why).or_default() += 1;
    }

    /// A handshake begins; it counts in the account of memory until it ends.
    pub(crate) fn handshake_begins(&self) {
        self.handshakes.set(self.handshakes.get() + 1);
    }

    pub(crate) fn handshake_ends(&self) {
        self.handshakes.set(self.handshakes.get() - 1);
    }

    pub(crate) fn opened(&self, socket: &Rc<Socket>, waited: Duration) {
        self.sockets.borrow_mut().insert(Rc::clone(socket));
        self.overheads.set(self.overheads.get() + socket.overhead());
        self.step(Event::Opened {
            connection: socket.id,
            waited,
            is_asked: socket.origin.policy.is_some(),
            policy: socket.origin.authorization,
        });
    }

    /// The connection is gone.
    pub(crate) async fn lost(&self, connection: ConnectionId) {
        self.ends.place().await;
        self.step(Event::Lost { connection });
    }

    pub(crate) fn remove(&self, socket: &Socket) {
        self.count_waiting(socket, 0);
        self.overheads.set(self.overheads.get() - socket.overhead());
        self.sockets.borrow_mut().remove(socket.id);
    }

    /// The connections that a listener has accepted.
    pub(crate) fn accepted_by(&self, origin: &Arc<Origin>) -> Vec<ConnectionId> {
        let sockets = self.sockets.borrow();
        let of_origin = sockets
            .iter()
            .filter(|socket| Arc::ptr_eq(&socket.origin, origin));
        of_origin.map(|socket| socket.id).collect()
    }

    /// The certificates that a client came with; `None` if the connection is gone.
    pub(crate) fn certificates_of(&self, id: ConnectionId) -> Option<Vec<CertificateDer<'static>>> {
        Some(self.sockets.borrow().get(id)?.peer_certificates())
    }

    /// How many sockets there are.
    pub(crate) fn sockets_len(&self) -> usize {
        self.sockets.borrow().len()
    }

    /// Syncs what is on its way and ends the disk's threads.
    pub(crate) fn stop(self) {
        self.snapshots.stop();
        self.disk.stop();
    }

    /// Keeps the sum over all sockets up to date.
    fn count_waiting(&self, socket: &Socket, bytes: usize) {
        let before = socket.counted.replace(bytes);
        self.waiting.set(self.waiting.get() - before + bytes);
    }

    fn deadline(&self) -> Option<Instant> {
        // Not the turn's moment: this one is followed by waiting.
        self.node.borrow().deadline(self.clock.now())
    }

    /// Reading the clocks for each of the many packets of a turn would cost as much as decoding them.
    fn now(&self) -> Now {
        let now = self.turn_began.get().unwrap_or_else(|| self.clock.now());
        self.turn_began.set(Some(now));
        now
    }

    fn disk_event(&self, event: DiskEvent) -> Result<(), Fault> {
        match event {
            DiskEvent::Durable {
                ticket,
                batches,
                sync_micros,
                held,
            } => {
                self.engine_held.set(held + self.settings.engine_reserve());
                self.disk.confirmed(batches, sync_micros);
                let mut observed = self.observed.borrow_mut();
                observed.sync_latency.record(sync_micros);
                observed.batches_synced += batches;
                observed
                    .slow
                    .disk(clock::instant(), Duration::from_micros(sync_micros));
                drop(observed);
                self.step_quietly(Event::Durable { ticket });
                Ok(())
            }
            DiskEvent::Failed(fault) => Err(fault),
        }
    }

    /// Takes what came from other nodes, no more than is fair to clients.
    fn peer_event(&self, first: PeerEvent, further: &mut mpsc::Receiver<PeerEvent>) {
        self.came_from_peer(first);
        for _ in 1..PEER_EVENTS_AT_ONCE {
            let Ok(event) = further.try_recv() else {
                return;
            };
            self.came_from_peer(event);
        }
    }

    fn came_from_peer(&self, event: PeerEvent) {
        match event {
            PeerEvent::Messages(from, messages) => {
                for message in messages {
                    self.step_quietly(Event::Peer { from, message });
                }
            }
            PeerEvent::Heard(from) => self.step_quietly(Event::Heard { from }),
            PeerEvent::Called(caller) => self.step_quietly(Event::Called { caller }),
            // It came before the cluster was formed.
            PeerEvent::Statement(..) => {}
        }
    }

    fn snapshot_event(&self, event: SnapshotEvent) {
        match event {
            SnapshotEvent::Written { group, index, term } => {
                let mut observed = self.observed.borrow_mut();
                observed.snapshots += 1;
                observed.snapshot_written_at = Some(clock::instant());
                drop(observed);
                self.step_quietly(Event::SnapshotWritten { group, index, term });
            }
            SnapshotEvent::Failed { group, fault } => {
                // The log still has everything; it grows until a later snapshot succeeds.
                self.observed.borrow_mut().snapshots_failed += 1;
                tracing::error!(%group, %fault, "a snapshot of the state store could not be written");
                self.step_quietly(Event::SnapshotFailed { group });
            }
        }
    }

    fn admin_request(&self, request: AdminRequest) {
        // Whoever asked may have gone.
        match request {
            AdminRequest::Metrics(answer) => {
                let mut figures = self.observed.borrow().figures(&self.node.borrow());
                figures.peers = self.peers.as_ref().map(Peers::figures).unwrap_or_default();
                figures.peers.count_relayed(self.node.borrow().relay_figures());
                figures.pools = self.pools.iter().map(Strangers::figures).collect();
                figures.spans = self.traces.as_ref().map(Traces::counts).unwrap_or_default();
                let _ = answer.send(Box::new(figures));
            }
            AdminRequest::Health(answer) => {
                let _ = answer.send(self.health());
            }
            AdminRequest::Cluster(asks, answer) => {
                let question = self.cluster_questions.borrow_mut().ask(answer);
                self.step_quietly(Event::Cluster { question, asks });
            }
            AdminRequest::Api(question, answer) => self.api_request(question, answer),
        }
    }

    fn replace_peers(&self, members: BTreeSet<Founder>, removed: &[NodeId]) {
        if let Some(peers) = &self.peers {
            let members: Vec<_> = members.into_iter().collect();
            peers.replace_members(&members, removed);
        }
    }

    fn answer_cluster(&self, question: u64, answer: ClusterAnswer) {
        let clocks = self.peers.as_ref().map(Peers::clocks_ahead_ms);
        let answered = ClusterAnswered {
            answer,
            clocks_ahead_ms: clocks.unwrap_or_default(),
            conditions: self.conditions(),
        };
        self.cluster_questions.borrow_mut().answer(question, answered);
    }

    fn execute(&self, action: Action) {
        match action {
            Action::Send { connection, packet } => self.send(connection, &packet),
            Action::Publish { connection, publish } => self.publish(connection, &publish),
            Action::Persist {
                ticket,
                writes,
                needs_disk,
            } => self.collect(Batch {
                ticket,
                writes,
                needs_disk,
            }),
            Action::Speak {
                connection,
                version,
                packet_size_max,
            } => {
                self.with_socket(connection, |socket| socket.speaks.set((version, packet_size_max)));
            }
            Action::Authenticate { connection, question } => self.authenticate(connection, question),
            Action::Resume { connection } => {
                self.with_socket(connection, |socket| socket.changed.notify_one());
            }
            Action::ReportDrained { connection } => self.with_socket(connection, |socket| {
                socket.reports_drained.set(true);
                self.mark_dirty(socket);
            }),
            Action::Close { connection } => self.with_socket(connection, |socket| {
                socket.is_closing.set(true);
                socket.changed.notify_one();
            }),
            Action::Snapshot {
                group,
                index,
                term,
                image,
            } => self.snapshots.write(group, LogPoint { index, term }, image),
            Action::ToPeer { to, message } => {
                if let Some(peers) = &self.peers {
                    peers.send(to, message);
                }
            }
            Action::Peers { members, removed } => self.replace_peers(members, &removed),
            Action::ClusterAnswer { question, answer } => {
                self.answer_cluster(question, answer);
            }
            Action::Administered { question, is_done } => self.administered(question, Said::Done(is_done)),
            Action::Frozen { question, image } => self.administered(question, Said::Frozen(image)),
            Action::Restored { question, tally } => self.administered(question, Said::Restored(tally)),
            Action::Decided { verb, took } => self.observed.borrow_mut().decided(verb, took),
            Action::Traced(spans) => self.traced(spans),
            Action::Report(Report::Slow(slow)) => self.report_slow(&slow),
            Action::Report(report) => self.report(&report),
        }
    }

    fn traced(&self, spans: Vec<Span>) {
        if let Some(traces) = &self.traces {
            traces.take(spans);
        }
    }

    /// Adds to what the turn wants written.
    fn collect(&self, batch: Batch) {
        self.writes.replace(Some(match self.writes.take() {
            None => batch,
            Some(earlier) => earlier.with(batch),
        }));
    }

    fn report(&self, report: &Report) {
        let place =
            reporting::connection_of(report).and_then(|connection| self.place_of_connection(connection));
        match report {
            Report::Leader {
                group,
                leader: None,
                term,
            } => {
                if let Some(condition) = self.leader_lost(*group) {
                    tracing::warn!(%group, %term, "{condition}");
                }
            }
            Report::Leaving => self.log_condition(&Condition::Leaving),
            Report::Copy {
                group,
                news: CopyNews::Fetched,
            } => {
                if let Some(condition) = self.fetching_here(vec![*group]) {
                    self.log_condition(&condition);
                }
            }
            Report::LogTooShort {
                group,
                node: None,
                missing,
            } if missing.is_rolled_back => {
                reporting::report(report, place.as_ref());
                if let Some(peers) = &self.peers {
                    peers.roll_back_by_log(*group);
                }
            }
            Report::NodeState(change) => {
                if change.node == self.settings.node {
                    self.state_since.set(self.now().wall);
                }
                reporting::report(report, None);
            }
            _ => reporting::report(report, place.as_ref()),
        }
        if self.audit.is_on() {
            reporting::audit(report, place.as_ref(), &self.audit);
        }
    }

    /// Where the client of a connection is, unless it is gone.
    fn place_of_connection(&self, connection: ConnectionId) -> Option<Place> {
        let sockets = self.sockets.borrow();
        let socket = sockets.get(connection)?;
        Some(Place {
            peer: socket.peer,
            origin: Arc::clone(&socket.origin),
        })
    }

    fn report_slow(&self, slow: &SlowOperation) {
        let place = self.place_of_connection(slow.connection);
        // By the node's clock, which it has measured with.
        let now = self.now().instant;
        self.observed
            .borrow_mut()
            .slow
            .operation(now, slow, place.as_ref());
    }

    fn authenticate(&self, connection: ConnectionId, question: Question) {
        let socket = self.sockets.borrow().get(connection).cloned();
        let (Some(socket), Some(thread)) = (socket, &self.authentication) else {
            return;
        };
        let Some(policy) = socket.origin.policy.clone() else {
            return;
        };
        socket.awaits(Standing::awaits_server);
        let asked = Asked {
            connection,
            policy,
            question,
            peer: socket.peer,
            certificates: socket.peer_certificates(),
        };
        if let Err(answer) = thread.ask(asked) {
            self.step(Event::Authenticated { connection, answer });
        }
    }

    /// Takes an answer, and those that came with it: a turn for each would cost more than they do.
    fn authenticated(&self, first: Answered, further: &mut mpsc::Receiver<Answered>) {
        self.answered(first);
        for _ in 1..ANSWERS_AT_ONCE {
            let Ok(answered) = further.try_recv() else {
                return;
            };
            self.answered(answered);
        }
    }

    fn answered(&self, answered: Answered) {
        let Answered {
            connection,
            mut outcome,
        } = answered;
        self.with_socket(connection, |socket| {
            if !matches!(outcome.answer, Answer::Accept { .. }) {
                return socket.awaits(Standing::awaits_client);
            }
            if let Err(limit) = socket.let_in() {
                self.turned_away(limit.name());
                outcome.answer = Answer::Refuse {
                    reason: ReasonCode::ServerBusy,
                    why: "the limit of connections is reached".into(),
                };
            }
        });
        if let Some((method, cause)) = outcome.failed {
            self.observed.borrow_mut().authentication_failed(method, cause);
        }
        self.step_quietly(Event::Authenticated {
            connection,
            answer: outcome.answer,
        });
    }

    fn send(&self, connection: ConnectionId, packet: &Packet) {
        self.with_socket(connection, |socket| {
            let (version, size_max) = socket.speaks.get();
            let mut out = socket.out.borrow_mut();
            let tail = out.tail(&mut self.spare.borrow_mut());
            if let Err(error) = protocol::packet::encode(packet, version, size_max, tail) {
                tracing::warn!(%error, connection = connection.0, "a packet was too large for its client");
                return;
            }
            self.mark_dirty(socket);
        });
    }

    fn publish(&self, connection: ConnectionId, publish: &OutgoingPublish) {
        self.with_socket(connection, |socket| {
            let (version, _) = socket.speaks.get();
            let mut out = socket.out.borrow_mut();
            let before = out.len();
            self.encoder
                .borrow_mut()
                .encode(publish, version, out.tail(&mut self.spare.borrow_mut()));
            out.payload(&publish.delivery.message.payload);
            let bytes = out.len() - before;
            out.note_message(bytes);
            self.mark_dirty(socket);
        });
    }

    fn mark_dirty(&self, socket: &Rc<Socket>) {
        if !socket.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(socket));
        }
    }

    fn with_socket(&self, connection: ConnectionId, act: impl FnOnce(&Rc<Socket>)) {
        if let Some(socket) = self.sockets.borrow().get(connection) {
            act(socket);
        }
    }
}

/// The part of `limits.memory_max` that sockets and their buffers have also while memory is full, so that clients can come back to
/// their sessions.
const BUFFERS_PART: u64 = 16;

/// What all sockets together may do in a turn before each has no more than [`WORK_AT_LEAST`]: two milliseconds.
const TURN_WORK_MAX: u64 = 2_048;

/// Answers about clients that are taken before others have their turn.
const ANSWERS_AT_ONCE: usize = 32;

/// Batches of messages of other nodes that are taken before clients have their turn. One is as much as a socket gives at once.
const PEER_EVENTS_AT_ONCE: usize = 4;

async fn links_changed(peers: Option<&Peers>) {
    match peers {
        Some(peers) => peers.links_changed().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
