//! Source of feeds: when it answers, what it tells, and what an item costs.

use std::cell::Cell;

use super::*;
use crate::copy::tests::entry_of;
use crate::{Birth, Change};

/// Node that is not the one of the connection.
pub(super) const OTHER: NodeId = NodeId(8);

pub(super) fn limits() -> SourceLimits {
    SourceLimits {
        feeds_per_peer_max: 2,
        held_max: 4,
        deliveries_max: 2,
    }
}

pub(super) fn question(feed: u64, of: u8) -> FeedOpen {
    FeedOpen {
        feed: FeedId(feed),
        queue: queue_of(of),
        known: known(&[]),
        held: BTreeSet::new(),
        deliveries: BTreeMap::new(),
        own_after: own_after(),
        window: window(3),
    }
}

/// Owner with its copy.
pub(super) struct Owner {
    pub(super) source: FeedSource,
    pub(super) copy: Sample,
    pub(super) is_merged: bool,
    is_owned: bool,
    reads: Cell<usize>,
}

impl Queues<Value> for Owner {
    fn is_owned(&self, _: Slot) -> bool {
        self.is_owned
    }

    fn has_session(&self, client: &ClientId, birth: Dot) -> bool {
        self.queues().has_session(client, birth)
    }

    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<BTreeSet<QueueKey>> {
        self.reads.set(self.reads.get() + 1);
        self.queues().read(client, known)
    }

    fn value(&self, client: &ClientId, key: QueueKey) -> Option<Value> {
        self.queues().value(client, key)
    }

    fn is_queued(&self, client: &ClientId, message: Dot) -> bool {
        self.queues().is_queued(client, message)
    }

    fn deliveries(&self, client: &ClientId) -> BTreeMap<Dot, Dot> {
        self.queues().deliveries(client)
    }

    fn delivery(&self, client: &ClientId, delivery: Dot) -> Option<Value> {
        self.queues().delivery(client, delivery)
    }

    fn covers(&self, client: &ClientId, dot: Dot) -> bool {
        self.queues().covers(client, dot)
    }

    fn known(&self, client: &ClientId) -> VersionVector {
        self.queues().known(client)
    }
}

impl Owner {
    /// Owner of a session of client 0 that has no message.
    pub(super) fn new() -> Owner {
        let mut owner = Owner {
            source: FeedSource::new(limits()),
            copy: Sample::new(VersionVector::default()),
            is_merged: true,
            is_owned: true,
            reads: Cell::new(0),
        };
        owner.apply(dot(0, 1), &[], Some(Fact::Session { connected: None }));
        owner
    }

    fn queues(&self) -> CopyQueues<'_> {
        CopyQueues {
            copy: &self.copy,
            is_merged: self.is_merged,
        }
    }

    pub(super) fn apply(&mut self, of: Dot, removes: &[Dot], adds: Option<Fact>) {
        self.apply_to(&queue_of(0), of, removes, adds);
    }

    /// Begins the session of another client.
    pub(super) fn begin(&mut self, queue: &QueueId) {
        self.apply_to(queue, queue.birth, &[], Some(Fact::Session { connected: None }));
    }

    fn apply_to(&mut self, queue: &QueueId, of: Dot, removes: &[Dot], adds: Option<Fact>) {
        let birth = Birth {
            dot: queue.birth,
            clock: Hlc::ZERO,
            is_clean: false,
        };
        let change = Change {
            dot: of,
            client: queue.client.clone(),
            removes: removes.to_vec(),
            adds: adds.map(|fact| entry_of(fact, birth, Hlc::at(of.number), of)),
        };
        self.copy.apply(change).expect("room");
        self.copy.claim(|_, _, _| Vec::new()).expect("whole");
    }

    pub(super) fn try_step(&mut self, event: SourceEvent) -> Result<Vec<FeedMessage<Value>>, FeedError> {
        let mut source = std::mem::replace(&mut self.source, FeedSource::new(limits()));
        let mut actions: Vec<FeedAction<Value>> = Vec::new();
        let stepped = source.step(event, self, &mut actions);
        self.source = source;
        stepped.map(|()| actions.into_iter().map(|action| action.message).collect())
    }

    pub(super) fn step(&mut self, event: SourceEvent) -> Vec<FeedMessage<Value>> {
        self.try_step(event).expect("it is allowed")
    }

    pub(super) fn open(&mut self, open: FeedOpen) -> Vec<FeedMessage<Value>> {
        self.step(SourceEvent::Opened { from: FRONT, open })
    }

    /// Message `number` is queued.
    pub(super) fn publish(&mut self, number: u64) -> Vec<FeedMessage<Value>> {
        self.apply(dot(0, number), &[], Some(Fact::Message));
        let (client, key) = (client(0), key(number, dot(0, number)));
        self.step(SourceEvent::Appended { client, key })
    }

    /// The event `by` removes message `number`.
    pub(super) fn remove(&mut self, number: u64, by: Dot) -> Vec<FeedMessage<Value>> {
        self.apply(by, &[dot(0, number)], None);
        let (client, key) = (client(0), key(number, dot(0, number)));
        self.step(SourceEvent::Removed { client, key, by })
    }

    pub(super) fn slot() -> Slot {
        world::slot()
    }
}

/// Numbers of the messages in items; None where there is another message, or none.
fn numbers(messages: &[FeedMessage<Value>]) -> Option<Vec<u64>> {
    let [FeedMessage::Items(items)] = messages else {
        return None;
    };
    Some(items.items.iter().map(|item| item.value).collect())
}

/// Last event of the node of the connection before the session was fed.
fn own_after() -> Dot {
    event_at(FRONT)
}

/// Event of the node of the connection, or of another one.
pub(super) fn event_at(node: NodeId) -> Dot {
    let mut event = dot(0, 1);
    event.run.node = node;
    event
}

#[test]
fn an_owner_answers_when_it_has_what_the_asker_knows() {
    let mut owner = Owner::new();
    let mut open = question(1, 0);
    open.known = known(&[dot(0, 1), dot(0, 2)]);
    assert_eq!(owner.open(open), []);
    assert_eq!(owner.step(SourceEvent::CopyReady(Owner::slot())), []);
    assert_eq!(owner.publish(2), [], "the feed waits");
    let answer = owner.step(SourceEvent::CopyReady(Owner::slot()));
    assert_eq!(numbers(&answer), Some(vec![2]));
}

#[test]
fn an_empty_queue_is_answered_once() {
    let mut owner = Owner::new();
    assert_eq!(numbers(&owner.open(question(1, 0))), Some(vec![]));
    assert_eq!(owner.step(SourceEvent::CopyReady(Owner::slot())), []);
}

/// Another session of the client has beaten that of the connection, which is told to leave.
#[test]
fn the_connection_of_a_session_that_does_not_count_is_not_fed() {
    let ended = |feed| FeedMessage::Closed {
        feed: FeedId(feed),
        reason: CloseReason::NoSession,
    };
    let mut owner = Owner::new();
    owner.publish(2);
    deliveries::assign(&mut owner, 1, 2);
    let mut open = question(1, 0);
    open.queue.birth = dot(2, 1);
    assert_eq!(owner.open(open.clone()), [ended(1)]);
    (open.feed, open.known) = (FeedId(2), known(&[dot(2, 1)]));
    assert_eq!(owner.open(open), [], "its begin may come");

    owner.open(question(3, 0));
    owner.apply(event_at(OTHER), &[dot(0, 1)], None);
    assert_eq!(owner.publish(3), [ended(3)]);
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    owner.apply(event_at(OTHER), &[dot(0, 1)], None);
    let granted = SourceEvent::WindowGranted {
        from: FRONT,
        feed: FeedId(1),
        window: window(4),
    };
    assert_eq!(owner.step(granted), [ended(1)]);
    assert!(owner.source.is_empty());
}

#[test]
fn a_copy_that_is_not_merged_sends_nothing() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    owner.is_merged = false;
    owner.step(SourceEvent::CopyUnmerged(Owner::slot()));
    assert_eq!(owner.publish(2), []);
    owner.is_merged = true;
    let goes_on = owner.step(SourceEvent::CopyReady(Owner::slot()));
    assert_eq!(numbers(&goes_on), Some(vec![2]));
}

#[test]
fn what_is_removed_while_a_feed_waits_is_told_when_it_goes_on() {
    let mut owner = Owner::new();
    owner.publish(2);
    owner.open(question(1, 0));
    owner.is_merged = false;
    owner.step(SourceEvent::CopyUnmerged(Owner::slot()));
    assert_eq!(owner.remove(2, event_at(OTHER)), []);
    owner.is_merged = true;
    let goes_on = owner.step(SourceEvent::CopyReady(Owner::slot()));
    let [FeedMessage::Items(items)] = &goes_on[..] else {
        panic!("{goes_on:?} tells of no removal");
    };
    assert_eq!(items.removed, [key(2, dot(0, 2))]);
}

#[test]
fn a_peer_that_is_lost_is_sent_nothing() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    owner.step(SourceEvent::PeerLost(FRONT));
    assert_eq!(owner.publish(2), []);
}

#[test]
fn items_go_out_in_the_order_of_clocks_within_the_window() {
    let mut owner = Owner::new();
    for number in [5, 3, 6, 2, 4] {
        owner.publish(number);
    }
    assert_eq!(numbers(&owner.open(question(1, 0))), Some(vec![2, 3, 4]));
    let (from, feed) = (FRONT, FeedId(1));
    let granted = |window| SourceEvent::WindowGranted { from, feed, window };
    assert_eq!(owner.step(granted(window(3))), [], "nothing more");
    assert_eq!(numbers(&owner.step(granted(window(4)))), Some(vec![5]));
    assert_eq!(owner.step(granted(window(9))), [], "four are not acknowledged");
    owner.remove(2, event_at(FRONT));
    let bytes = ITEM_BYTES * 9;
    let last = owner.step(granted(Window { items: 10, bytes }));
    assert_eq!(last, [], "it went out with the acknowledgement");
}

#[test]
fn the_receiver_is_told_of_removals_by_others() {
    let mut owner = Owner::new();
    owner.publish(2);
    owner.publish(3);
    owner.open(question(1, 0));
    assert_eq!(owner.remove(2, event_at(FRONT)), [], "it knows its own");
    let by = event_at(OTHER);
    let told = owner.remove(3, by);
    let [FeedMessage::Items(items)] = &told[..] else {
        panic!("{told:?} tells of no removal");
    };
    assert_eq!(items.removed, [key(3, dot(0, 3))]);
    assert!(items.removed_by.covers(by));
}

#[test]
fn a_held_message_is_not_sent_again() {
    let mut owner = Owner::new();
    owner.publish(3);
    let mut open = question(1, 0);
    open.held = BTreeSet::from([key(2, dot(0, 2)), key(3, dot(0, 3))]);
    assert_eq!(numbers(&owner.open(open)), Some(vec![]));
    assert_eq!(owner.publish(2), [], "the asker had it from another owner");
}

#[test]
fn what_other_owners_have_sent_takes_no_room() {
    let mut owner = Owner::new();
    let mut open = question(1, 0);
    open.held = (2..6).map(|number| key(number, dot(0, number))).collect();
    assert_eq!(open.held.len(), limits().held_max);
    owner.open(open);
    assert_eq!(numbers(&owner.publish(7)), Some(vec![7]));
}

#[test]
fn a_held_message_that_was_removed_is_told() {
    let mut owner = Owner::new();
    owner.publish(2);
    owner.remove(2, event_at(OTHER));
    let mut open = question(1, 0);
    open.held = BTreeSet::from([key(2, dot(0, 2))]);
    let answer = owner.open(open);
    let [FeedMessage::Items(items)] = &answer[..] else {
        panic!("{answer:?} is no answer");
    };
    assert_eq!(items.removed, [key(2, dot(0, 2))]);
    assert!(items.removed_by.covers(event_at(OTHER)));
}

#[test]
fn a_node_that_owns_the_slot_no_more_ends_its_feeds() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    let reason = CloseReason::NotOwner;
    let ended = |feed| FeedMessage::Closed {
        feed: FeedId(feed),
        reason,
    };
    assert_eq!(owner.step(SourceEvent::OwnershipEnded(Owner::slot())), [ended(1)]);
    owner.is_owned = false;
    assert_eq!(owner.open(question(2, 0)), [ended(2)]);
    assert!(owner.source.is_empty());
}

/// A queue is read when the feed is opened, and not for each message.
#[test]
fn a_message_that_is_added_reads_no_queue() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    let reads = owner.reads.get();
    for number in 2..200 {
        owner.publish(number);
    }
    owner.remove(2, event_at(FRONT));
    assert_eq!(owner.reads.get(), reads);
}
