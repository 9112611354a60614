//! World of a history: four nodes with links between them, and clients that are members of one group.
//!
//! Each node has a view of its own, and gives others up on its own. Links keep the order of messages
//! until their connection is renewed, which loses them. Every node has a copy of everything, by the
//! merge rule; the primary owner of a part follows from the view. A node that has changed its view, or
//! hears of an event that it lacks, asks all present nodes for their copies, and decides nothing until
//! they have answered. It does not confirm events of a node that a peer has given up.

use super::*;
use crate::connecting::ConnectionId;
use crate::{Entry, Fact, MadeEvent, Slot, VersionVector};

mod clients;
mod machine;
mod naive;
mod network;
mod promises;
mod views;

use clients::Client;
use machine::{Copy, Machine};
use promises::Record;

pub(super) const NODES: usize = 4;
pub(super) const CLIENTS: usize = 3;
pub(super) const PARTS: usize = 2;

pub(super) const SOURCE: SourceLimits = SourceLimits {
    given_max: 4,
    window: 2,
};
pub(super) const SINK: SinkLimits = SinkLimits {
    presences_max: 2,
    given_max: 3,
};

/// Event that changes the group's entries in some slots.
#[derive(Debug, Clone)]
struct Event {
    dot: Dot,
    slots: BTreeSet<Slot>,
    removes: Vec<Dot>,
    adds: Option<Entry<u64>>,
}

/// Message under way.
#[derive(Debug, Clone)]
struct Packet {
    from: Run,
    to: Run,
    clock: Hlc,
    /// Events that the sender knew.
    known: VersionVector,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Event(Event),
    EventConfirmed { dot: Dot },
    Marker { view: BTreeMap<usize, Run> },
    Ask { round: u64 },
    Answer { round: u64, copy: Box<Copy> },
    Give(Give<u64>),
}

/// Wait until every present node has an event.
#[derive(Debug, Clone)]
enum Wait {
    Assignment {
        place: GroupPlace,
        message: Dot,
    },
    Acknowledgement {
        connection: ConnectionId,
        group: GroupId,
        message: Dot,
    },
}

/// Action that is due.
#[derive(Debug)]
enum Work {
    Source(SourceAction<u64>),
    Sink(SinkAction<u64>),
}

pub(super) struct World {
    /// Counts all that happens.
    moment: u64,
    machines: Vec<Machine>,
    links: BTreeMap<(usize, usize), VecDeque<Packet>>,
    /// Pairs of nodes whose link is cut.
    cut: BTreeSet<(usize, usize)>,
    clients: Vec<Client>,
    work: VecDeque<(usize, Work)>,
    is_working: bool,
    /// Connections that are open, by their presence.
    open: BTreeMap<Dot, ConnectionId>,
    records: BTreeMap<Dot, Record>,
    /// Begin of each session's membership, by its birth.
    members: BTreeMap<Dot, Hlc>,
}

fn id(node: usize) -> NodeId {
    NodeId(1 + node as u64)
}

fn index(node: NodeId) -> usize {
    usize::try_from(node.0 - 1).expect("few nodes")
}

/// Part of the group.
fn place(part: usize) -> GroupPlace {
    let topics: [&[u8]; PARTS] = [b"plant/7/cmd", b"plant/8/cmd"];
    let slot = group().slot(topics[part]);
    GroupPlace { slot, group: group() }
}

fn places() -> impl Iterator<Item = GroupPlace> {
    (0..PARTS).map(place)
}

/// Rounds in which everything comes to rest.
const ROUNDS_MAX: usize = 500;

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            moment: 0,
            machines: (0..NODES).map(Machine::new).collect(),
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            work: VecDeque::new(),
            is_working: false,
            open: BTreeMap::new(),
            records: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        world.detect();
        world.deliver_all();
        for client in 0..CLIENTS {
            world.connect(client, client);
            world.subscribe(client);
        }
        world.deliver_all();
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        self.moment += 1;
        match *step {
            Step::Deliver { from, to } => self.deliver(from, to),
            Step::DeliverEach => self.deliver_each(),
            Step::DeliverAll => self.deliver_all(),
            Step::Connect { client, node } => self.connect(client, node),
            Step::Close { client } => self.close(client),
            Step::Subscribe { client } => self.subscribe(client),
            Step::Unsubscribe { client } => self.unsubscribe(client),
            Step::EndSession { client } => self.end_session(client),
            Step::Publish { node, part } => self.publish(node, part),
            Step::Acknowledge { client } => self.acknowledge(client),
            Step::Crash { node } => self.crash(node),
            Step::Restart { node } => self.restart(node),
            Step::Split { side } => self.split(side),
            Step::Cut { one, other } => {
                self.cut.insert((one.min(other), one.max(other)));
            }
            Step::Heal => self.cut.clear(),
            Step::Renew { one, other } => self.renew(one, other),
            Step::GiveUp { at } => self.give_up_lost(at),
            Step::Meet { one, other } => self.meet(one, other),
            Step::Detect => self.detect(),
            Step::Collect { node } => self.collect(node),
        }
    }

    fn split(&mut self, side: u8) {
        let is_there = |node: usize| side >> node & 1;
        let pairs = (0..NODES).flat_map(|one| (one + 1..NODES).map(move |other| (one, other)));
        self.cut = pairs
            .filter(|(one, other)| is_there(*one) != is_there(*other))
            .collect();
    }

    /// Each side comes to rest. Then all nodes come back and see each other, and what is left of all that
    /// comes to rest.
    pub(super) fn come_to_rest(&mut self) {
        for _ in 0..3 {
            self.detect();
            self.deliver_all();
        }
        self.acknowledge_until(World::has_delivered);
        self.assert_sides_at_rest();
        self.cut.clear();
        (0..NODES).for_each(|node| self.restart(node));
        for _ in 0..3 {
            self.detect();
            self.deliver_all();
        }
        self.end_lost_sessions();
        self.acknowledge_until(World::is_idle);
        (0..2 * NODES).for_each(|turn| self.collect(turn % NODES));
    }

    /// Members connect where all nodes are present, and acknowledge what they have.
    fn acknowledge_until(&mut self, is_done: impl Fn(&World) -> bool) {
        let mut rounds = 0..ROUNDS_MAX;
        while !is_done(self) && rounds.next().is_some() {
            if self.are_all_present() {
                (0..CLIENTS).for_each(|client| self.connect_if_member(client));
            }
            (0..CLIENTS).for_each(|client| self.acknowledge_all(client));
            self.deliver_each();
        }
    }

    /// Tells the source of a node.
    fn tell_source(&mut self, node: usize, event: SourceEvent) {
        let mut actions = Vec::new();
        let (source, state) = self.machines[node].source_and_state();
        source.step(event, state, &mut actions);
        assert!(source.given() <= SOURCE.given_max);
        let actions = actions.into_iter().map(|action| (node, Work::Source(action)));
        self.work.extend(actions);
        self.act_all();
    }

    /// Tells the sink of a node.
    fn tell_sink(&mut self, node: usize, event: SinkEvent<u64>) {
        let mut actions = Vec::new();
        let sink = &mut self.machines[node].sink;
        assert_eq!(sink.step(event, &mut actions), Ok(()));
        assert!(sink.attended() <= SINK.presences_max && sink.given() <= SINK.given_max);
        self.work
            .extend(actions.into_iter().map(|action| (node, Work::Sink(action))));
        self.act_all();
    }

    /// Does what is due, in the order in which the nodes have asked for it.
    fn act_all(&mut self) {
        if std::mem::replace(&mut self.is_working, true) {
            return;
        }
        while let Some((node, work)) = self.work.pop_front() {
            match work {
                Work::Source(action) => self.act_as_source(node, action),
                Work::Sink(action) => self.act_as_sink(node, action),
            }
        }
        self.is_working = false;
    }

    fn act_as_source(&mut self, node: usize, action: SourceAction<u64>) {
        match action {
            SourceAction::Assign {
                place,
                assigned,
                removes,
            } => {
                self.note_assigned(node, &place, assigned, &removes);
                let fact = Fact::Assignment(Box::new(assigned));
                let slots = BTreeSet::from([place.slot]);
                let birth = birth_of(assigned.message);
                let made = self.make(node, slots, removes, |_| Some((fact, birth, 0)));
                self.tell_source(
                    node,
                    SourceEvent::Assigned {
                        place,
                        assigned,
                        made,
                    },
                );
            }
            SourceAction::AwaitKnown {
                place,
                message,
                assignment,
            } => {
                let wait = Wait::Assignment { place, message };
                self.machines[node].waits.insert(assignment, wait);
                self.complete_waits(node);
            }
            SourceAction::Give { to, give } => {
                self.note_given(node, &give);
                if index(to) == node {
                    self.tell_sink(node, SinkEvent::Given { from: to, give });
                } else {
                    self.send(node, index(to), Content::Give(give));
                }
            }
            SourceAction::EndPresence { place, presence } => {
                let slots = BTreeSet::from([place.slot]);
                self.make(node, slots, vec![presence], |_| None);
            }
        }
    }

    /// Makes an event of a node, and sends it to all present nodes.
    fn make(
        &mut self,
        node: usize,
        slots: BTreeSet<Slot>,
        removes: Vec<Dot>,
        adds: impl FnOnce(MadeEvent) -> Option<(Fact, Birth, u64)>,
    ) -> MadeEvent {
        let dot = self.machines[node].next_event();
        self.moment += 1;
        let clock = self.machines[node].next_clock(self.moment);
        let made = MadeEvent { dot, clock };
        let adds = adds(made).map(|(fact, birth, value)| Entry {
            birth,
            clock,
            fact,
            value,
        });
        let event = Event {
            dot,
            slots,
            removes,
            adds,
        };
        self.machines[node].made.insert(dot, event.clone());
        self.machines[node].confirm(node, dot);
        self.give_event(node, dot);
        self.apply(node, &event);
        made
    }

    /// Sends an event of a node to all others that are present.
    fn give_event(&mut self, node: usize, dot: Dot) {
        let event = self.machines[node].made[&dot].clone();
        for to in self.machines[node].peers() {
            self.send(node, to, Content::Event(event.clone()));
        }
    }

    /// Applies an event at a node.
    fn apply(&mut self, node: usize, event: &Event) {
        if !self.machines[node].state.copy.apply(event) {
            return;
        }
        let dot = event.dot;
        for place in places().filter(|place| event.slots.contains(&place.slot)) {
            if let Some(entry) = self.machines[node].state.copy.entry(place.slot, dot) {
                let place = place.clone();
                self.tell_source(node, SourceEvent::Added { place, dot, entry });
            }
            for dot in event.removes.iter().copied() {
                let place = place.clone();
                self.tell_source(node, SourceEvent::Removed { place, dot });
            }
        }
        self.tell_joined(node);
    }
}

/// Birth that an assignment names: nobody reads it.
fn birth_of(message: Dot) -> Birth {
    Birth::of_group_message(message, Hlc::ZERO)
}
