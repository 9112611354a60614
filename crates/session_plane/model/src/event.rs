//! Events and the entries that they make: what is replicated (section 1 of the specification).

use std::rc::Rc;

use crate::ids::{ClientId, Dot, EventSet, Prefix, Slot, SlotSet};
use crate::view::View;

/// One change made by a run.
#[derive(Clone, Debug)]
pub struct Event {
    pub dot: Dot,
    /// Hybrid logical clock of the run when it made the event.
    pub clock: u32,
    /// Slots whose owners are sent the event.
    pub slots: SlotSet,
    pub change: Change,
    /// W: the events that the run knew of when it made this one.
    pub known: Rc<EventSet>,
}

impl Event {
    pub fn is_for(&self, slot: Slot) -> bool {
        self.slots.has(slot)
    }

    /// Entries that the event removes.
    pub fn removal(&self) -> Option<Removal<'_>> {
        match &self.change {
            Change::Subscribe { client, removes, .. }
            | Change::Receive { client, removes, .. }
            | Change::Deliver { client, removes, .. }
            | Change::SetWill { client, removes, .. }
            | Change::Remove { client, removes }
            | Change::EndSession { client, removes, .. }
            | Change::StartSession { client, removes, .. } => Some(Removal {
                client: *client,
                dots: removes,
            }),
            Change::Share { removes, .. } => Some(Removal {
                client: ClientId::GROUP,
                dots: removes,
            }),
            Change::Publish | Change::OpenConnection { .. } | Change::RingMarker(_) => None,
        }
    }

    /// Entry that the event adds. What a message adds depends on the subscriptions of a copy.
    pub fn entry(&self) -> Option<Entry> {
        let entry = |client, kind, birth| self.bare_entry(client, kind, birth);
        match &self.change {
            Change::Subscribe {
                client, birth, since, ..
            } => Some(Entry {
                since: *since,
                ..entry(*client, EntryKind::Subscription, *birth)
            }),
            Change::Receive {
                client,
                birth,
                received,
                ..
            } => Some(Entry {
                received: Some(*received),
                ..entry(*client, EntryKind::Received, *birth)
            }),
            Change::Deliver {
                client,
                birth,
                delivery,
                ..
            } => Some(Entry {
                delivery: Some(*delivery),
                ..entry(*client, EntryKind::Delivery, *birth)
            }),
            Change::SetWill { client, will, .. } => Some(Entry {
                will: Some(*will),
                ..entry(*client, EntryKind::Will, will.connection)
            }),
            Change::StartSession {
                client,
                clean,
                birth,
                connected,
                ..
            } => Some(Entry {
                since: birth.clock,
                clean: *clean,
                connected: *connected,
                ..entry(*client, EntryKind::Session, birth.dot)
            }),
            Change::EndSession {
                client,
                clean,
                birth,
                ended,
                ..
            } => Some(Entry {
                since: birth.clock,
                clean: *clean,
                ended: Some(*ended),
                ..entry(*client, EntryKind::End, birth.dot)
            }),
            Change::Share { share, since, .. } => Some(Entry {
                since: *since,
                share: Some(*share),
                ..entry(ClientId::GROUP, share.of.kind(), self.dot)
            }),
            Change::OpenConnection { client } => Some(entry(*client, EntryKind::Connection, self.dot)),
            Change::Publish | Change::Remove { .. } | Change::RingMarker(_) => None,
        }
    }

    /// Entry of the event that says no more than its kind.
    fn bare_entry(&self, client: ClientId, kind: EntryKind, birth: Dot) -> Entry {
        Entry {
            client,
            kind,
            dot: self.dot,
            birth,
            clock: self.clock,
            since: 0,
            clean: false,
            received: None,
            delivery: None,
            will: None,
            ended: None,
            share: None,
            connected: 0,
        }
    }
}

/// Entries of a client that an event removes.
#[derive(Clone, Copy, Debug)]
pub struct Removal<'a> {
    pub client: ClientId,
    pub dots: &'a [Dot],
}

/// First event of a session, and its clock. A later CONNECT writes the session's entry anew with the same birth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    pub dot: Dot,
    pub clock: u32,
}

/// What the end of a session says of the entries that CONNECTs have written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ended {
    /// Events of the client that the end is later than.
    pub seen: Prefix,
    /// Clock of the last CONNECT that resumed a session.
    pub resumed: u32,
}

/// Meaning of an event.
#[derive(Clone, Debug)]
pub enum Change {
    /// A message was accepted.
    Publish,
    /// A filter was subscribed to; the older entries of that filter are removed.
    Subscribe {
        client: ClientId,
        birth: Dot,
        since: u32,
        removes: Vec<Dot>,
    },
    /// A packet id is in use by a QoS 2 message from the client, or free again; the older entries of the id are removed.
    Receive {
        client: ClientId,
        birth: Dot,
        received: Received,
        removes: Vec<Dot>,
    },
    /// A QoS 2 message to the client has a packet id, or its next stage; the older entries of both are removed.
    Deliver {
        client: ClientId,
        birth: Dot,
        delivery: Delivery,
        removes: Vec<Dot>,
    },
    /// A connection has a will, or has ended and leaves it, or the will gets its number.
    SetWill {
        client: ClientId,
        will: Will,
        removes: Vec<Dot>,
    },
    /// Entries are removed: UNSUBSCRIBE, an acknowledgement, the end of a connection.
    Remove { client: ClientId, removes: Vec<Dot> },
    /// A session was begun, or resumed by a CONNECT. Without a birth it is born with this event.
    StartSession {
        client: ClientId,
        clean: bool,
        birth: Birth,
        /// Clock of the connection.
        connected: u32,
        removes: Vec<Dot>,
    },
    /// A session has ended; an entry in its place beats what the session beat, and what is left of the session.
    EndSession {
        client: ClientId,
        clean: bool,
        birth: Birth,
        ended: Ended,
        removes: Vec<Dot>,
    },
    /// The shared group has a member, a member has a connection, or that is given a message.
    Share {
        share: Share,
        since: u32,
        removes: Vec<Dot>,
    },
    /// A client connects at the run's node.
    OpenConnection { client: ClientId },
    /// From here on the run routes by this view.
    RingMarker(View),
}

/// Packet id of QoS 2 messages from a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Received {
    pub packet_id: u8,
    /// Clock of the session's entry that the connection wrote.
    pub connection_clock: u32,
    /// Message that uses the id. None: the id is free.
    pub message: Option<Numbered>,
}

/// A QoS 2 message from a client, and the number under which it is routed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Numbered {
    /// Stands for topic and payload.
    pub content: u32,
    pub number: Dot,
}

/// Packet id of a QoS 2 message to a client, and how far that is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Delivery {
    pub packet_id: u8,
    /// Clock of the session's entry that the connection wrote.
    pub connection_clock: u32,
    pub message: Dot,
    /// The client has it: PUBREL follows, and no more PUBLISH.
    pub is_released: bool,
}

/// Will of a connection, or one of the entries that stand beside it and go with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Will {
    pub connection: Dot,
    /// Stands for topic and payload.
    pub content: u32,
    /// Session of the connection, and the clock of the entry that its CONNECT wrote.
    pub birth: Dot,
    pub session_clock: u32,
    /// It has a Will Delay: a later CONNECT that resumes the session takes it away.
    pub is_delayed: bool,
    pub part: WillPart,
}

/// What an entry says of a will.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WillPart {
    Text,
    /// The connection has ended, and not by DISCONNECT 0.
    End,
    /// Number under which the will of the entry `of` is routed.
    Number {
        number: Dot,
        of: Dot,
    },
}

impl Will {
    /// Number, of an entry that has one.
    pub fn number(&self) -> Option<Dot> {
        match self.part {
            WillPart::Number { number, .. } => Some(number),
            WillPart::Text | WillPart::End => None,
        }
    }

    /// Entry of the will whose number this is.
    pub fn number_of(&self) -> Option<Dot> {
        match self.part {
            WillPart::Number { of, .. } => Some(of),
            WillPart::Text | WillPart::End => None,
        }
    }
}

/// What an entry of the shared group says of a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share {
    pub member: ClientId,
    pub of: ShareOf,
}

/// Member, its connection, or what that is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ShareOf {
    Member,
    Presence {
        connection: Dot,
    },
    /// `presence` is the entry of the connection.
    Assignment {
        message: Dot,
        connection: Dot,
        presence: Dot,
    },
}

impl ShareOf {
    fn kind(self) -> EntryKind {
        match self {
            ShareOf::Member => EntryKind::Member,
            ShareOf::Presence { .. } => EntryKind::Presence,
            ShareOf::Assignment { .. } => EntryKind::Assignment,
        }
    }
}

/// Kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EntryKind {
    Session,
    Subscription,
    Message,
    Connection,
    Received,
    Delivery,
    Will,
    /// What a session leaves when it ends.
    End,
    /// A session that is a member of the shared group.
    Member,
    /// A connection of a member.
    Presence,
    /// A member's connection that a message of the group is given to.
    Assignment,
}

/// One fact of a session. Its value is a function of its dot, its identity is (kind, client, dot).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    pub client: ClientId,
    pub kind: EntryKind,
    pub dot: Dot,
    /// Session that the entry belongs to.
    pub birth: Dot,
    pub clock: u32,
    /// Of a subscription: the clock from which on messages match. Of a session and of an end: the clock of the session's birth.
    pub since: u32,
    /// Of a session and of an end: begun by a CONNECT with Clean Start.
    pub clean: bool,
    /// Of a packet id: what uses it.
    pub received: Option<Received>,
    /// Of a packet id to the client: its message.
    pub delivery: Option<Delivery>,
    pub will: Option<Will>,
    /// Of an end.
    pub ended: Option<Ended>,
    /// Of the shared group: which member, and what of it.
    pub share: Option<Share>,
    /// Of a session: the clock of the connection whose CONNECT has written it.
    pub connected: u32,
}

impl Entry {
    /// Number and content of the message that a packet id or a will stands for.
    pub fn numbered(&self) -> Option<Numbered> {
        let of_will = self.will.and_then(|will| {
            will.number().map(|number| Numbered {
                content: will.content,
                number,
            })
        });
        self.received.and_then(|received| received.message).or(of_will)
    }

    /// Message that an assignment gives to a connection.
    pub fn assigned(&self) -> Option<Dot> {
        match self.share.map(|share| share.of) {
            Some(ShareOf::Assignment { message, .. }) => Some(message),
            _ => None,
        }
    }
}
