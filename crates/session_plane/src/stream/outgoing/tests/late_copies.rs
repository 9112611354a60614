//! Late copies: a giving ends when all that it went to have it, or were given up.

use std::collections::BTreeMap;

use super::*;
use crate::SlotSet;

#[derive(Debug, Clone)]
enum Step {
    Give(BTreeSet<u64>),
    Send(u64),
    Confirm(u64, Index),
    BreakConnection(u64),
    /// Gives a present peer up, or welcomes an absent one.
    Toggle(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nodes = || 1..=5_u64;
    let peers = || 2..=5_u64;
    let step = prop_oneof![
        4 => proptest::collection::btree_set(nodes(), 0..4).prop_map(Step::Give),
        4 => nodes().prop_map(Step::Send),
        8 => (nodes(), any::<Index>()).prop_map(|(node, which)| Step::Confirm(node, which)),
        1 => peers().prop_map(Step::BreakConnection),
        1 => peers().prop_map(Step::Toggle),
    ];
    proptest::collection::vec(step, 0..60)
}

/// Stream, and who lacks what.
struct Givings {
    stream: OutgoingStream<u64>,
    states: BTreeMap<NodeId, NodeState>,
    /// Nodes that have not confirmed, by the number of the event: each giving has an event of its own.
    missing: BTreeMap<u64, BTreeSet<NodeId>>,
    /// Events that came and were not confirmed.
    arrived: BTreeMap<NodeId, BTreeMap<ResendId, u64>>,
    /// Givings that are to end.
    ended: Vec<GivingId>,
    last: u64,
}

impl Givings {
    fn new() -> Givings {
        let states = BTreeMap::from([(OWN, NodeState::Running)]);
        let limits = OutgoingLimits {
            events_max: 1_000,
            bytes_max: 1_000,
            rings_max: 1_000,
            copies_min: 1,
        };
        let mut givings = Givings {
            stream: OutgoingStream::new(run(OWN), routing(&states), limits),
            states,
            missing: BTreeMap::new(),
            arrived: BTreeMap::new(),
            ended: Vec::new(),
            last: 0,
        };
        (2..=4).for_each(|peer| givings.toggle(node(peer)));
        givings
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Give(to) => self.give(to),
            Step::Send(to) => self.send(node(*to)),
            Step::Confirm(from, which) => self.confirm(node(*from), which),
            Step::BreakConnection(peer) => self.stream.restart_connection(node(*peer)),
            Step::Toggle(peer) => self.toggle(node(*peer)),
        }
        self.assert_ended();
    }

    fn give(&mut self, to: &BTreeSet<u64>) {
        self.last += 1;
        let number = self.last;
        let slots: SlotSet = [slot(1)].into_iter().collect();
        let event = StreamEvent {
            dot: Dot {
                run: run(OWN),
                number,
            },
            kind: EventKind::Change(slots.clone()),
            payload: 0,
        };
        let to: Vec<NodeId> = to.iter().copied().map(node).collect();
        assert_eq!(self.stream.give(&event, &slots, &to), GivingId(number));
        let present = to.into_iter().filter(|node| self.states.contains_key(node));
        self.missing.insert(number, present.collect());
        self.end_complete();
    }

    /// Pulls what is for a node: with what it has, that is all that it lacks.
    fn send(&mut self, to: NodeId) {
        while let Some(resend) = self.stream.send_resend(to) {
            if resend.events.is_empty() {
                // Numbers of ring markers, which nobody confirms here.
                continue;
            }
            let number = resend.numbers.first;
            assert_eq!(resend.numbers, crate::stream::NumberRange::one(number));
            assert!(resend.events.iter().map(|event| event.dot.number).eq([number]));
            self.arrived.entry(to).or_default().insert(resend.id, number);
        }
        let arrived = self.arrived.get(&to).into_iter().flat_map(BTreeMap::values);
        let arrived: BTreeSet<u64> = arrived.copied().collect();
        let lacking = self.missing.iter().filter(|(_, missing)| missing.contains(&to));
        assert_eq!(arrived, lacking.map(|(number, _)| *number).collect());
    }

    fn confirm(&mut self, from: NodeId, which: &Index) {
        let ids = self.arrived.get(&from).into_iter().flat_map(BTreeMap::keys);
        let ids: Vec<ResendId> = ids.copied().collect();
        if !ids.is_empty() {
            self.confirm_one(from, ids[which.index(ids.len())]);
        }
    }

    fn confirm_one(&mut self, from: NodeId, id: ResendId) {
        let arrived = self.arrived.get_mut(&from);
        let number = arrived.and_then(|arrived| arrived.remove(&id));
        // After a broken connection it comes again, and is confirmed again.
        for _ in 0..2 {
            assert_eq!(self.stream.confirm_resend(from, id, &mut Vec::new()), Ok(()));
        }
        if let Some(missing) = number.and_then(|number| self.missing.get_mut(&number)) {
            missing.remove(&from);
        }
        self.end_complete();
    }

    fn confirm_all(&mut self, from: NodeId) {
        let ids = self.arrived.get(&from).into_iter().flat_map(BTreeMap::keys);
        for id in ids.copied().collect::<Vec<ResendId>>() {
            self.confirm_one(from, id);
            self.assert_ended();
        }
    }

    fn toggle(&mut self, peer: NodeId) {
        let welcomed = self.states.remove(&peer).is_none();
        if welcomed {
            self.states.insert(peer, NodeState::Running);
        } else {
            self.stream.give_up(peer, &mut Vec::new());
            self.arrived.remove(&peer);
            for missing in self.missing.values_mut() {
                missing.remove(&peer);
            }
        }
        let welcomed = welcomed.then_some(peer);
        let marked = self.stream.push_marker(routing(&self.states), welcomed, 0, 0);
        assert!(marked.is_ok());
        self.end_complete();
    }

    fn end_complete(&mut self) {
        let complete = self.missing.iter().filter(|(_, missing)| missing.is_empty());
        self.ended.extend(complete.map(|(number, _)| GivingId(*number)));
        self.missing.retain(|_, missing| !missing.is_empty());
    }

    #[track_caller]
    fn assert_ended(&mut self) {
        let mut said = self.stream.take_given();
        said.sort_unstable();
        assert_eq!(said, std::mem::take(&mut self.ended));
        assert_eq!(self.stream.givings(), self.missing.len());
    }
}

proptest! {
    #[test]
    fn a_giving_ends_when_nobody_lacks_it(steps in steps()) {
        let mut givings = Givings::new();
        for step in &steps {
            givings.step(step);
        }
        for node in (1..=5).map(node) {
            givings.send(node);
            givings.confirm_all(node);
        }
        prop_assert_eq!(givings.stream.givings(), 0);
    }
}
