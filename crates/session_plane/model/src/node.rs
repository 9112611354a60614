//! One node: what it does with messages from other nodes, with its clients, and at each tick.
//!
//! The parts, in the order of the specification: `taking`, `sending` and `waiting` (streams and claims), `membership` and `flush` (who
//! is present, and what a dead run leaves), `transfer` (becoming whole), `garbage`; of clients `connecting`, `claiming`, `releasing`,
//! `reclaiming`, `wills`, `session`, `known_session`, `feed`, `delivering` (QoS 2 to clients), and `publishing` and `routing` (QoS 2 from clients).
//! Time is counted in ticks. A node has no randomness of its own: [`Step::chance`] is drawn by the world.

mod claiming;
mod connecting;
mod delivering;
mod feed;
mod flush;
mod garbage;
mod known_session;
mod membership;
mod publishing;
mod reclaiming;
mod releasing;
mod retiring;
mod routing;
mod sending;
mod session;
mod sharing;
mod taking;
mod transfer;
mod waiting;
mod wills;

use crate::copy::Copy;
use crate::event::Event;
use crate::ids::{CLIENTS, ClientId, Dot, EventSet, MAPS, NodeId, NodeSet, Numbers, OWNERS, RUNS, Run, Slot};
use crate::message::{Message, Outgoing};
use crate::rules::{Rule, Rules};
use crate::view::{State, View};

pub use claiming::Claim;
pub use connecting::{Connection, Phase};
use delivering::InFlight;
pub use membership::Membership;
pub use publishing::{Publish, Publishing};
pub use retiring::Settled;
pub use routing::Routing;
pub use sending::Sender;
use sharing::Sharing;
pub use taking::Receiver;
pub use transfer::Answering;
pub use waiting::Awaited;
use wills::Wills;
pub use wills::{WILL_DELAY, WillText};

/// Ticks of silence after which a peer is declared dead.
pub const SILENCE_MAX: u32 = 12;

/// What the world tells a node's clients and the checks.
#[derive(Clone, Debug)]
pub enum Observation {
    Trace(String),
    /// A node holds the event `dot` durably.
    Took {
        node: NodeId,
        dot: Dot,
    },
    DeclaredDead(NodeId),
    /// A node covers a run as a whole, of which it takes `numbers` for all that any member has.
    Retired {
        run: Run,
        numbers: Numbers,
    },
    /// A node covers numbers that nobody has.
    Closed {
        run: Run,
        numbers: Numbers,
    },
    Published(Dot),
    Subscribed {
        client: ClientId,
        connection: Dot,
        dot: Dot,
    },
    Unsubscribed {
        client: ClientId,
        connection: Dot,
    },
    /// The client's acknowledgement `by` of `message` is durable.
    Acknowledged {
        client: ClientId,
        message: Dot,
        connection: Dot,
        by: Dot,
    },
    /// `by` has removed what its node had seen.
    Removed {
        client: ClientId,
        removed: Vec<Dot>,
        by: Dot,
    },
    Ended {
        client: ClientId,
        connection: Dot,
    },
    Connected {
        client: ClientId,
        connection: Dot,
        present: bool,
    },
    Delivered {
        client: ClientId,
        connection: Dot,
        message: Dot,
        /// With QoS 2.
        packet: Option<Packet>,
    },
    /// PUBREL to the client.
    PubRel {
        client: ClientId,
        connection: Dot,
        message: Dot,
        packet: Packet,
    },
    /// A QoS 2 PUBLISH got a number; `entry` is the dot of its packet id.
    Numbered {
        client: ClientId,
        content: u32,
        number: Dot,
        entry: Dot,
    },
    /// A will is routed.
    WillRouted {
        content: u32,
        number: Dot,
    },
    /// All present nodes have a will.
    WillPublished {
        content: u32,
        number: Dot,
    },
    /// A number is routed; `holders` were sent its packet id.
    Routed {
        number: Dot,
        holders: NodeSet,
    },
    PubRec {
        client: ClientId,
        connection: Dot,
        packet_id: u8,
        content: u32,
    },
    PubComp {
        client: ClientId,
        connection: Dot,
        packet_id: u8,
    },
    Group(GroupObservation),
    /// The node ends a connection.
    Disconnected {
        client: ClientId,
        connection: Dot,
    },
}

/// What the world is told of the shared group.
#[derive(Clone, Copy, Debug)]
pub enum GroupObservation {
    /// SUBACK.
    Joined {
        client: ClientId,
        connection: Dot,
        dot: Dot,
    },
    /// A primary owner decides that a connection gets a message; `side` is present.
    Assigned {
        message: Dot,
        connection: Dot,
        side: NodeSet,
    },
    /// The primary owner gives a message to a connection.
    Given {
        message: Dot,
        connection: Dot,
        entry: Dot,
    },
    /// A member is sent a message.
    Delivered {
        client: ClientId,
        connection: Dot,
        message: Dot,
    },
    /// The member's acknowledgement `by` is durable.
    Acknowledged { message: Dot, by: Dot },
}

/// Packet id of a QoS 2 message to a client, and the stage that the client is told.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub packet_id: u8,
    pub stage: Stage,
}

/// Stage of a QoS 2 message to a client.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    pub entry: Dot,
    /// Owners that have the entry: they were sent it, and are present when the client is told.
    pub holders: NodeSet,
}

/// Things that happened in a history, so that a history in which nothing happened shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub published: u64,
    pub refused: u64,
    pub acknowledged: u64,
    pub expected: u64,
    pub delivered: u64,
    pub subscribed: u64,
    pub connected: u64,
    pub crashed: u64,
    pub disks_lost: u64,
    pub splits: u64,
    pub declared_dead: u64,
    pub handshakes: u64,
    pub transfers: u64,
    pub pended: u64,
    pub resent: u64,
    pub flushed: u64,
    pub closed: u64,
    /// Holes of QoS 2 numbers that were filled from packet ids.
    pub filled: u64,
    /// QoS 2 messages from clients.
    pub numbered: u64,
    pub completed: u64,
    /// Packet ids to clients that were released because their message was gone.
    pub gone: u64,
    pub deleted: u64,
    /// Ends of sessions.
    pub ended: u64,
    /// Entries that were dropped as garbage.
    pub dropped: u64,
    /// Wills that were published.
    pub wills: u64,
    /// Messages of the shared group that a member was sent.
    pub shared: u64,
    /// Runs that were retired, at each node.
    pub retired: u64,
}

/// What everybody in a history knows without asking.
#[derive(Clone, Debug)]
pub struct Directory {
    pub slot_of: [Slot; OWNERS],
    /// Clients are members of the shared group.
    pub has_group: bool,
    /// The client subscribes with QoS 2.
    pub takes_once: [bool; CLIENTS],
    /// Node of each run.
    pub node_of: Vec<NodeId>,
    /// Nodes of the cluster that were not removed.
    pub members: NodeSet,
    /// Owners of each slot that have an event on their disks before it is durable.
    pub copies_min: usize,
}

impl Directory {
    pub fn slot(&self, client: ClientId) -> Slot {
        self.slot_of[client.index()]
    }

    pub fn node(&self, run: Run) -> NodeId {
        self.node_of[run.index()]
    }
}

/// One step of a node: what it may read, and where it puts what follows.
#[derive(Debug)]
pub struct Step<'a> {
    pub rules: &'a Rules,
    pub now: u32,
    pub directory: &'a Directory,
    pub outgoing: Vec<Outgoing>,
    pub observed: Vec<Observation>,
    pub counters: &'a mut Counters,
    pub tracing: bool,
    /// Ticks that the node's wall clock is ahead.
    pub ahead: u32,
    /// State of a small generator, seeded by the world.
    pub random: u64,
}

impl Step<'_> {
    pub fn holds(&self, rule: Rule) -> bool {
        self.rules.hold(rule)
    }

    /// Owners of each slot that have an event on their disks before it is durable.
    pub fn copies_min(&self) -> usize {
        if self.holds(Rule::CopiesMin) {
            self.directory.copies_min
        } else {
            1
        }
    }

    pub fn send(&mut self, to: NodeId, message: Message) {
        self.outgoing.push(Outgoing { to, message });
    }

    pub fn observe(&mut self, observation: Observation) {
        self.observed.push(observation);
    }

    pub fn trace(&mut self, text: impl FnOnce() -> String) {
        if self.tracing {
            self.observed.push(Observation::Trace(text()));
        }
    }

    /// One of two, by the seed.
    pub fn chance(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(2)
    }

    /// Hybrid logical clock as the wall clock alone would have it.
    pub fn wall_clock(&self) -> u32 {
        (self.now + self.ahead) << 4
    }
}

/// A node of the cluster.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    clock: u32,
    pub membership: Membership,
    pub sender: Sender,
    receiver: Receiver,
    pub copies: [Option<Copy>; MAPS],
    answering: Vec<Answering>,
    claims: Vec<Claim>,
    pub connections: Vec<Connection>,
    publishing: Publishing,
    routing: Routing,
    wills: Wills,
    sharing: Sharing,
    /// What this run has told last of each run that was settled, before it retired it.
    told_settled: Settled,
}

impl Node {
    /// A node that has just been installed.
    pub fn new(id: NodeId, run: Run, now: u32) -> Node {
        let membership = Membership::new(id, now);
        let mut receiver = Receiver::default();
        receiver.start(run, membership.view);
        Node {
            id,
            clock: 1,
            membership,
            sender: Sender::new(run),
            receiver,
            copies: [const { None }; MAPS],
            answering: Vec::new(),
            claims: Vec::new(),
            connections: Vec::new(),
            publishing: Publishing::default(),
            routing: Routing::default(),
            wills: Wills::default(),
            sharing: Sharing::default(),
            told_settled: [None; RUNS],
        }
    }

    /// A member of a cluster that has run for a while, as histories begin with it.
    pub fn founded(id: NodeId, run: Run, view: View) -> Node {
        let mut node = Node::new(id, run, 0);
        node.membership.found(view);
        for peer in view.present.iter() {
            node.receiver.found(Run::first_of(peer), view);
        }
        for slot in view.slots_of(id) {
            node.copies[slot.index()] = Some(Copy {
                owned: true,
                has_merged: true,
                ..Copy::default()
            });
        }
        node
    }

    /// A start of the process. Copies, positions and the buffer for flushes are on disk.
    pub fn restart(&mut self, run: Run, now: u32) {
        let old = std::mem::replace(self, Node::new(self.id, run, now));
        self.clock = old.clock + 1;
        let incarnation = old.membership.view.incarnation(self.id) + 1;
        self.membership.view.incarnations[self.id.index()] = incarnation;
        self.receiver = old.receiver;
        self.receiver.start(run, self.membership.view);
        self.copies = old.copies;
        for copy in self.copies.iter_mut().flatten() {
            copy.restart();
        }
    }

    /// Takes a message of a present peer.
    pub fn receive(&mut self, step: &mut Step<'_>, from: NodeId, message: Message) {
        let Some(run) = self.membership.run_of(from) else {
            return;
        };
        match message {
            Message::Event(event) => self.receive_event(step, from, &event),
            Message::Welcome(event) => self.receive_welcome(step, from, &event),
            Message::Heartbeat(heartbeat) => self.receive_heartbeat(step, from, &heartbeat),
            Message::FlushPosition { run, position } => {
                self.receive_flush_position(step, from, run, position);
            }
            Message::FlushEvents(flush) => self.receive_flush(step, &flush),
            Message::Resend {
                slot,
                numbers,
                events,
            } => {
                self.take_resent(step, slot, run, numbers, &events);
                step.send(from, Message::ConfirmResent { slot, numbers });
            }
            Message::ConfirmResent { slot, numbers } => {
                self.sender.add_copy(slot, from, numbers);
                self.publishing.confirm_resent(from, slot, numbers);
            }
            Message::Route(event) => self.receive_route(step, from, &event),
            Message::ConfirmRoute { number } => self.receive_route_confirmed(from, number),
            Message::AskSlot(question) => self.receive_question(from, *question),
            Message::SlotContent(answer) => self.receive_answer(step, from, &answer),
            Message::SlotMerged { slot, late } => self.receive_merged(step, from, slot, late),
            Message::Offer { slot } => self.receive_offer(from, slot),
            Message::AskSession { client, connection } => self.add_claim(from, client, connection),
            Message::Session(answer) => self.take_session(step, from, &answer),
            Message::Release { client, old, by } => self.release(step, from, client, old, by),
            Message::Released { client, old, agreed } => {
                self.receive_released(step, from, client, old, agreed);
            }
            Message::FeedOpen {
                client,
                connection,
                known,
                epoch,
            } => self.receive_feed_open(step, from, client, connection, &known, epoch),
            Message::FeedItems(items) => self.receive_feed(step, &items),
            Message::Give(given) => self.receive_given(step, given),
        }
    }

    /// Does what is due. `refused` are peers whose machine answers that the process is gone.
    pub fn tick(&mut self, step: &mut Step<'_>, refused: NodeSet) {
        self.detect_failures(step, refused);
        if self.membership.is_changed() {
            self.send_marker(step, None);
        }
        self.update_ownership();
        self.send_heartbeats(step);
        self.become_whole(step);
        self.tick_garbage(step);
        self.retire_runs(step);
        self.answer_questions(step);
        self.delete_abandoned(step);
        self.change_state(step);
        self.complete_waits(step);
        self.answer_claims(step);
        self.tick_connections(step);
        self.tick_wills(step);
        self.tick_group(step);
        self.tick_publishing(step);
        self.tick_routing(step);
    }

    /// Events known to exist at this node, through any copy.
    fn known(&self) -> EventSet {
        let mut known = EventSet::default();
        for copy in self.copies.iter().flatten() {
            known.add_all(&copy.content.known());
        }
        known
    }

    /// What this node tells others that it knows.
    fn knowledge(&self, step: &Step<'_>) -> EventSet {
        let mut known = self.known();
        if !step.holds(Rule::ExactNumbers) {
            known.fill_numbers();
        }
        known
    }

    /// As [`Node::known`], with what this node has only been told of.
    fn known_or_needed(&self) -> EventSet {
        let mut known = self.known();
        for copy in self.copies.iter().flatten() {
            known.add_all(&copy.content.needed);
        }
        known
    }

    pub fn copy(&self, slot: Slot) -> Option<&Copy> {
        self.copies[slot.index()].as_ref()
    }

    /// Copy of `slot`, if this node decides about its wills or its group: it is the primary owner, and by `rule` the copy may decide.
    fn deciding_copy(&self, step: &Step<'_>, slot: Slot, rule: Rule) -> Option<&Copy> {
        let is_primary = self.membership.view.primary_owner(slot) == Some(self.id);
        let copy = self.copy(slot).filter(|copy| is_primary && copy.owned)?;
        (copy.may_decide() || !step.holds(rule)).then_some(copy)
    }

    /// Copy of `slot`; one that is made now has everything that its node knows to exist as a hole.
    fn copy_mut(&mut self, slot: Slot) -> &mut Copy {
        if self.copies[slot.index()].is_none() {
            let mut copy = Copy::default();
            copy.content.needed = self.known_or_needed();
            copy.content.needed.forget(self.sender.run);
            self.copies[slot.index()] = Some(copy);
        }
        self.copies[slot.index()].as_mut().expect("made above")
    }

    pub fn state(&self) -> State {
        self.membership.state
    }

    /// View that the node's own stream goes by.
    fn ring(&self) -> View {
        self.receiver
            .ring(self.sender.run)
            .expect("a run has a ring from its start on")
    }

    /// View that a present peer's stream goes by.
    fn ring_of(&self, peer: NodeId) -> Option<View> {
        self.receiver.ring(self.membership.run_of(peer)?)
    }

    /// Advances the clock for an event of this node's own.
    fn next_clock(&self, step: &Step<'_>) -> u32 {
        (self.clock + 1).max(step.wall_clock())
    }

    fn see_clock(&mut self, event: &Event) {
        self.clock = self.clock.max(event.clock);
    }
}

impl Counters {
    /// Adds the counters of another history.
    pub fn add(&mut self, other: &Counters) {
        self.published += other.published;
        self.refused += other.refused;
        self.acknowledged += other.acknowledged;
        self.expected += other.expected;
        self.delivered += other.delivered;
        self.subscribed += other.subscribed;
        self.connected += other.connected;
        self.crashed += other.crashed;
        self.disks_lost += other.disks_lost;
        self.splits += other.splits;
        self.declared_dead += other.declared_dead;
        self.handshakes += other.handshakes;
        self.transfers += other.transfers;
        self.pended += other.pended;
        self.resent += other.resent;
        self.flushed += other.flushed;
        self.closed += other.closed;
        self.filled += other.filled;
        self.numbered += other.numbered;
        self.completed += other.completed;
        self.gone += other.gone;
        self.deleted += other.deleted;
        self.ended += other.ended;
        self.dropped += other.dropped;
        self.wills += other.wills;
        self.shared += other.shared;
        self.retired += other.retired;
    }
}
