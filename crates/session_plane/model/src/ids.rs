//! Identities, and the small sets of them that the model computes with.
//!
//! Sets are bit sets of fixed size, so that a history of thousands of messages takes milliseconds. The sizes bound what a
//! history may contain: the explorer leaves a history out that would need more, and counts it.

/// Nodes that a history may have.
pub const NODES: usize = 8;
/// Actors that a history may have: two for each start of a node.
pub const RUNS: usize = 48;
/// Slots of sessions.
pub const SLOTS: usize = 2;
/// Slots of sessions and the map of routes.
pub const MAPS: usize = SLOTS + 1;
/// Clients, each with a durable session.
pub const CLIENTS: usize = 2;
/// All that have entries: clients and the shared group.
pub const OWNERS: usize = CLIENTS + 1;
/// Events that one run may make: the numbers 1 to 126.
pub const NUMBER_MAX: u8 = 126;

/// A machine of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u8);

impl NodeId {
    /// Place in arrays of [`NODES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One start of one node. Never used again; the actor of a version vector.
///
/// Runs have even numbers. The odd number behind a run is the actor of its QoS 2 numbers, which name messages from clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run(pub u8);

impl Run {
    /// First run of a node that has been there from the beginning.
    pub fn first_of(node: NodeId) -> Run {
        Run(node.0 * 2)
    }

    /// Actor of the QoS 2 numbers of this run.
    pub fn of_numbers(self) -> Run {
        Run(self.0 | 1)
    }

    /// The actor is one of QoS 2 numbers.
    pub fn is_of_numbers(self) -> bool {
        self.0 & 1 == 1
    }

    /// Place in arrays of [`RUNS`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Unit of ownership and of transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot(pub u8);

impl Slot {
    /// The map of routes, which every node owns.
    pub const ROUTES: Slot = Slot(SLOTS as u8);

    /// Slots of sessions, then the routes.
    pub fn all() -> impl Iterator<Item = Slot> {
        (0..MAPS as u8).map(Slot)
    }

    /// Slots of sessions.
    pub fn of_sessions() -> impl Iterator<Item = Slot> {
        (0..SLOTS as u8).map(Slot)
    }

    /// Place in arrays of [`MAPS`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A client with a durable session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClientId(pub u8);

impl ClientId {
    /// The shared group: its members, messages and assignments are entries of a slot, as those of a client are.
    pub const GROUP: ClientId = ClientId(CLIENTS as u8);

    /// All that have entries: the clients and the group.
    pub fn with_group() -> impl Iterator<Item = ClientId> {
        (0..OWNERS as u8).map(ClientId)
    }

    /// Every client of a history.
    pub fn all() -> impl Iterator<Item = ClientId> {
        (0..CLIENTS as u8).map(ClientId)
    }

    /// Place in arrays of [`CLIENTS`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Identity of an event: the run that made it, and its number there, counted from 1 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Dot {
    pub run: Run,
    pub number: u8,
}

/// Set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeSet(u16);

impl NodeSet {
    pub const EMPTY: NodeSet = NodeSet(0);

    pub fn one(node: NodeId) -> NodeSet {
        NodeSet(1 << node.0)
    }

    /// Nodes whose bit is set; for random choices.
    pub fn from_bits(bits: u16) -> NodeSet {
        NodeSet(bits & ((1 << NODES) - 1))
    }

    pub fn has(self, node: NodeId) -> bool {
        self.0 >> node.0 & 1 == 1
    }

    pub fn insert(&mut self, node: NodeId) {
        self.0 |= 1 << node.0;
    }

    pub fn remove(&mut self, node: NodeId) {
        self.0 &= !(1 << node.0);
    }

    pub fn union(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 | other.0)
    }

    pub fn and(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & other.0)
    }

    pub fn minus(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & !other.0)
    }

    pub fn without(self, node: NodeId) -> NodeSet {
        self.minus(NodeSet::one(node))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The lowest node, for comparisons of sides.
    pub fn lowest(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// Nodes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..NODES as u8).map(NodeId).filter(move |node| self.has(*node))
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        nodes
            .into_iter()
            .fold(NodeSet::EMPTY, |set, node| set.union(NodeSet::one(node)))
    }
}

impl std::fmt::Debug for NodeSet {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}

/// Set of slots, the routes among them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotSet(u8);

impl SlotSet {
    pub const EMPTY: SlotSet = SlotSet(0);

    pub fn one(slot: Slot) -> SlotSet {
        SlotSet(1 << slot.0)
    }

    pub fn with(self, slot: Slot) -> SlotSet {
        SlotSet(self.0 | 1 << slot.0)
    }

    pub fn has(self, slot: Slot) -> bool {
        self.0 >> slot.0 & 1 == 1
    }
}

/// Set of numbers of one run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Numbers(u128);

impl Numbers {
    pub const EMPTY: Numbers = Numbers(0);
    pub const ALL: Numbers = Numbers(!1);

    pub fn one(number: u8) -> Numbers {
        Numbers(1 << number)
    }

    /// The numbers 1 to `number`.
    pub fn up_to(number: u8) -> Numbers {
        assert!(number <= NUMBER_MAX, "the explorer ends a history before");
        Numbers(((1 << (number + 1)) - 1) & !1)
    }

    /// The numbers after `from`, up to `to`.
    pub fn between(from: u8, to: u8) -> Numbers {
        Numbers::up_to(to).minus(Numbers::up_to(from))
    }

    pub fn has(self, number: u8) -> bool {
        self.0 >> number & 1 == 1
    }

    pub fn union(self, other: Numbers) -> Numbers {
        Numbers(self.0 | other.0)
    }

    pub fn and(self, other: Numbers) -> Numbers {
        Numbers(self.0 & other.0)
    }

    pub fn minus(self, other: Numbers) -> Numbers {
        Numbers(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All that a run that has ended ever made.
    pub fn is_retired(self) -> bool {
        self == Numbers::ALL
    }

    /// Numbers that are in at least `count` of `sets`.
    pub fn in_at_least(count: usize, sets: &[Numbers]) -> Numbers {
        let mut found = vec![Numbers::EMPTY; count + 1];
        found[0] = Numbers::ALL;
        for set in sets {
            for index in (1..=count).rev() {
                let more = found[index - 1].and(*set);
                found[index].add(more);
            }
        }
        found[count]
    }

    /// Highest number up to which none is missing; 0 if the first is.
    pub fn prefix(self) -> u8 {
        (self.0 | 1).trailing_ones() as u8 - 1
    }

    /// Highest number; 0 if there is none.
    pub fn highest(self) -> u8 {
        self.0.checked_ilog2().map_or(0, |highest| highest as u8)
    }

    pub fn add(&mut self, other: Numbers) {
        self.0 |= other.0;
    }
}

/// Set of events: for each run the exact set of numbers. A version vector with holes, in its naive form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSet([Numbers; RUNS]);

/// For each run the number up to which a set has all events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Prefix([u8; RUNS]);

impl Prefix {
    pub fn has(&self, dot: Dot) -> bool {
        dot.number <= self.0[dot.run.index()]
    }

    pub fn union(self, other: Prefix) -> Prefix {
        Prefix(std::array::from_fn(|run| self.0[run].max(other.0[run])))
    }
}

impl Default for EventSet {
    fn default() -> EventSet {
        EventSet([Numbers::EMPTY; RUNS])
    }
}

impl EventSet {
    pub fn has(&self, dot: Dot) -> bool {
        self.0[dot.run.index()].has(dot.number)
    }

    pub fn insert(&mut self, dot: Dot) {
        self.add(dot.run, Numbers::one(dot.number));
    }

    pub fn prefix(&self) -> Prefix {
        Prefix(std::array::from_fn(|run| self.0[run].prefix()))
    }

    pub fn of(&self, run: Run) -> Numbers {
        self.0[run.index()]
    }

    pub fn add(&mut self, run: Run, numbers: Numbers) {
        self.0[run.index()].add(numbers);
    }

    /// Adds everything that `run` ever made.
    pub fn retire(&mut self, run: Run) {
        self.add(run, Numbers::ALL);
    }

    /// Takes everything of `run` out.
    pub fn forget(&mut self, run: Run) {
        self.0[run.index()] = Numbers::EMPTY;
    }

    /// Of actors of QoS 2 numbers only.
    pub fn of_numbers(mut self) -> EventSet {
        for numbers in self.0.iter_mut().step_by(2) {
            *numbers = Numbers::EMPTY;
        }
        self
    }

    /// Adds, for actors of QoS 2 numbers, all numbers below the highest.
    pub fn fill_numbers(&mut self) {
        let of_numbers = self.0.iter_mut().skip(1).step_by(2);
        for numbers in of_numbers.filter(|numbers| !numbers.is_retired()) {
            *numbers = Numbers::up_to(numbers.highest());
        }
    }

    pub fn add_all(&mut self, other: &EventSet) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.add(*theirs);
        }
    }

    pub fn remove_all(&mut self, other: &EventSet) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.minus(*theirs);
        }
    }

    pub fn minus(mut self, other: &EventSet) -> EventSet {
        self.remove_all(other);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|numbers| numbers.is_empty())
    }

    /// Each event of this set is in `one` or in `other`.
    pub fn is_within(&self, one: &EventSet, other: &EventSet) -> bool {
        self.minus(one).minus(other).is_empty()
    }
}
