//! Entry: one fact of a session, with what the merge and the rule of reading need of it.
//!
//! An entry's identity is its kind, its client and its dot. Everything else is a function of the
//! dot. So copies never compare values to find what is the same.
//!
//! Some facts name another event: a [`Fact`] has the name, so a kind is never without it. What a
//! will names, and what stands beside it, decides whether it counts
//! ([`SessionEntries::live`](crate::SessionEntries::live)).
//!
//! What an entry means beyond that is a value of the type `V`, which the node chooses. Nothing here
//! reads it: the node's type is parsed once, where it arrives, and this crate knows no MQTT. `V` is
//! ordered for one case only, which [`Entry`] names.

use cluster::session_plane::Hlc;

use crate::{ClientId, ConnectionOrder, Dot, Ended};

/// Kind of an entry. The order is that of entries in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// The session exists. Each CONNECT writes it anew with the same birth.
    Session,
    /// A connection of the client to a node. Counts alone: a client needs no durable session.
    Connection,
    /// A will that has not fired. Counts without a session, whose end is a reason to fire it.
    Will,
    /// End of a will's connection, which leaves the will to be published.
    ConnectionEnd,
    /// Number under which a will is published.
    WillNumber,
    /// A filter with its options.
    Subscription,
    /// A message in the queue; its dot is that of the PUBLISH.
    Message,
    /// Packet id and stage of a message that is being delivered. Counts without the message, until
    /// PUBCOMP.
    Delivery,
    /// A packet id that the client uses for a QoS 2 message of its own.
    Received,
    /// No connection has had the session since this event: it expires when the interval in the entry's value
    /// has passed.
    Expiry,
    /// What a session leaves when it ends. Counts alone, until every member knows it. Beats each
    /// session's entry that its maker had decided upon, and what a session that was begun clean beat.
    End,
    /// Of a shared group: a session that is a member. Counts alone.
    Member,
    /// Of a shared group: an open connection of a member. Counts alone.
    Presence,
    /// Of a shared group: the presence that a message is given to. Counts while its message is there.
    Assignment,
    /// Message that a topic retains. Counts alone. Of several of a topic the latest one is read, unless
    /// a clear is later ([`Plane::retained`](crate::plane::Plane::retained)).
    Retained,
    /// Clear of a topic. Counts alone, until every member knows it: messages of the topic that are earlier
    /// are not read.
    Cleared,
}

impl EntryKind {
    /// Every kind, in ascending order.
    pub const ALL: [EntryKind; 16] = [
        EntryKind::Session,
        EntryKind::Connection,
        EntryKind::Will,
        EntryKind::ConnectionEnd,
        EntryKind::WillNumber,
        EntryKind::Subscription,
        EntryKind::Message,
        EntryKind::Delivery,
        EntryKind::Received,
        EntryKind::Expiry,
        EntryKind::End,
        EntryKind::Member,
        EntryKind::Presence,
        EntryKind::Assignment,
        EntryKind::Retained,
        EntryKind::Cleared,
    ];

    /// Number of the kind in digests and messages, independent of the order. It is never given to
    /// another kind.
    pub(crate) fn number(self) -> u8 {
        match self {
            EntryKind::Session => 1,
            EntryKind::Connection => 2,
            EntryKind::Will => 3,
            EntryKind::Subscription => 4,
            EntryKind::Message => 5,
            EntryKind::Delivery => 6,
            EntryKind::Received => 7,
            EntryKind::End => 8,
            EntryKind::ConnectionEnd => 9,
            EntryKind::WillNumber => 10,
            EntryKind::Member => 11,
            EntryKind::Presence => 12,
            EntryKind::Assignment => 13,
            EntryKind::Retained => 14,
            EntryKind::Cleared => 15,
            EntryKind::Expiry => 16,
        }
    }

    /// Kind with this number.
    pub(crate) fn of_number(number: u8) -> Option<EntryKind> {
        EntryKind::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The kind says what a client, or a group, has subscribed to.
    pub(crate) fn is_of_subscriber(self) -> bool {
        matches!(self, EntryKind::Subscription | EntryKind::Member)
    }

    /// The kind is of topics, which are in a slot of their own.
    pub(crate) fn is_of_topic(self) -> bool {
        matches!(self, EntryKind::Retained | EntryKind::Cleared)
    }
}

/// Identity of an entry among those of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Event that made the entry.
    pub dot: Dot,
}

/// Begin of a session: the CONNECT that found none.
///
/// Every entry names the birth of its session. So entries of a session that has ended do not count
/// for a later one of the same client. A message of a shared group has no session, and is born with
/// itself ([`Birth::of_group_message`]). So is each entry of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Birth {
    /// First event of the session. The rest is a function of it.
    pub dot: Dot,
    /// Clock of that event.
    pub clock: Hlc,
    /// The CONNECT asked for a Clean Start.
    pub is_clean: bool,
}

impl Birth {
    /// Birth that the message of a shared group names: its own event.
    pub fn of_group_message(dot: Dot, clock: Hlc) -> Birth {
        let is_clean = false;
        Birth { dot, clock, is_clean }
    }
}

/// What an entry states, and the event that it names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// [`EntryKind::Session`].
    Session {
        /// Clock of the connection whose CONNECT has written the entry: an earlier event of the same run.
        /// None where the session came without a connection.
        connected: Option<Hlc>,
    },
    /// [`EntryKind::Connection`].
    Connection,
    /// [`EntryKind::Will`].
    Will(Box<WillTerms>),
    /// [`EntryKind::ConnectionEnd`]. It stands beside any will of the connection.
    ConnectionEnd {
        /// Event of the connection.
        connection: Dot,
    },
    /// [`EntryKind::WillNumber`].
    WillNumber {
        /// Event of the will.
        will: Dot,
    },
    /// [`EntryKind::Subscription`].
    Subscription,
    /// [`EntryKind::Message`].
    Message,
    /// [`EntryKind::Delivery`].
    Delivery {
        /// Event of the message.
        message: Dot,
    },
    /// [`EntryKind::Received`].
    Received,
    /// [`EntryKind::Expiry`].
    Expiry {
        /// Connection whose end it follows. None where the session came without a connection.
        connected: Option<ConnectionOrder>,
    },
    /// [`EntryKind::End`].
    End(Box<Ended>),
    /// [`EntryKind::Member`]. The entry's birth is that of the session.
    Member(Box<MemberTerms>),
    /// [`EntryKind::Presence`]. The entry's birth is that of the member's session, and its event is of
    /// the run that has the connection.
    Presence,
    /// [`EntryKind::Assignment`].
    Assignment(Box<AssignedMessage>),
    /// [`EntryKind::Retained`]. The entry's client is the topic, and its birth is its own event.
    Retained,
    /// [`EntryKind::Cleared`]. The entry's client is the topic, and its birth is its own event.
    Cleared,
}

/// Membership of a session in a shared group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberTerms {
    /// Client of the session.
    pub client: ClientId,
    /// Clock of an earlier SUBSCRIBE, by the session or by another that was a member when this one became
    /// one: what they leave is for this member, too. Messages that are not later are not.
    pub since: Option<Hlc>,
}

/// Message of a shared group, and the presence that it is given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssignedMessage {
    /// Event of the message.
    pub message: Dot,
    /// Event of the presence.
    pub presence: Dot,
}

/// Terms on which a will is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WillTerms {
    /// Event of the connection that has the will.
    pub connection: Dot,
    /// Of a will with a delay: clock of the session's entry that the connection's CONNECT wrote. An
    /// entry that a later CONNECT has written makes the will void, and so does an end that knows one.
    pub delayed_since: Option<Hlc>,
}

impl Fact {
    /// Kind of an entry that states this.
    pub fn kind(&self) -> EntryKind {
        match self {
            Fact::Session { .. } => EntryKind::Session,
            Fact::Connection => EntryKind::Connection,
            Fact::Will(_) => EntryKind::Will,
            Fact::ConnectionEnd { .. } => EntryKind::ConnectionEnd,
            Fact::WillNumber { .. } => EntryKind::WillNumber,
            Fact::Subscription => EntryKind::Subscription,
            Fact::Message => EntryKind::Message,
            Fact::Delivery { .. } => EntryKind::Delivery,
            Fact::Received => EntryKind::Received,
            Fact::Expiry { .. } => EntryKind::Expiry,
            Fact::End(_) => EntryKind::End,
            Fact::Member(_) => EntryKind::Member,
            Fact::Presence => EntryKind::Presence,
            Fact::Assignment(_) => EntryKind::Assignment,
            Fact::Retained => EntryKind::Retained,
            Fact::Cleared => EntryKind::Cleared,
        }
    }

    /// Event that the fact names. Of an assignment it is the message.
    pub fn named(&self) -> Option<Dot> {
        match self {
            Fact::Will(terms) => Some(terms.connection),
            Fact::ConnectionEnd { connection } => Some(*connection),
            Fact::WillNumber { will } => Some(*will),
            Fact::Delivery { message } => Some(*message),
            Fact::Assignment(assigned) => Some(assigned.message),
            Fact::Session { .. }
            | Fact::Connection
            | Fact::Subscription
            | Fact::Message
            | Fact::Received
            | Fact::Expiry { .. }
            | Fact::End(_)
            | Fact::Member(_)
            | Fact::Presence
            | Fact::Retained
            | Fact::Cleared => None,
        }
    }
}

/// One fact of a session, under its [`EntryId`].
///
/// Two owners may match a message with different subscriptions, until their copies have merged. Its
/// entries differ then under one identity, and both copies keep the greater one. The order has no
/// other meaning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry<V> {
    /// Session that the entry belongs to. A connection may name itself.
    pub birth: Birth,
    /// Hybrid logical clock of the event that made the entry.
    pub clock: Hlc,
    /// What the entry states, which decides its kind.
    pub fact: Fact,
    /// Meaning of the entry to the node.
    pub value: V,
}

impl<V> Entry<V> {
    /// Identity of the entry that the event `dot` makes.
    pub fn id(&self, dot: Dot) -> EntryId {
        let kind = self.fact.kind();
        EntryId { kind, dot }
    }

    /// Clock of the first SUBSCRIBE to a shared group. None where the entry is of no member.
    pub fn member_since(&self) -> Option<Hlc> {
        match &self.fact {
            Fact::Member(terms) => Some(terms.since.unwrap_or(self.clock)),
            _ => None,
        }
    }

    /// Client of the session that is a member of a shared group. None where the entry is of no member.
    pub fn member_client(&self) -> Option<&ClientId> {
        match &self.fact {
            Fact::Member(terms) => Some(&terms.client),
            _ => None,
        }
    }

    /// The entry names the number 0, which no event has.
    pub(crate) fn names_no_event(&self) -> bool {
        let presence = match &self.fact {
            Fact::Assignment(assigned) => Some(assigned.presence),
            _ => None,
        };
        let mut named = self.fact.named().into_iter().chain(presence);
        named.any(|dot| dot.number == 0)
    }
}
