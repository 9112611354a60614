//! One node with two connections, told of everything by hand.

use super::*;

pub(super) const FIRST: ConnectionId = ConnectionId(1);
pub(super) const SECOND: ConnectionId = ConnectionId(2);
/// Node 1 in its first start.
const RUN: Run = Run {
    node: NodeId(1),
    incarnation: Incarnation(1),
};

/// Node 1 of three, whose routes are merged.
pub(super) struct Node {
    pub(super) publishing: Publishing,
    /// Number of the last event.
    events: u64,
}

pub(super) fn content(content: u128) -> ContentId {
    ContentId(content)
}

/// QoS 2 number `number` of the node, from 1.
pub(super) fn number(number: u64) -> Dot {
    number_of(RUN, number)
}

pub(super) fn number_of(run: Run, number: u64) -> Dot {
    let number = EVENT_NUMBER_MAX + number;
    Dot { run, number }
}

pub(super) fn event(number: u64) -> Dot {
    Dot { run: RUN, number }
}

/// Event with this number, as it was made.
pub(super) fn made(number: u64) -> MadeEvent {
    MadeEvent {
        dot: event(number),
        clock: Hlc::at(1_000 + number),
    }
}

/// Entry of packet id 7 that a run of node 3 has made, at this clock, by a connection of this clock.
pub(super) fn use_of(connection: u64, clock: u64, message: Option<NumberedMessage>) -> UseEntry {
    let packet_use = PacketUse {
        packet_id: packet_id(7),
        connection_clock: Hlc::at(connection),
        message,
        message_clock: None,
    };
    UseEntry {
        dot: Dot {
            run: run_of(3, 1),
            number: clock,
        },
        clock: Hlc::at(clock),
        packet_use,
    }
}

impl Node {
    pub(super) fn new(limits: PublishingLimits) -> Node {
        let mut node = Node::without_routes(limits);
        assert_eq!(node.step(PublishingEvent::RoutesMerged(true)), []);
        node
    }

    pub(super) fn without_routes(limits: PublishingLimits) -> Node {
        let mut node = Node {
            publishing: Publishing::new(RUN, limits),
            events: 1,
        };
        assert_eq!(node.change_ring(1, &[1, 2, 3]), []);
        node.open(FIRST, 0, 100, Vec::new());
        node.open(SECOND, 1, 101, Vec::new());
        node
    }

    pub(super) fn try_step(
        &mut self,
        event: PublishingEvent,
    ) -> Result<Vec<PublishingAction>, PublishingError> {
        let mut actions = Vec::new();
        self.publishing.step(event, &mut actions).map(|()| actions)
    }

    #[track_caller]
    pub(super) fn step(&mut self, event: PublishingEvent) -> Vec<PublishingAction> {
        self.try_step(event).expect("no peer is wrong")
    }

    pub(super) fn open(&mut self, connection: ConnectionId, client: usize, clock: u64, uses: Vec<UseEntry>) {
        let opened = OpenedConnection {
            connection,
            client: client_id(client),
            clock: Hlc::at(clock),
            uses,
        };
        assert_eq!(self.step(PublishingEvent::Opened(opened)), []);
    }

    pub(super) fn close(&mut self, connection: ConnectionId) -> Vec<PublishingAction> {
        self.step(PublishingEvent::Closed { connection })
    }

    pub(super) fn change_ring(&mut self, marker: u64, nodes: &[u64]) -> Vec<PublishingAction> {
        let nodes = nodes.iter().copied().map(NodeId).collect();
        self.step(PublishingEvent::RingChanged { marker, nodes })
    }

    /// PUBLISH under a packet id.
    pub(super) fn publish(&mut self, connection: ConnectionId, id: u16, of: u128) -> Vec<PublishingAction> {
        self.send_publish(connection, id, of, false)
    }

    pub(super) fn publish_dup(
        &mut self,
        connection: ConnectionId,
        id: u16,
        of: u128,
    ) -> Vec<PublishingAction> {
        self.send_publish(connection, id, of, true)
    }

    fn send_publish(
        &mut self,
        connection: ConnectionId,
        id: u16,
        of: u128,
        is_dup: bool,
    ) -> Vec<PublishingAction> {
        self.step(PublishingEvent::Published(Publish {
            body: (),
            connection,
            packet_id: packet_id(id),
            is_dup,
            content: content(of),
        }))
    }

    pub(super) fn pubrel(&mut self, connection: ConnectionId, id: u16) -> Vec<PublishingAction> {
        let packet_id = packet_id(id);
        self.step(PublishingEvent::Released {
            connection,
            packet_id,
        })
    }

    /// Makes the next event, of the entry that names `number`, at the clock of its number.
    pub(super) fn write(&mut self, connection: ConnectionId, number: Dot) -> Vec<PublishingAction> {
        self.events += 1;
        self.step(PublishingEvent::NumberWritten {
            connection,
            number,
            made: made(self.events),
        })
    }

    pub(super) fn stored(&mut self, number: Dot, entry: u64, marker: u64) -> Vec<PublishingAction> {
        let entry = event(entry);
        self.step(PublishingEvent::Stored {
            number,
            entry,
            marker,
        })
    }

    pub(super) fn confirm(&mut self, from: u64, number: Dot, marker: u64) -> Vec<PublishingAction> {
        let from = NodeId(from);
        self.step(PublishingEvent::RouteConfirmed(RouteConfirmation {
            from,
            number,
            marker,
        }))
    }

    /// PUBLISH that has got the number `of`, up to its route.
    pub(super) fn publish_and_route(&mut self, connection: ConnectionId, id: u16, of: u64) {
        self.publish(connection, id, u128::from(of));
        self.write(connection, number(of));
        let entry = self.events;
        assert_eq!(
            self.stored(number(of), entry, 1),
            [routed(of, entry, &[1, 2, 3], 1)]
        );
    }
}

/// Route of the message `of`, whose number and content are the same, with the clock of its event.
pub(super) fn routed(of: u64, event: u64, to: &[u64], marker: u64) -> PublishingAction {
    PublishingAction::Route {
        body: (),
        message: NumberedMessage {
            number: number(of),
            content: content(u128::from(of)),
        },
        clock: Hlc::at(1_000 + event),
        to: to.iter().copied().map(NodeId).collect(),
        marker,
    }
}

pub(super) fn pubrec(connection: ConnectionId, id: u16) -> PublishingAction {
    PublishingAction::SendPubrec {
        connection,
        packet_id: packet_id(id),
    }
}

pub(super) fn awaits(client: usize, number: Dot, entry: u64, marker: u64) -> PublishingAction {
    PublishingAction::AwaitStored {
        client: client_id(client),
        at: StoredAt::Owners,
        number,
        entry: event(entry),
        marker,
    }
}

/// What the actions write: the number that the entry names, if any, and what it removes.
pub(super) fn written(actions: &[PublishingAction]) -> Vec<(Option<Dot>, Vec<Dot>)> {
    let writes = actions.iter().filter_map(|action| match action {
        PublishingAction::Write {
            packet_use, removes, ..
        } => Some((packet_use.message.map(|message| message.number), removes.clone())),
        _ => None,
    });
    writes.collect()
}
