//! One node with one connection, told of everything by hand.

use super::*;

pub(super) const FIRST: ConnectionId = ConnectionId(1);
/// Clock of the connection's session entry.
pub(super) const CLOCK: u64 = 1_000;
pub(super) const SENT: DeliveryStage = DeliveryStage::Sent(ONCE);
pub(super) const LIMITS: DeliveringLimits = DeliveringLimits {
    in_flight_max: NonZeroU16::new(20).unwrap(),
    waiting_max: 100,
};

pub(super) type Action = DeliveringAction<u64>;
type Event = DeliveringEvent<u64>;

/// Node 1 and its client. The content of a message is its number.
pub(super) struct Node {
    pub(super) delivering: Delivering<u64>,
    /// Number of the last event.
    events: u64,
}

/// Message `number` of node 9. Its clock is its number.
pub(super) fn key(number: u64) -> QueueKey {
    QueueKey {
        clock: Hlc::at(number),
        dot: message(number),
    }
}

pub(super) fn message(number: u64) -> Dot {
    dot(9, number)
}

/// Packet id that the message prefers.
pub(super) fn id_of(number: u64) -> PacketId {
    preferred_id(message(number))
}

pub(super) fn queued(number: u64, qos: DeliveryQos) -> QueuedMessage<u64> {
    QueuedMessage {
        key: key(number),
        qos,
        value: number,
    }
}

pub(super) fn group_message(number: u64) -> SharedMessage {
    let group = GroupId::new(b"presses/cmd").expect("a short name");
    let message = message(number);
    SharedMessage { group, message }
}

/// Delivery of an older connection of node 2, by its event. Connections of higher clocks are later.
pub(super) fn older(
    event: u64,
    clock: u64,
    id: u16,
    of: u64,
    stage: DeliveryStage,
) -> FeedDelivery<PacketDelivery> {
    FeedDelivery {
        dot: dot(2, event),
        known: KnownDelivery {
            message: message(of),
            is_gone: false,
        },
        value: PacketDelivery {
            packet_id: packet_id(id),
            connection_clock: Hlc::at(clock),
            order: event,
            stage,
        },
    }
}

pub(super) fn gone(mut delivery: FeedDelivery<PacketDelivery>) -> FeedDelivery<PacketDelivery> {
    delivery.known.is_gone = true;
    delivery
}

pub(super) fn added(added: &[FeedDelivery<PacketDelivery>]) -> DeliveryChanges<PacketDelivery> {
    DeliveryChanges {
        added: added.to_vec(),
        ..DeliveryChanges::default()
    }
}

impl Node {
    /// Node whose client has Receive Maximum 10, and whose feed has told nothing.
    pub(super) fn unfed(limits: DeliveringLimits) -> Node {
        let mut node = Node {
            delivering: Delivering::new(limits),
            events: 100,
        };
        let opened = OpenedReceiver {
            connection: FIRST,
            client: client_id(0),
            clock: Hlc::at(CLOCK),
            receive_maximum: NonZeroU16::new(10).expect("it is no zero"),
            sent_before: Some(Hlc::at(50)),
        };
        assert_eq!(node.step(Event::Opened(opened)), []);
        node
    }

    /// Node whose feed has told that there is nothing.
    pub(super) fn new() -> Node {
        let mut node = Node::unfed(LIMITS);
        assert_eq!(node.feed(DeliveryChanges::default(), Vec::new()), []);
        node
    }

    /// Node whose client has these deliveries; and what it does.
    pub(super) fn resumed(deliveries: &[FeedDelivery<PacketDelivery>]) -> (Node, Vec<Action>) {
        let mut node = Node::unfed(LIMITS);
        let actions = node.tell(deliveries);
        (node, actions)
    }

    /// Node whose client has sent nothing of ten messages of QoS 1: no further PUBLISH goes out.
    pub(super) fn full() -> Node {
        let mut node = Node::new();
        (901..=910).for_each(|number| drop(node.queue(number, LEAST)));
        node
    }

    pub(super) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.delivering.step(event, &mut actions);
        actions
    }

    pub(super) fn feed(
        &mut self,
        deliveries: DeliveryChanges<PacketDelivery>,
        messages: Vec<QueuedMessage<u64>>,
    ) -> Vec<Action> {
        let (connection, fed) = (FIRST, FedMessages { deliveries, messages });
        self.step(Event::Fed { connection, fed })
    }

    pub(super) fn tell(&mut self, deliveries: &[FeedDelivery<PacketDelivery>]) -> Vec<Action> {
        self.feed(added(deliveries), Vec::new())
    }

    pub(super) fn tell_ended(&mut self, entries: &[u64]) -> Vec<Action> {
        let ended = entries.iter().map(|entry| dot(2, *entry)).collect();
        let changes = DeliveryChanges {
            ended,
            ..DeliveryChanges::default()
        };
        self.feed(changes, Vec::new())
    }

    pub(super) fn tell_gone(&mut self, entry: u64) -> Vec<Action> {
        let changes = DeliveryChanges {
            gone: vec![dot(2, entry)],
            ..DeliveryChanges::default()
        };
        self.feed(changes, Vec::new())
    }

    pub(super) fn queue(&mut self, number: u64, qos: DeliveryQos) -> Vec<Action> {
        self.feed(DeliveryChanges::default(), vec![queued(number, qos)])
    }

    pub(super) fn give(&mut self, number: u64, qos: DeliveryQos) -> Vec<Action> {
        let (connection, message, value) = (FIRST, group_message(number), number);
        let given = GivenMessage { message, qos, value };
        self.step(Event::Given { connection, given })
    }

    /// The event of the move of message `number` is made: the message is `to` in the queue.
    pub(super) fn make_move(&mut self, number: u64, to: u64) -> Vec<Action> {
        let (connection, from) = (FIRST, group_message(number));
        let to = queued(to, ONCE);
        self.step(Event::Moved { connection, from, to })
    }

    /// Every node knows the move by which a message is `number` in the queue.
    pub(super) fn know_move(&mut self, number: u64) -> Vec<Action> {
        let (connection, message) = (FIRST, message(number));
        self.step(Event::MoveKnown { connection, message })
    }

    pub(super) fn withdraw(&mut self, number: u64) -> Vec<Action> {
        let (connection, keys) = (FIRST, vec![key(number)]);
        self.step(Event::Withdrawn { connection, keys })
    }

    /// Makes the event of an entry, which is durable.
    pub(super) fn store(&mut self, packet_id: PacketId) -> Vec<Action> {
        self.events += 1;
        let (connection, entry) = (FIRST, self.last());
        self.step(Event::Stored {
            connection,
            packet_id,
            entry,
        })
    }

    pub(super) fn answer(&mut self, packet_id: PacketId, answer: DeliveryAnswer) -> Vec<Action> {
        let connection = FIRST;
        self.step(Event::Answered {
            connection,
            packet_id,
            answer,
        })
    }

    /// Last event that was made.
    pub(super) fn last(&self) -> Dot {
        dot(1, self.events)
    }
}

/// Places of packets are compared by tests of their own.
#[track_caller]
pub(super) fn assert_does(actual: Vec<Action>, expected: impl IntoIterator<Item = Action>) {
    let without_order = |mut action: Action| {
        if let DeliveringAction::Write(written) = &mut action {
            written.delivery.order = 0;
        }
        action
    };
    let actual: Vec<Action> = actual.into_iter().map(without_order).collect();
    assert_eq!(actual, expected.into_iter().collect::<Vec<Action>>());
}

/// Packet ids that actions write.
pub(super) fn written_ids(actions: &[Action]) -> Vec<PacketId> {
    let written = actions.iter().filter_map(|action| match action {
        DeliveringAction::Write(written) => Some(written.delivery.packet_id),
        _ => None,
    });
    written.collect()
}

pub(super) fn write(id: PacketId, of: u64, stage: DeliveryStage, removes: &[Dot]) -> Action {
    DeliveringAction::Write(WrittenDelivery {
        connection: FIRST,
        client: client_id(0),
        message: message(of),
        delivery: PacketDelivery {
            packet_id: id,
            connection_clock: Hlc::at(CLOCK),
            order: 0,
            stage,
        },
        removes: removes.to_vec(),
    })
}

pub(super) fn publish(packet_id: PacketId, number: u64, qos: DeliveryQos, is_dup: bool) -> Action {
    DeliveringAction::SendPublish(Published {
        connection: FIRST,
        packet_id,
        message: message(number),
        qos,
        is_dup,
        value: number,
    })
}

pub(super) fn pubrel(packet_id: PacketId) -> Action {
    DeliveringAction::SendPubrel {
        connection: FIRST,
        packet_id,
        is_found: true,
    }
}

pub(super) fn not_found(packet_id: PacketId) -> Action {
    DeliveringAction::SendPubrel {
        connection: FIRST,
        packet_id,
        is_found: false,
    }
}

/// Removal of a message that the feed has passed on.
pub(super) fn acknowledge(number: u64, deliveries: &[Dot]) -> Action {
    removed(Some(number), Some(key(number)), deliveries)
}

/// Removal of a message that the feed has not passed on.
pub(super) fn remove_message(number: u64, deliveries: &[Dot]) -> Action {
    removed(Some(number), None, deliveries)
}

/// Removal of deliveries only.
pub(super) fn remove(deliveries: &[Dot]) -> Action {
    removed(None, None, deliveries)
}

fn removed(number: Option<u64>, held: Option<QueueKey>, deliveries: &[Dot]) -> Action {
    DeliveringAction::Remove(RemovedDelivery {
        connection: FIRST,
        client: client_id(0),
        message: number.map(message),
        held,
        deliveries: deliveries.to_vec(),
    })
}

pub(super) fn let_go(number: u64) -> Action {
    DeliveringAction::LetGo {
        connection: FIRST,
        key: key(number),
    }
}

pub(super) fn acknowledge_group(number: u64) -> Action {
    DeliveringAction::AcknowledgeGroup {
        connection: FIRST,
        message: group_message(number),
    }
}

pub(super) fn move_into_queue(number: u64) -> Action {
    DeliveringAction::Move {
        connection: FIRST,
        message: group_message(number),
        value: number,
    }
}

pub(super) fn disconnect(reason: DeliveryViolation) -> Action {
    DeliveringAction::Disconnect {
        connection: FIRST,
        reason,
    }
}
