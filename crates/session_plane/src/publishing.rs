//! Publishing: messages that one run of this node routes under numbers: QoS 2 PUBLISH from its clients
//! (rules 40 to 52), and wills.
//!
//! ```text
//!  PUBLISH     number   event made     all owners have it    lower numbers are out   all nodes have it
//!  ------> Early -> Writing -> Storing -----------------> Ready --------------> OnTheWay --------> PUBREC
//!                                 ^                         |                   |      ^
//!                                 '--- the ring has changed '                   '------'
//! ```
//!
//! A PUBLISH takes a number of its run ([`Dot::is_qos2_number`]). The packet id is an ordinary entry
//! that names the number. When all owners have it, the message is routed under the number to every
//! present node. So a publisher whose node stops finds at any owner whether its message has a
//! number, and the message goes out under that one only. A PUBLISH with DUP that goes on with a number
//! writes the packet id anew first: a single owner may be left that has it.
//!
//! A will takes the same way, from a number to the end of its route: [`Wills`](crate::Wills) says when.
//! An entry of its own names the number, and all nodes have that before the route begins. After a change
//! of the ring all nodes of the new one have it before the route goes on.
//!
//! *Invariants*: a number is of one message. PUBREC says that all nodes of one ring have confirmed
//! the message. Numbers of a run are first routed in their order. What waits of a connection is
//! given up with it; what is on its way stays.
//!
//! The node has the waits for entries, the routes, and the entries themselves. Of two entries of a
//! packet id [`counting_uses`] says which one counts. [`NumberedUses`] fill the holes that a run leaves
//! which ends in the middle of a route.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use cluster::NodeId;

use crate::connecting::ConnectionId;
use crate::{Dot, EVENT_NUMBER_MAX, Interval, Run, VersionVector};

mod action;
mod connection;
mod error;
mod event;
mod message;
mod number_index;
mod numbered_uses;
mod packet_use;
mod releasing;
mod route;
mod routing;
mod storing;
mod will_numbers;
mod wills;

pub use action::{PublishViolation, PublishingAction, RefusePublish, StoredAt};
pub use error::{NoRecipients, PublishingError};
pub use event::{OpenedConnection, Publish, PublishingEvent, RouteConfirmation};
pub use number_index::NumberIndex;
pub use numbered_uses::{FilledMessage, NumberedUses};
pub use packet_use::{ContentId, NumberedMessage, PacketId, PacketUse, UseEntry, counting_uses};
pub use route::{ConfirmRoute, PublishingMessage, Route, RoutedMessage, RoutedTo};
pub use will_numbers::{WillEntry, WillNumbers};
pub use wills::{DueWill, NumberedWill, WillNumber};

use connection::OpenConnection;
use message::{Message, Phase};

/// Limits of publishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishingLimits {
    /// Messages of the run without PUBREC at most. A further PUBLISH is refused.
    pub waiting_max: usize,
    /// Messages of one connection without PUBREC at most: Receive Maximum of CONNACK. A connection
    /// that sends more is closed [MQTT-3.3.4-7].
    pub waiting_per_connection_max: usize,
    /// Numbers that were given up at most. Each may be a gap in the version vectors of all nodes
    /// until the run has ended. Beyond them a PUBLISH is refused, so that no vector is filled with
    /// gaps. A will is not: of its numbers few are given up, and each only for another one.
    pub given_up_max: usize,
}

/// QoS 2 messages of clients, from PUBLISH to PUBREC, and their packet ids until PUBCOMP; and wills
/// that are routed.
///
/// A message costs O(log n) for each event of it. A change of the ring passes over all messages that
/// wait, and sends them again.
#[derive(Debug)]
pub struct Publishing<M> {
    run: Run,
    limits: PublishingLimits,
    /// Last number that was given out; [`EVENT_NUMBER_MAX`] before the first.
    last: u64,
    ring: RingInForce,
    routes_are_merged: bool,
    connections: BTreeMap<ConnectionId, OpenConnection>,
    /// Messages with a number, until all nodes have them.
    messages: BTreeMap<Dot, Message<M>>,
    /// Numbers of wills among them.
    wills: BTreeSet<Dot>,
    /// Numbers of this run that wait to be routed.
    reserved: BTreeSet<u64>,
    /// Numbers of other runs whose messages may be routed.
    ready_of_others: BTreeSet<Dot>,
    /// PUBLISH without a number: the routes are not merged.
    early: VecDeque<Publish<M>>,
    /// Numbers of this run that nobody has routed, as far as this node knows.
    given_up: BTreeSet<u64>,
}

/// Ring by which this node routes.
#[derive(Debug, Default)]
struct RingInForce {
    /// Number of the ring marker.
    marker: u64,
    /// Present nodes, this one among them.
    nodes: BTreeSet<NodeId>,
}

impl<M: Clone> Publishing<M> {
    /// Publishing of a run without connections. Nothing is routed before the first
    /// [`PublishingEvent::RingChanged`] and [`PublishingEvent::RoutesMerged`].
    pub fn new(run: Run, limits: PublishingLimits) -> Publishing<M> {
        Publishing {
            run,
            limits,
            last: EVENT_NUMBER_MAX,
            ring: RingInForce::default(),
            routes_are_merged: false,
            connections: BTreeMap::new(),
            messages: BTreeMap::new(),
            wills: BTreeSet::new(),
            reserved: BTreeSet::new(),
            ready_of_others: BTreeSet::new(),
            early: VecDeque::new(),
            given_up: BTreeSet::new(),
        }
    }

    /// Takes what has happened; appends what the node does.
    ///
    /// # Errors
    ///
    /// [`PublishingError`] where a peer's message is refused.
    pub fn step(
        &mut self,
        event: PublishingEvent<M>,
        actions: &mut Vec<PublishingAction<M>>,
    ) -> Result<(), PublishingError> {
        match event {
            PublishingEvent::Opened(opened) => self.open(opened),
            PublishingEvent::Closed { connection } => self.close(connection, actions),
            PublishingEvent::Published(publish) => self.publish(publish, actions),
            PublishingEvent::Released {
                connection,
                packet_id,
            } => self.release(connection, packet_id, actions),
            PublishingEvent::UsesMerged { connection, uses } => self.add_uses(connection, uses),
            PublishingEvent::NumberWritten {
                connection,
                number,
                made,
            } => self.number_written(Some(connection), number, made, actions),
            PublishingEvent::FreeWritten {
                connection,
                packet_id,
                made,
            } => self.free_written(connection, packet_id, made),
            PublishingEvent::WillDue { due, body } => self.publish_will(due, body, actions),
            PublishingEvent::WillNumberWritten { number, made } => {
                self.number_written(None, number, made, actions);
            }
            PublishingEvent::WillGivenUp { number } => self.give_up_will(number, actions),
            PublishingEvent::Stored {
                number,
                entry,
                marker,
            } => self.stored(number, entry, marker, actions),
            PublishingEvent::Freed {
                connection,
                packet_id,
                dot,
            } => self.freed(connection, packet_id, dot, actions),
            PublishingEvent::RingChanged { marker, nodes } => self.change_ring(marker, nodes, actions),
            PublishingEvent::RoutesMerged(is_merged) => self.merge_routes(is_merged, actions),
            PublishingEvent::RouteConfirmed(confirmation) => self.confirm(confirmation, actions)?,
            PublishingEvent::RoutedByPeer { from, number } => self.routed_by_peer(from, number)?,
            PublishingEvent::LinkRenewed(peer) => self.renew_link(peer, actions),
        }
        Ok(())
    }

    /// Numbers that wait to be routed, or that a node may lack yet (rule `reserved-stay`): no node
    /// closes them.
    ///
    /// One range has all of each run. What it has besides is closed a little later.
    pub fn reserved(&self) -> VersionVector {
        let mut ranges = Vec::new();
        let mut next = self.messages.keys().next().copied();
        while let Some(first) = next {
            let end = Dot {
                number: u64::MAX,
                ..first
            };
            let last = self.messages.range(first..=end).next_back();
            let last = last.map_or(first, |(last, _)| *last);
            ranges.extend(Interval::between(first, last));
            let mut later = self.messages.range((Bound::Excluded(end), Bound::Unbounded));
            next = later.next().map(|(number, _)| *number);
        }
        VersionVector::of_apart(ranges)
    }

    /// Numbers of this run that were given up and that no other connection has gone on with.
    pub fn given_up(&self) -> impl ExactSizeIterator<Item = Dot> + '_ {
        self.given_up.iter().map(|number| self.dot(*number))
    }

    /// Numbers of a connection's messages without PUBREC.
    pub fn waiting_of(&self, connection: ConnectionId) -> impl Iterator<Item = Dot> + '_ {
        let connection = self.connections.get(&connection);
        connection
            .into_iter()
            .flat_map(|connection| &connection.waiting)
            .copied()
    }

    /// The message of a number is not at all nodes yet, and was not given up.
    pub fn has_message(&self, number: Dot) -> bool {
        self.messages.contains_key(&number)
    }

    /// The message of a number waits until the nodes that have to have it have this entry.
    pub fn is_storing(&self, number: Dot, entry: Dot) -> bool {
        let message = self.messages.get(&number);
        message.is_some_and(|message| message.phase == Phase::Storing { entry })
    }

    /// The routes are merged, as far as this was told.
    pub fn routes_are_merged(&self) -> bool {
        self.routes_are_merged
    }

    /// Messages of clients without PUBREC.
    pub fn waiting(&self) -> usize {
        self.messages.len() - self.wills.len() + self.early.len()
    }

    fn dot(&self, number: u64) -> Dot {
        let run = self.run;
        Dot { run, number }
    }
}

#[cfg(test)]
mod tests;
