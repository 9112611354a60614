//! Sink of feeds: which owner it asks, and what it grants.

use super::*;

pub(super) const OWNER: NodeId = NodeId(1);
/// Owner that is asked second.
const NEXT: NodeId = NodeId(2);

/// Node of a connection.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) sink: FeedSink,
    pub(super) owner: NodeId,
}

impl Front {
    /// Node with a connection of client 0, which is fed by the first of two owners.
    pub(super) fn new() -> Front {
        let limits = SinkLimits {
            feeds_max: 1,
            window: window(2),
            deliveries_max: 2,
        };
        let mut sink = FeedSink::new(front(), limits);
        let mut actions: Vec<SinkAction<Value>> = Vec::new();
        let owners = vec![OWNER, NodeId(2)];
        let begun = sink.begin(queue_of(0), owners, &known(&[]), &mut actions);
        begun.expect("room");
        assert_eq!(actions.len(), 1, "one owner is asked");
        Front { sink, owner: OWNER }
    }

    pub(super) fn try_step(&mut self, event: SinkEvent<Value>) -> Result<Vec<SinkAction<Value>>, FeedError> {
        let mut actions = Vec::new();
        let stepped = self.sink.step(event, || known(&[]), &mut actions);
        stepped.map(|()| actions)
    }

    pub(super) fn receive(&mut self, items: FeedItems<Value>) -> Result<Vec<SinkAction<Value>>, FeedError> {
        let from = self.owner;
        self.try_step(SinkEvent::ItemsReceived { from, items })
    }
}

pub(super) fn key_of(number: u64) -> QueueKey {
    key(number, dot(0, number))
}

/// Message `number` of feed 1, with messages of these numbers.
pub(super) fn of(number: u64, items: &[u64]) -> FeedItems<Value> {
    let items = items.iter().map(|of| FeedItem {
        key: key_of(*of),
        value: *of,
    });
    FeedItems {
        feed: FeedId(1),
        number,
        deliveries: DeliveryChanges::default(),
        items: items.collect(),
        removed: Vec::new(),
        removed_by: VersionVector::default(),
    }
}

#[test]
fn an_owner_that_refuses_is_not_asked_again_at_once() {
    let mut front = Front::new();
    let closed = |from, feed| SinkEvent::Closed {
        from,
        feed: FeedId(feed),
    };
    assert_eq!(front.try_step(closed(OWNER, 1)).expect("open").len(), 1);
    assert_eq!(front.try_step(closed(NEXT, 2)).expect("open"), []);
    assert_eq!(front.sink.stalled(), 1);
    assert_eq!(front.try_step(SinkEvent::Retried).expect("no input").len(), 1);
    assert_eq!(front.sink.stalled(), 0);
}

#[test]
fn the_first_answer_is_passed_on_even_if_it_is_empty() {
    let mut front = Front::new();
    let answered = SinkAction::Deliver {
        client: client(0),
        deliveries: DeliveryChanges::default(),
        items: Vec::new(),
    };
    assert_eq!(front.receive(of(0, &[])), Ok(vec![answered]));
    assert_eq!(front.receive(of(1, &[])), Ok(Vec::new()), "nothing has changed");
}

#[test]
fn more_is_granted_when_half_of_the_window_is_free() {
    let mut front = Front::new();
    front.receive(of(0, &[1, 2])).expect("within the window");
    let (client, key) = (client(0), key_of(1));
    let granted = front.try_step(SinkEvent::Acknowledged { client, key });
    let message = FeedMessage::Window {
        feed: FeedId(1),
        window: window(3),
    };
    let to = OWNER;
    assert_eq!(granted, Ok(vec![SinkAction::Send(FeedAction { to, message })]));
}

/// Messages of these actions, with their receivers.
pub(super) fn sent(actions: &[SinkAction<Value>]) -> Vec<(NodeId, &FeedMessage<Value>)> {
    let sent = |action| match action {
        &SinkAction::Send(FeedAction { to, ref message }) => (to, message),
        other => panic!("{other:?} is no message"),
    };
    actions.iter().map(sent).collect()
}

/// The actions open a feed at `owner`.
#[track_caller]
fn assert_opens_at(owner: NodeId, actions: &[SinkAction<Value>]) {
    let sent = sent(actions);
    assert!(
        matches!(sent[..], [(to, FeedMessage::Open(_))] if to == owner),
        "{sent:?}"
    );
}

#[test]
fn an_owner_that_has_answered_may_be_asked_again() {
    let mut front = Front::new();
    for (feed, owner, next) in [(1, OWNER, NEXT), (2, NEXT, OWNER), (3, OWNER, NEXT)] {
        front.owner = owner;
        let mut answer = of(0, &[]);
        answer.feed = FeedId(feed);
        front.receive(answer).expect("the answer");
        let opened = front.try_step(SinkEvent::OwnerLost(owner)).expect("no input");
        assert_opens_at(next, &opened);
    }
}

#[test]
fn an_owner_that_the_ring_names_no_more_is_left() {
    let mut front = Front::new();
    let slot = world::slot();
    let changed = |owners| SinkEvent::OwnersChanged { slot, owners };
    let stays = front.try_step(changed(vec![NEXT, OWNER])).expect("no input");
    assert_eq!(stays, [], "its owner is one still");
    let left = front.try_step(changed(vec![NEXT])).expect("no input");
    let close = FeedMessage::Close { feed: FeedId(1) };
    assert_eq!(sent(&left)[0], (OWNER, &close));
    assert_opens_at(NEXT, &left[1..]);
}

#[test]
fn a_client_without_owners_waits_for_them() {
    let mut front = Front::new();
    let slot = world::slot();
    let changed = |owners| SinkEvent::OwnersChanged { slot, owners };
    front.try_step(changed(Vec::new())).expect("no input");
    assert_eq!(front.sink.stalled(), 1);
    assert_opens_at(NEXT, &front.try_step(changed(vec![NEXT])).expect("no input"));
    assert_eq!(front.sink.stalled(), 0);
}

#[test]
fn a_feed_names_what_was_not_acknowledged() {
    let mut front = Front::new();
    front.receive(of(0, &[1, 2])).expect("within the window");
    let (client, key) = (client(0), key_of(1));
    front
        .try_step(SinkEvent::Acknowledged { client, key })
        .expect("no input");
    let opened = front.try_step(SinkEvent::OwnerLost(OWNER)).expect("no input");
    let sent = sent(&opened);
    let [(NEXT, FeedMessage::Open(open))] = &sent[..] else {
        panic!("{sent:?} opens no feed at the next owner");
    };
    assert_eq!(open.held, BTreeSet::from([key_of(2)]));
    assert_eq!(open.window, window(1));
}
