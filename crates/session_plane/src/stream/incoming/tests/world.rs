//! World of a history: an outgoing stream, one receiver of it, and naive sets of what it takes.

use super::*;
use crate::SlotSet;

/// What the receiver has, number by number.
#[derive(Debug, Default)]
struct Naive {
    begin: u64,
    position: u64,
    /// Numbers that were taken in sample slots.
    taken: BTreeSet<(Slot, u64)>,
    /// Events that came, in order.
    events: Vec<u64>,
    /// Those that are kept for passing on, and the number before them.
    kept: Vec<u64>,
    kept_from: u64,
    since: BTreeMap<Slot, u64>,
}

#[derive(Debug)]
pub(super) struct World {
    sender: OutgoingStream<()>,
    states: BTreeMap<NodeId, NodeState>,
    /// Ring by which each number was routed.
    routings: BTreeMap<u64, Arc<Routing>>,
    /// Numbers that the receiver needs.
    needed: BTreeSet<u64>,
    receiver: IncomingStream<()>,
    events_max: usize,
    naive: Naive,
    /// A lost event was needed.
    has_lost: bool,
}

impl World {
    pub(super) fn new(events_max: usize) -> World {
        let states = BTreeMap::from([(OWN, NodeState::Running)]);
        let limits = OutgoingLimits {
            events_max: 10_000,
            bytes_max: 10_000,
            rings_max: 1_000,
            copies_min: 1,
        };
        let bytes_max = 1_000;
        let mut world = World {
            sender: OutgoingStream::new(run(OWN), routing(&states), limits),
            states,
            routings: BTreeMap::new(),
            needed: BTreeSet::new(),
            receiver: IncomingStream::new(
                RECEIVER,
                run(OWN),
                IncomingLimits {
                    events_max,
                    bytes_max,
                },
            ),
            events_max,
            naive: Naive::default(),
            has_lost: false,
        };
        world.welcome(RECEIVER);
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Push(index) => self.push(slot(SAMPLE_SLOTS[index.index(SAMPLE_SLOTS.len())])),
            Step::SendEvents(count) => self.send_events(*count),
            Step::SendPosition => self.send_position(),
            Step::LoseEvent => self.lose_event(),
            Step::BreakConnection => self.break_connection(),
            Step::Persist(to) => {
                let (durable, position) = (self.receiver.durable(), self.receiver.position());
                let span = usize::try_from(position - durable + 1).expect("histories are short");
                self.receiver.persisted(durable + to.index(span) as u64);
            }
            Step::Confirm => {
                let durable = self.receiver.durable();
                // Before its Welcome came, a receiver has nothing to confirm.
                if self.is_begun() {
                    let confirmed = self.sender.confirm(RECEIVER, durable, &mut Vec::new());
                    assert_eq!(confirmed, Ok(()));
                }
            }
            Step::SendStable => self.send_stable(),
            Step::ToggleOther(peer) => self.toggle(node(*peer)),
            Step::WelcomeAnew => {
                self.give_up(RECEIVER);
                self.mark(None);
                self.welcome(RECEIVER);
                self.receiver.begin_stay();
                self.break_connection();
            }
            Step::Flush(from) => {
                let span = usize::try_from(self.receiver.position() + 1).expect("histories are short");
                self.flush(from.index(span) as u64);
            }
        }
    }

    fn push(&mut self, slot: Slot) {
        let is_owner = self.sender.routing().ring().is_owner(RECEIVER, slot);
        let ring = Arc::clone(self.sender.routing());
        let slots: SlotSet = [slot].into_iter().collect();
        let pushed = self.sender.push(slots.into(), (), 1, &mut Vec::new());
        let number = pushed.expect("room").number;
        self.routings.insert(number, ring);
        if is_owner || slot.is_of_every_node() {
            self.needed.insert(number);
        }
    }

    fn toggle(&mut self, peer: NodeId) {
        if self.states.contains_key(&peer) {
            self.give_up(peer);
            self.mark(None);
        } else {
            self.welcome(peer);
        }
    }

    fn give_up(&mut self, peer: NodeId) {
        self.states.remove(&peer);
        self.sender.give_up(peer, &mut Vec::new());
    }

    fn welcome(&mut self, peer: NodeId) {
        self.states.insert(peer, NodeState::Running);
        self.mark(Some(peer));
    }

    fn mark(&mut self, welcomed: Option<NodeId>) {
        let before = Arc::clone(self.sender.routing());
        let new = routing(&self.states);
        let marker = self.sender.push_marker(new, welcomed, (), 1).expect("room");
        self.routings.insert(marker.number, before);
        if welcomed == Some(RECEIVER) {
            self.needed = BTreeSet::from([marker.number]);
        } else if self.states.contains_key(&RECEIVER) {
            self.needed.insert(marker.number);
        }
    }

    fn send_events(&mut self, count: usize) {
        for _ in 0..count {
            let Some(message) = self.sender.send_event(RECEIVER) else {
                return;
            };
            let (after, event) = match message {
                StreamMessage::Welcome(event) => (None, event.clone()),
                StreamMessage::Event { after, event } => (Some(after), event.clone()),
            };
            let received = match after {
                None => self.receiver.receive_welcome(event.clone(), 1),
                Some(after) => self.receiver.receive_event(after, event.clone(), 1),
            };
            if self.has_lost {
                assert!(received.is_err(), "a lost event shows at the next one");
                self.break_connection();
                continue;
            }
            self.check_received(&event, received.expect("in order"));
        }
    }

    fn check_received(&mut self, event: &StreamEvent<()>, received: Received) {
        let number = event.dot.number;
        let gained = match received {
            Received::Again => {
                assert!(number <= self.naive.position);
                return;
            }
            Received::Begun { gained } => {
                self.naive = Naive {
                    begin: number,
                    position: number,
                    kept_from: number - 1,
                    ..Naive::default()
                };
                gained
            }
            Received::Taken { numbers, gained } => {
                assert_eq!(numbers.last, number);
                self.take(numbers);
                gained
            }
        };
        self.naive.events.push(number);
        self.naive.kept.push(number);
        while self.naive.kept.len() > self.events_max {
            self.naive.kept_from = self.naive.kept.remove(0);
        }
        if let EventKind::RingMarker(routing) = &event.kind {
            self.check_gained(number, routing, &gained);
        } else {
            assert!(gained.is_empty());
        }
    }

    fn check_gained(&mut self, number: u64, routing: &Routing, gained: &SlotSet) {
        for slot in SAMPLE_SLOTS.map(slot) {
            let is_owner = routing.ring().is_owner(RECEIVER, slot);
            let is_new = is_owner && !self.naive.since.contains_key(&slot);
            assert_eq!(gained.contains(slot), is_new);
            if is_new {
                self.naive.since.insert(slot, number);
            }
            if !is_owner {
                self.naive.since.remove(&slot);
            }
        }
    }

    /// Takes numbers as the node will: by the ring of the first.
    fn take(&mut self, numbers: NumberRange) {
        assert_eq!(numbers.first, self.naive.position + 1);
        self.naive.position = numbers.last;
        let owned = self.receiver.owned_at(numbers.first).expect("a ring in force");
        for number in numbers.first..=numbers.last {
            let slots = SAMPLE_SLOTS.map(slot).into_iter();
            let slots = slots.filter(|slot| owned.contains(*slot));
            self.naive.taken.extend(slots.map(|slot| (slot, number)));
        }
    }

    fn send_position(&mut self) {
        let Some(position) = self.sender.send_position(RECEIVER) else {
            return;
        };
        let received = self.receiver.receive_position(position);
        if self.has_lost {
            assert!(received.is_err(), "a lost event shows at the next position");
            self.break_connection();
            return;
        }
        if let Some(numbers) = received.expect("in order") {
            self.take(numbers);
        }
    }

    fn lose_event(&mut self) {
        let number = match self.sender.send_event(RECEIVER) {
            Some(StreamMessage::Welcome(event) | StreamMessage::Event { event, .. }) => event.dot.number,
            None => return,
        };
        let has_it = self.is_begun() && number <= self.naive.position;
        self.has_lost |= !has_it;
    }

    /// The receiver has the Welcome of the present stream.
    fn is_begun(&self) -> bool {
        self.needed.first() == Some(&self.receiver.begin)
    }

    fn break_connection(&mut self) {
        self.has_lost = false;
        self.sender.restart_connection(RECEIVER);
        self.receiver.restart_connection();
    }

    fn send_stable(&mut self) {
        if self.is_begun() {
            let stable = self.sender.stable();
            assert_eq!(self.receiver.receive_stable(stable), Ok(()));
            self.naive.kept.retain(|number| *number > stable);
            self.naive.kept_from = self.naive.kept_from.max(stable);
        }
    }

    fn flush(&self, from: u64) {
        let flush = self.receiver.flush(from);
        assert_eq!(flush.from, from.max(self.naive.kept_from));
        assert_eq!(flush.to, self.naive.position);
        let kept = self.naive.kept.iter().filter(|number| **number > from);
        assert!(
            flush
                .events
                .iter()
                .map(|event| event.dot.number)
                .eq(kept.copied())
        );
        let first = flush.from + 1;
        let within = |part: &FlushedSlots<'_>| first <= part.numbers.first && part.numbers.last <= flush.to;
        assert!(flush.slots.iter().all(within));
        if first > self.naive.begin && first <= flush.to {
            assert_eq!(flush.base, Some(&self.routings[&first]));
        }
        for number in first..=flush.to {
            let parts = flush.slots.iter().filter(|part| part.numbers.contains(number));
            for slot in SAMPLE_SLOTS.map(slot) {
                let is_covered = parts.clone().any(|part| part.slots.contains(slot));
                assert_eq!(is_covered, self.naive.taken.contains(&(slot, number)));
            }
        }
    }

    #[track_caller]
    pub(super) fn assert_equals_naive(&self) {
        let naive = &self.naive;
        assert_eq!(self.receiver.position(), naive.position);
        for slot in SAMPLE_SLOTS.map(slot) {
            assert_eq!(self.receiver.owner_since(slot), naive.since.get(&slot).copied());
            for number in self.receiver.begin + 1..=naive.position {
                let is_owner = self.routings[&number].ring().is_owner(RECEIVER, slot);
                assert_eq!(naive.taken.contains(&(slot, number)), is_owner);
            }
        }
        let kept_rings = self.receiver.owned.rings_count();
        assert!(
            kept_rings <= self.events_max + 2,
            "rings are kept with their events"
        );
    }

    /// A new connection brings everything.
    pub(super) fn come_to_rest(&mut self) {
        self.break_connection();
        self.send_events(usize::MAX);
        self.send_position();
    }

    /// All events of the present stream came, each once and in order.
    #[track_caller]
    pub(super) fn assert_has_all(&self) {
        assert!(self.is_begun());
        assert!(self.naive.events.iter().eq(&self.needed));
    }
}
