//! Survivors of a run pass its last events on, from one to the next.

use super::*;
use crate::stream::{ReceivedFlush, TakenFlush};

/// Survivors: the first has most of the run.
const SURVIVORS: [NodeId; 3] = [NodeId(2), NodeId(3), NodeId(4)];

/// Event of the run, as it was routed.
struct Routed {
    number: u64,
    kind: EventKind,
    ring: Arc<Routing>,
}

/// Run whose events some survivors have, and what each has of each sample slot.
struct Run {
    routed: Vec<Routed>,
    streams: Vec<IncomingStream<()>>,
    /// Numbers that each survivor has taken.
    taken: Vec<BTreeSet<(Slot, u64)>>,
    /// Position that each survivor has by the run's own stream.
    by_stream: Vec<u64>,
}

fn of(number: u64, kind: EventKind) -> StreamEvent<()> {
    let run = run(OWN);
    StreamEvent {
        dot: Dot { run, number },
        kind,
        payload: (),
    }
}

fn ring_of(nodes: &BTreeSet<u64>) -> Arc<Routing> {
    let running = nodes.iter().map(|id| (node(*id), NodeState::Running));
    let own = [(OWN, NodeState::Running)];
    routing(&running.chain(own).collect())
}

/// Events of the run: a slot of a change, or the node that a marker leaves out.
fn routed(draws: &[(usize, Option<u64>)]) -> Vec<Routed> {
    let all = BTreeSet::from([2, 3, 4, 5, 6]);
    let mut ring = ring_of(&all);
    let mut routed = vec![Routed {
        number: 1,
        kind: EventKind::RingMarker(Arc::clone(&ring)),
        ring: Arc::clone(&ring),
    }];
    for (number, (slot_at, without)) in (2..).zip(draws) {
        let before = Arc::clone(&ring);
        let kind = match without {
            Some(without) => {
                let mut nodes = all.clone();
                nodes.remove(without);
                ring = ring_of(&nodes);
                EventKind::RingMarker(Arc::clone(&ring))
            }
            None => EventKind::Change([slot(SAMPLE_SLOTS[*slot_at])].into_iter().collect()),
        };
        let ring = before;
        routed.push(Routed { number, kind, ring });
    }
    routed
}

impl Run {
    /// Survivors that have the run up to the numbers `has`.
    fn new(draws: &[(usize, Option<u64>)], has: &[u64; 3], events_max: usize) -> Run {
        let limits = IncomingLimits {
            events_max,
            bytes_max: 1_000,
        };
        let stream = |node| IncomingStream::new(node, run(OWN), limits);
        let routed = routed(draws);
        let mut run = Run {
            routed,
            streams: SURVIVORS.map(stream).into(),
            taken: vec![BTreeSet::new(); 3],
            by_stream: Vec::new(),
        };
        for (survivor, has) in has.iter().enumerate() {
            run.stream_to(survivor, *has);
            run.by_stream.push(run.streams[survivor].position());
        }
        run
    }

    /// The run itself sends `survivor` what it needs up to `to`.
    fn stream_to(&mut self, survivor: usize, to: u64) {
        let (stream, node) = (&mut self.streams[survivor], SURVIVORS[survivor]);
        for event in self.routed.iter().filter(|event| event.number <= to.max(1)) {
            let owned = |slot: &Slot| event.ring.ring().is_owner(node, *slot);
            let after = event.number - 1;
            let received = match &event.kind {
                EventKind::RingMarker(_) if after == 0 => {
                    stream.receive_welcome(of(1, event.kind.clone()), 1).map(drop)
                }
                EventKind::Change(slots) if !slots.iter().any(|slot| owned(&slot)) => {
                    let number = event.number;
                    stream
                        .receive_position(StreamPosition { after, number })
                        .map(drop)
                }
                kind => stream
                    .receive_event(after, of(event.number, kind.clone()), 1)
                    .map(drop),
            };
            received.expect("the next event");
            let slots = SAMPLE_SLOTS.map(slot).into_iter().filter(owned);
            self.taken[survivor].extend(slots.filter(|_| after > 0).map(|slot| (slot, event.number)));
        }
    }

    /// Passes on from one survivor to another, and checks the effect number by number.
    fn flush(&mut self, from: usize, to: usize) {
        let position = self.streams[to].position();
        let flush = ReceivedFlush::from(&self.streams[from].flush(position));
        let taken = self.streams[to].receive_flush(&flush, |_| 1).expect("a flush");
        assert_eq!(self.streams[to].position(), position.max(flush.to));
        if flush.to <= position {
            assert_eq!(taken, TakenFlush::default());
            return;
        }
        let skipped = taken.skipped.map_or(position, |skipped| skipped.last);
        assert_eq!(skipped, flush.from);
        for number in skipped + 1..=flush.to {
            self.check_number(&flush, &taken, number, (from, to));
        }
    }

    /// A number is taken where this node owned the slot, and the other had it or has its event.
    fn check_number(
        &mut self,
        flush: &ReceivedFlush<()>,
        taken: &TakenFlush,
        number: u64,
        (from, to): (usize, usize),
    ) {
        let routed = &self.routed[number as usize - 1];
        let mut parts = taken.parts.iter();
        let part = parts.find(|part| part.numbers.contains(number)).expect("a part");
        let has_event = flush.events.iter().any(|event| event.dot.number == number);
        for slot in SAMPLE_SLOTS.map(slot) {
            let is_owner = routed.ring.ring().is_owner(SURVIVORS[to], slot);
            let (is_taken, is_lacking) = (part.taken.contains(slot), part.lacking.contains(slot));
            assert_eq!(is_taken || is_lacking, is_owner, "{slot:?} at {number}");
            if is_taken {
                let has = self.taken[from].contains(&(slot, number));
                assert!(has || has_event, "{slot:?} at {number} is not known there");
            }
            if is_taken || is_lacking && has_event {
                self.taken[to].insert((slot, number));
            }
            let is_other_owner = routed.ring.ring().is_owner(SURVIVORS[from], slot);
            if is_owner && is_other_owner && number <= self.by_stream[from] {
                assert!(is_taken, "{slot:?} at {number} was taken there");
            }
        }
    }

    /// No survivor takes a number of a change of a slot whose event it was not given.
    fn assert_no_event_is_lost(&self) {
        for routed in &self.routed {
            let EventKind::Change(slots) = &routed.kind else {
                continue;
            };
            let slot = slots.iter().next().expect("one slot");
            for (survivor, taken) in self.taken.iter().enumerate() {
                let kept = self.streams[survivor].flush(0);
                let has_event = kept.events.iter().any(|event| event.dot.number == routed.number);
                let is_kept = routed.number > kept.from;
                let is_lost = taken.contains(&(slot, routed.number)) && is_kept && !has_event;
                assert!(!is_lost, "{survivor} lacks {}", routed.number);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn survivors_take_what_others_have_and_no_more(
        draws in proptest::collection::vec(
            (0..SAMPLE_SLOTS.len(), proptest::option::weighted(0.2, 5..=6_u64)),
            1..24,
        ),
        has in [0..26_u64, 0..26_u64, 0..26_u64],
        events_max in 2..30_usize,
    ) {
        let mut run = Run::new(&draws, &has, events_max);
        let mut order = [0, 1, 2];
        order.sort_by_key(|survivor| std::cmp::Reverse(run.by_stream[*survivor]));
        // The second passes on what it was given, too.
        let [most, second, least] = order;
        run.flush(most, second);
        run.flush(second, least);
        run.flush(most, least);
        run.flush(least, most);
        run.assert_no_event_is_lost();
    }
}
