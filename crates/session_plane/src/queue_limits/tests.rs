//! Limits of queues: queues that become longer, against a naive model that drops one message at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::feed::QueueKey;
use crate::{ClientId, DecidingNode, Dot, Run};

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Wall clock of all drops.
const WALL: u64 = 1_000;

fn place(number: u8) -> QueuePlace {
    let client = ClientId::new(&[number]).expect("a short id");
    let slot = Slot::of_client(client.as_bytes());
    QueuePlace { slot, client }
}

fn key(clock: u64, number: u64) -> QueueKey {
    let run = Run {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    QueueKey {
        clock: Hlc::at(clock),
        dot: Dot { run, number },
    }
}

/// Queue with limits, of which one message after the other is dropped.
fn naive(mut queue: Vec<QueuedWeight>, limits: &QueueLimits) -> Vec<QueuedWeight> {
    queue.retain(|message| message.bytes <= limits.bytes_max);
    queue.sort_by_key(|message| message.key);
    loop {
        let bytes: u64 = queue.iter().map(|message| message.bytes).sum();
        let has_room = queue.len() as u64 <= limits.messages_max.max(1) && bytes <= limits.bytes_max;
        if has_room {
            return queue;
        }
        let expired = queue
            .iter()
            .position(|message| message.expires_at.is_some_and(|at| at <= WALL));
        let last = queue.len() - 1;
        queue.remove(expired.unwrap_or(match limits.full {
            QueueFull::DropOldest => 0,
            QueueFull::DropNewest => last,
        }));
    }
}

fn queues() -> impl Strategy<Value = Vec<QueuedWeight>> {
    let expiry = prop::option::of(WALL - 2..WALL + 2);
    let message = (0..40_u64, 0..60_u64, expiry);
    prop::collection::vec(message, 0..700).prop_map(|messages| {
        let numbered = (1..).zip(messages);
        let weights = numbered.map(|(number, (clock, bytes, expires_at))| QueuedWeight {
            key: key(clock, number),
            bytes,
            expires_at,
        });
        weights.collect()
    })
}

fn any_limits() -> impl Strategy<Value = QueueLimits> {
    let full = prop_oneof![Just(QueueFull::DropOldest), Just(QueueFull::DropNewest)];
    (0..700_u64, 40..20_000_u64, full).prop_map(|(messages_max, bytes_max, full)| QueueLimits {
        messages_max,
        bytes_max,
        full,
        dropping_max: 1,
    })
}

/// Events that drop messages of a queue, until nothing is left to drop.
fn drop_all(queue: &mut Vec<QueuedWeight>, limits: &QueueLimits) -> Vec<usize> {
    let mut events = Vec::new();
    loop {
        let mut excess = Excess::new(limits, WALL, QueueLimits::MESSAGES_OF_A_CHANGE);
        queue.iter().for_each(|message| excess.add(*message));
        let victims: BTreeSet<Dot> = excess.victims().iter().map(|victim| victim.message).collect();
        if victims.is_empty() {
            return events;
        }
        events.push(victims.len());
        queue.retain(|message| !victims.contains(&message.key.dot));
    }
}

proptest! {
    /// Whatever has come, in whatever order it is read: what stays is what the naive queue has.
    #[test]
    fn what_stays_is_the_naive_queue(queue in queues().prop_shuffle(), limits in any_limits()) {
        let expected = naive(queue.clone(), &limits);
        let mut left = queue.clone();
        let events = drop_all(&mut left, &limits);
        left.sort_by_key(|message| message.key);
        prop_assert_eq!(&left, &expected);
        let dropped = queue.len() - expected.len();
        prop_assert_eq!(events.iter().sum::<usize>(), dropped);
        prop_assert_eq!(events.len(), dropped.div_ceil(QueueLimits::MESSAGES_OF_A_CHANGE));
    }
}

fn limits(messages_max: u64, bytes_max: u64, full: QueueFull) -> QueueLimits {
    QueueLimits {
        messages_max,
        bytes_max,
        full,
        dropping_max: 1,
    }
}

fn victims(queue: &[QueuedWeight], limits: &QueueLimits) -> Vec<(u64, DropReason)> {
    let mut excess = Excess::new(limits, WALL, QueueLimits::MESSAGES_OF_A_CHANGE);
    queue.iter().for_each(|message| excess.add(*message));
    let victims = excess.victims().into_iter();
    victims
        .map(|victim| (victim.message.number, victim.reason))
        .collect()
}

fn message(number: u64, bytes: u64, expires_at: Option<u64>) -> QueuedWeight {
    QueuedWeight {
        key: key(number, number),
        bytes,
        expires_at,
    }
}

#[test]
fn each_victim_has_its_reason() {
    let queue = [
        message(1, 300, None),
        message(2, 300, None),
        message(3, 1_001, None),
        message(4, 300, Some(WALL)),
        message(5, 500, None),
    ];
    let oldest = limits(3, 1_000, QueueFull::DropOldest);
    let expected = [
        (3, DropReason::QueueBytes),
        (4, DropReason::Expired),
        (1, DropReason::QueueBytes),
    ];
    assert_eq!(victims(&queue, &oldest), expected);
    let newest = limits(1, 10_000, QueueFull::DropNewest);
    let expected = [
        (4, DropReason::Expired),
        (5, DropReason::QueueMessages),
        (3, DropReason::QueueMessages),
        (2, DropReason::QueueMessages),
    ];
    assert_eq!(victims(&queue, &newest), expected);
}

#[test]
fn what_has_expired_stays_while_there_is_room() {
    let queue = [message(1, 1, Some(WALL)), message(2, 1, None)];
    assert_eq!(victims(&queue, &limits(2, 2, QueueFull::DropOldest)), []);
}

#[test]
fn one_message_always_has_room() {
    let none = limits(0, 10, QueueFull::DropNewest);
    assert_eq!(victims(&[message(1, 10, None)], &none), []);
    assert_eq!(
        victims(&[message(1, 11, None)], &none),
        [(1, DropReason::QueueBytes)]
    );
}

/// Sizes of queues at a node that decides about all slots, or about none.
#[derive(Debug, Default)]
struct Node {
    decides: bool,
    sizes: BTreeMap<QueuePlace, QueueSize>,
}

impl Node {
    fn with(messages: impl IntoIterator<Item = (u8, u64)>) -> Node {
        let sizes = messages.into_iter().map(|(number, messages)| {
            let size = QueueSize { messages, bytes: 0 };
            (place(number), size)
        });
        Node {
            decides: true,
            sizes: sizes.collect(),
        }
    }
}

impl DecidingNode for Node {
    fn decides(&self, _: Slot) -> bool {
        self.decides
    }
}

impl QueueState for Node {
    fn decided(&self) -> Vec<Slot> {
        let slots = self.sizes.keys().map(|place| place.slot);
        slots.filter(|_| self.decides).collect()
    }

    fn queues_beyond(&self, slot: Slot, limits: &QueueLimits) -> Vec<QueuePlace> {
        let of_slot = self.sizes.iter().filter(|(place, _)| place.slot == slot);
        let beyond = of_slot.filter(|(_, size)| size.is_beyond(limits));
        beyond.map(|(place, _)| place.clone()).collect()
    }

    fn size(&self, place: &QueuePlace) -> QueueSize {
        self.sizes.get(place).copied().unwrap_or_default()
    }
}

fn tick(limiting: &mut QueueLimiting, now: Instant, node: &Node) -> Vec<QueuePlace> {
    let mut places = Vec::new();
    limiting.tick(now, node, &mut places);
    places
}

#[test]
fn a_tick_drops_of_as_many_queues_as_it_may_and_the_rest_stays_due() {
    let mut limiting = QueueLimiting::new(limits(5, 100, QueueFull::DropOldest));
    let node = Node::with([(1, 6), (2, 5), (3, 7)]);
    limiting.step(*ORIGIN, QueueEvent::RingChanged, &node);
    assert_eq!((limiting.waiting(), limiting.deadline()), (2, Some(*ORIGIN)));
    let first = tick(&mut limiting, *ORIGIN, &node);
    assert_eq!(first.len(), 1);
    assert_eq!(tick(&mut limiting, *ORIGIN, &node), []);
    let second = tick(&mut limiting, *ORIGIN + DROP_EVERY, &node);
    let dropped: BTreeSet<QueuePlace> = first.into_iter().chain(second).collect();
    assert_eq!(dropped, BTreeSet::from([place(1), place(3)]));
    assert_eq!((limiting.waiting(), limiting.deadline()), (2, None));
    for place in dropped {
        limiting.step(*ORIGIN, QueueEvent::Made(place), &node);
    }
    assert_eq!((limiting.waiting(), limiting.deadline()), (0, None));
}

#[test]
fn a_queue_that_has_changed_meanwhile_is_looked_at_again() {
    let mut limiting = QueueLimiting::new(limits(5, 100, QueueFull::DropOldest));
    let mut node = Node::with([(1, 6)]);
    let changed = || QueueEvent::Changed(place(1));
    limiting.step(*ORIGIN, changed(), &node);
    assert_eq!(tick(&mut limiting, *ORIGIN, &node), [place(1)]);
    limiting.step(*ORIGIN, changed(), &node);
    assert_eq!(limiting.deadline(), None);
    limiting.step(*ORIGIN, QueueEvent::Made(place(1)), &node);
    assert_eq!(limiting.deadline(), Some(*ORIGIN + DROP_EVERY));
    node.decides = false;
    assert_eq!(tick(&mut limiting, *ORIGIN + DROP_EVERY, &node), []);
    assert_eq!(limiting.waiting(), 0);
    limiting.step(*ORIGIN, changed(), &node);
    assert_eq!(limiting.waiting(), 0);
    node.decides = true;
    let slot = place(1).slot;
    limiting.step(*ORIGIN, QueueEvent::CopyChanged { slot }, &node);
    assert_eq!(limiting.waiting(), 1);
}
