//! Messages between nodes (section 9 of the specification), in the reduced form that the rules need.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::copy::{Content, SingleDot};
use crate::event::{Entry, Event};
use crate::ids::{ClientId, Dot, EventSet, MAPS, NodeId, Numbers, RUNS, Run, Slot};
use crate::node::Settled;
use crate::view::View;

/// A message from one node to another.
#[derive(Clone, Debug)]
pub enum Message {
    /// The next event of the sender's stream that the receiver needs.
    Event(Event),
    /// The ring marker that begins a stream after a handshake.
    Welcome(Event),
    Heartbeat(Heartbeat),
    /// How far the sender has the stream of a dead run.
    FlushPosition {
        run: Run,
        position: u8,
    },
    FlushEvents(Box<Flush>),
    /// Events that no owner had confirmed, under their old dots.
    Resend {
        slot: Slot,
        numbers: Numbers,
        events: Vec<Event>,
    },
    ConfirmResent {
        slot: Slot,
        numbers: Numbers,
    },
    /// A message with a QoS 2 number, for all nodes.
    Route(Event),
    ConfirmRoute {
        number: Dot,
    },
    AskSlot(Box<Question>),
    SlotContent(Box<SlotContent>),
    /// The asker has merged the answer.
    SlotMerged {
        slot: Slot,
        late: bool,
    },
    /// The sender holds a copy and is no owner.
    Offer {
        slot: Slot,
    },
    /// A client connects; the owner answers with older connections and the session.
    AskSession {
        client: ClientId,
        connection: Dot,
    },
    Session(Box<SessionAnswer>),
    /// The receiver ends the connection `old`; `by` is the connection that claims the session, if one does.
    Release {
        client: ClientId,
        old: Dot,
        by: Option<Claimant>,
    },
    Released {
        client: ClientId,
        old: Dot,
        agreed: bool,
    },
    /// The receiver's connection is given a message of the shared group.
    Give(Given),
    FeedOpen {
        client: ClientId,
        connection: Dot,
        known: Rc<EventSet>,
        epoch: u32,
    },
    FeedItems(Box<FeedItems>),
}

/// Positions of a peer, and what it knows.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Highest number of the sender, also when nothing was for the receiver.
    pub position: u8,
    /// Highest number of the receiver's that is durable at the sender.
    pub confirmed: u8,
    /// Highest number of the sender that all its peers have confirmed.
    pub stable: u8,
    pub clock: u32,
    pub known: Rc<EventSet>,
    /// What all copies of the sender have decided upon.
    pub settled: Rc<Settled>,
}

/// Events of a dead run that the receiver may lack.
#[derive(Clone, Debug)]
pub struct Flush {
    pub run: Run,
    pub from: u8,
    pub to: u8,
    pub events: Vec<Event>,
    /// View of the dead run at `from`.
    pub base: Option<View>,
    /// Numbers that the sender took by stream as owner, for each slot.
    pub by_stream: [Numbers; MAPS],
}

/// Question of an owner for a slot.
#[derive(Clone, Debug)]
pub struct Question {
    pub slot: Slot,
    /// Positions of the markers that made the asker an owner.
    pub positions: [u8; RUNS],
    /// QoS 2 numbers that the asker lacks.
    pub lacking: EventSet,
}

/// Answer of a holder: everything is as of the begin of the answer, but for entries, which may be later.
#[derive(Clone, Debug)]
pub struct SlotContent {
    pub slot: Slot,
    pub content: Content,
    /// The holder's own events that no owner has confirmed.
    pub own: Vec<Event>,
    /// The answer began when no ring named the holder.
    pub late: bool,
    /// All of the holder's copies have merged: what no packet id of theirs has, none counts with.
    pub is_merged: bool,
    /// QoS 2 numbers that wait to be routed at the holder's run.
    pub reserved: EventSet,
}

/// What an owner says of a client that connects.
#[derive(Clone, Debug)]
pub struct SessionAnswer {
    pub client: ClientId,
    pub connection: Dot,
    pub older: Vec<OlderConnection>,
    pub content: Content,
}

/// A connection of the same client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OlderConnection {
    pub node: NodeId,
    pub dot: Dot,
}

/// A connection that claims a session: of two, the earlier by (clock, dot) gives in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claimant {
    pub clock: u32,
    pub dot: Dot,
}

/// Queue of a session as its owner has it.
#[derive(Clone, Debug)]
pub struct FeedItems {
    pub client: ClientId,
    pub connection: Dot,
    /// None: this owner's copy cannot answer.
    pub queue: Option<Queue>,
    pub epoch: u32,
}

/// A message of the shared group, and the connection that it is given to.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub message: Dot,
    pub connection: Dot,
    /// Entry of the assignment.
    pub entry: Dot,
}

/// Messages of a session in the order of their clocks, and its entries.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    pub messages: Vec<Dot>,
    pub entries: Vec<Entry>,
    /// What the owner's copy has decided upon.
    pub covered: EventSet,
    pub single: BTreeSet<SingleDot>,
}

impl Queue {
    /// The owner's copy has decided that `client` has no entry of `dot`.
    pub fn has_removed(&self, client: ClientId, dot: Dot) -> bool {
        let is_covered = self.covered.has(dot) || self.single.contains(&(client, dot));
        let is_there = self.messages.contains(&dot) || self.entries.iter().any(|entry| entry.dot == dot);
        is_covered && !is_there
    }
}

/// A message and where it goes.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub to: NodeId,
    pub message: Message,
}
