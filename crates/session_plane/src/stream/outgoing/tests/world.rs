//! World of a history: a stream, the naive stream beside it, and what each receiver got.

use std::collections::BTreeMap;

use super::naive::{Copy, NaiveEvent, Target, numbers_of};
use super::*;
use crate::Slot;
use crate::stream::NumberRange;

/// Receiver of one stream.
#[derive(Debug, Default)]
struct Receiver {
    /// Marker that begins the stream, once it came.
    welcome: Option<u64>,
    position: u64,
    /// Numbers of events, without those that came again.
    events: Vec<u64>,
    /// Resends that came and were not confirmed.
    resends: BTreeMap<ResendId, Vec<Copy>>,
}

#[derive(Debug)]
pub(crate) struct World {
    stream: OutgoingStream<u64>,
    naive: Naive,
    states: BTreeMap<NodeId, NodeState>,
    receivers: BTreeMap<NodeId, Receiver>,
    durable: Vec<Dot>,
    stable: u64,
}

impl World {
    pub(crate) fn new(copies_min: usize) -> World {
        let states = BTreeMap::from([(OWN, NodeState::Running)]);
        let limits = OutgoingLimits {
            events_max: 10_000,
            bytes_max: 10_000,
            rings_max: 1_000,
            copies_min,
        };
        World {
            stream: OutgoingStream::new(run(OWN), routing(&states), limits),
            naive: Naive::new(copies_min),
            states,
            receivers: BTreeMap::from([(OWN, Receiver::default())]),
            durable: Vec::new(),
            stable: 0,
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Push(slots, nodes) => self.push(slots, nodes),
            Step::SendEvents(peer, count) => self.send_events(node(*peer), *count),
            Step::SendPosition(peer) => self.send_position(node(*peer)),
            Step::Confirm(peer, to) => self.confirm_some(node(*peer), to),
            Step::SendResends(peer) => self.send_resends(node(*peer)),
            Step::ConfirmResend(peer, which) => self.confirm_resend(node(*peer), which),
            Step::BreakConnection(peer) => self.stream.restart_connection(node(*peer)),
            Step::Toggle(peer) if self.states.contains_key(&node(*peer)) => {
                self.give_up(node(*peer));
                self.mark(None);
            }
            Step::Toggle(peer) => self.welcome(node(*peer)),
            Step::GiveUpLate(peer) => {
                self.give_up(node(*peer));
                self.push_to(&SAMPLE_SLOTS.map(slot), BTreeSet::from([node(*peer)]));
                self.mark(None);
            }
            Step::ChangeState(peer, state) => {
                if let Some(present) = self.states.get_mut(&node(*peer)) {
                    *present = *state;
                    self.mark(None);
                }
            }
            Step::ConfirmWrongly(peer, number) => self.confirm_wrongly(node(*peer), *number),
        }
    }

    fn push(&mut self, slots: &[Index], nodes: &BTreeSet<u64>) {
        let chosen = slots.iter().map(|index| index.index(SAMPLE_SLOTS.len()));
        let chosen: BTreeSet<Slot> = chosen.map(|index| slot(SAMPLE_SLOTS[index])).collect();
        let chosen: Vec<Slot> = chosen.into_iter().collect();
        let nodes = nodes.iter().map(|id| node(*id)).collect();
        self.push_to(&chosen, nodes);
    }

    fn push_to(&mut self, slots: &[Slot], nodes: BTreeSet<NodeId>) {
        let routing = Arc::clone(self.stream.routing());
        self.naive
            .push(&routing, slots, &Target::Owners(nodes.clone()), None);
        let number = self.naive.number;
        let slots = slots.iter().copied().collect();
        let to = Recipients { slots, nodes };
        let pushed = self.stream.push(to, number, 1, &mut self.durable);
        assert_eq!(pushed.map(|dot| dot.number), Ok(number));
    }

    fn give_up(&mut self, peer: NodeId) {
        self.states.remove(&peer);
        self.receivers.remove(&peer);
        self.naive.give_up(peer);
        self.stream.give_up(peer, &mut self.durable);
    }

    fn welcome(&mut self, peer: NodeId) {
        self.states.insert(peer, NodeState::Running);
        self.receivers.insert(peer, Receiver::default());
        self.naive.welcome(peer);
        self.mark(Some(peer));
    }

    fn mark(&mut self, welcomed: Option<NodeId>) {
        let before = Arc::clone(self.stream.routing());
        self.naive.push(&before, &[], &Target::EveryPeer, welcomed);
        let new = routing(&self.states);
        let number = self.naive.number;
        let pushed = self.stream.push_marker(Arc::clone(&new), welcomed, number, 1);
        assert_eq!(pushed.map(|dot| dot.number), Ok(number));
        self.naive.resend(&new);
    }

    fn send_events(&mut self, peer: NodeId, count: usize) {
        for _ in 0..count {
            let Some(message) = self.stream.send_event(peer) else {
                return;
            };
            let (after, event) = match message {
                StreamMessage::Welcome(event) => (None, event),
                StreamMessage::Event { after, event } => (Some(after), event),
            };
            let number = event.dot.number;
            assert_eq!(event.payload, number);
            let receiver = self.receivers.get_mut(&peer).expect("a present peer");
            let welcome = *receiver.welcome.get_or_insert(number);
            assert_eq!(after.is_none(), number == welcome);
            assert!(after.is_none_or(|after| after <= receiver.position));
            if number > receiver.position {
                receiver.events.push(number);
                receiver.position = number;
            }
        }
    }

    fn send_position(&mut self, peer: NodeId) {
        let position = self.stream.send_position(peer);
        let Some(receiver) = self.receivers.get_mut(&peer) else {
            assert_eq!(position, None);
            return;
        };
        let Some(StreamPosition { after, number }) = position else {
            return;
        };
        let position = number;
        assert!(after <= receiver.position && after <= position);
        assert!(receiver.welcome.is_some_and(|welcome| welcome <= position));
        receiver.position = receiver.position.max(position);
        let needed = self.naive.streams[&peer].needed.range(..=position);
        let got = receiver.events.iter().filter(|number| **number <= position);
        assert!(got.eq(needed), "a position skips nothing that was needed");
    }

    fn confirm_some(&mut self, peer: NodeId, to: &Index) {
        let Some(position) = self.position(peer) else {
            return;
        };
        let confirmed = self.naive.streams[&peer].confirmed;
        if position >= confirmed {
            let span = usize::try_from(position - confirmed + 1).expect("histories are short");
            self.confirm(peer, confirmed + to.index(span) as u64);
        }
    }

    fn confirm(&mut self, peer: NodeId, number: u64) {
        self.naive.confirm(peer, number);
        let confirmed = self.stream.confirm(peer, number, &mut self.durable);
        assert_eq!(confirmed, Ok(()));
    }

    /// Position up to which a node can confirm.
    fn position(&self, peer: NodeId) -> Option<u64> {
        if peer == OWN {
            return Some(self.naive.number);
        }
        self.receivers.get(&peer).map(|receiver| receiver.position)
    }

    fn confirm_wrongly(&mut self, peer: NodeId, number: u64) {
        let (number, refused) = match self.naive.streams.get(&peer) {
            None => (number, ConfirmError::NotPresent { peer, number }),
            Some(stream) if number < stream.confirmed => {
                let confirmed = stream.confirmed;
                let refused = ConfirmError::GoesBack {
                    peer,
                    confirmed,
                    number,
                };
                (number, refused)
            }
            Some(stream) => {
                let sent = self.receivers[&peer].position.max(stream.confirmed);
                let number = sent + 1 + number;
                (number, ConfirmError::NeverSent { peer, sent, number })
            }
        };
        let confirmed = self.stream.confirm(peer, number, &mut self.durable);
        assert_eq!(confirmed, Err(refused));
        let id = ResendId(1_000_000);
        let confirmed = self.stream.confirm_resend(peer, id, &mut self.durable);
        assert_eq!(confirmed, Err(ConfirmError::UnknownResend { peer, id: id.0 }));
    }

    /// Pulls all resends to a node that are not in flight. With those that it has, they are what
    /// the naive stream resends.
    fn send_resends(&mut self, peer: NodeId) {
        let Some(receiver) = self.receivers.get_mut(&peer) else {
            assert!(self.stream.send_resend(peer).is_none());
            return;
        };
        while let Some(resend) = self.stream.send_resend(peer) {
            let slots = SAMPLE_SLOTS.map(slot).into_iter();
            let slots: Vec<Slot> = slots.filter(|slot| resend.slots.contains(*slot)).collect();
            let numbers = resend.numbers.first..=resend.numbers.last;
            let is_wanted =
                |(_, event): &(&u64, &NaiveEvent)| event.slots.iter().any(|slot| slots.contains(slot));
            let wanted = self.naive.events.range(numbers.clone()).filter(is_wanted);
            let events = resend.events.iter().map(|event| event.dot.number);
            assert!(events.eq(wanted.map(|(number, _)| *number)));
            let mut copies = Vec::new();
            for number in numbers {
                let at = |slot: &Slot| Copy {
                    slot: *slot,
                    number,
                    node: peer,
                };
                copies.extend(slots.iter().map(at));
            }
            receiver.resends.insert(resend.id, copies);
        }
        let pulled: BTreeSet<Copy> = receiver.resends.values().flatten().copied().collect();
        let wanted = self.naive.resent.iter().filter(|copy| copy.node == peer);
        assert_eq!(pulled, wanted.copied().collect());
    }

    fn confirm_resend(&mut self, peer: NodeId, which: &Index) {
        let Some(receiver) = self.receivers.get(&peer) else {
            return;
        };
        let ids: Vec<ResendId> = receiver.resends.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        self.confirm_resend_of(peer, ids[which.index(ids.len())]);
    }

    fn confirm_resend_of(&mut self, peer: NodeId, id: ResendId) {
        let receiver = self.receivers.get_mut(&peer).expect("a present peer");
        let copies = receiver.resends.remove(&id).expect("a resend that came");
        self.naive.confirm_resent(&copies);
        // After a broken connection a resend comes again, and is confirmed again.
        for _ in 0..2 {
            let confirmed = self.stream.confirm_resend(peer, id, &mut self.durable);
            assert_eq!(confirmed, Ok(()));
        }
    }

    #[track_caller]
    pub(crate) fn assert_equals_naive(&mut self) {
        let completed = self.naive.complete();
        let changes = completed.iter();
        let changes = changes.filter(|number| !self.naive.events[number].is_marker);
        let mut said: Vec<u64> = self.durable.drain(..).map(|dot| dot.number).collect();
        said.sort_unstable();
        assert!(said.iter().eq(changes), "said {said:?} of {completed:?}");
        let kept: Vec<u64> = self.stream.kept().map(|event| event.dot.number).collect();
        assert_eq!(kept, self.naive.kept());
        assert_eq!(self.stream.kept_bytes(), self.stream.kept().count());
        assert_eq!(self.stream.stable(), self.naive.stable());
        assert!(self.stable <= self.stream.stable(), "it never goes back");
        self.stable = self.stream.stable();
        for slot in SAMPLE_SLOTS.map(slot) {
            self.assert_unconfirmed(slot);
        }
    }

    #[track_caller]
    fn assert_unconfirmed(&self, slot: Slot) {
        let unconfirmed = self.stream.unconfirmed(slot);
        let numbers = numbers_of(&unconfirmed.numbers);
        assert_eq!(numbers, self.naive.unconfirmed(slot));
        let are_apart = |one: &NumberRange, other: &NumberRange| one.last + 1 < other.first;
        assert!(unconfirmed.numbers.is_sorted_by(are_apart), "{unconfirmed:?}");
        let events = unconfirmed.events.iter().map(|event| event.dot.number);
        let all = self.naive.events.iter();
        let of_slot = all.filter(|(number, event)| numbers.contains(number) && event.slots.contains(&slot));
        assert!(events.eq(of_slot.map(|(number, _)| *number)));
    }

    /// All peers come back, and everything is sent and confirmed.
    pub(crate) fn come_to_rest(&mut self) {
        for peer in (2..=5).map(node) {
            if !self.states.contains_key(&peer) {
                self.welcome(peer);
            }
        }
        for peer in (1..=5).map(node) {
            if peer != OWN {
                self.send_events(peer, usize::MAX);
                self.send_position(peer);
            }
            self.confirm(peer, self.naive.number);
            self.send_resends(peer);
            let ids: Vec<ResendId> = self.receivers[&peer].resends.keys().copied().collect();
            for id in ids {
                self.confirm_resend_of(peer, id);
            }
        }
    }

    #[track_caller]
    pub(crate) fn assert_at_rest(&self) {
        assert_eq!(self.stream.kept().count(), 0);
        assert_eq!(self.stream.epochs.len(), 1, "older rings are forgotten");
        for (peer, receiver) in self.receivers.iter().filter(|(peer, _)| **peer != OWN) {
            assert!(receiver.events.iter().eq(&self.naive.streams[peer].needed));
        }
    }
}
