//! Wills of one run of this node: left by the connections of its clients, and published for the slots
//! that it is the primary owner of (rules 56 to 62).
//!
//! ```text
//!  node of the connection             primary owner
//!   Open -> Leaving -> released        Waiting ---> Firing -----------> Published ---> removed
//!     |        (the will's end          the delay     a number, then       |  ^
//!     |         is at the owners)                     all nodes have it    |  '- its node may live
//!     '-> released (DISCONNECT 0)                                          '---> armed again
//! ```
//!
//! A will is an entry at the owners before CONNACK. The end of its connection, and the number under
//! which it is published, are entries beside it. [`Publishing`](crate::Publishing) gives it the number
//! and routes it, like a QoS 2 message of a client. `connecting` writes the ends of connections whose
//! run has ended, and removes delayed wills that a CONNECT cancels.
//!
//! *Invariants*: a will is published only while this node decides about its slot, by the number that
//! counts, and at most [`WillLimits::firing_max`] at once. A will that was published stays until its
//! connection has ended. What this node does not decide about has no state here, but for the numbers that
//! it knew when it wrote the last one of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::connecting::ConnectionId;
use crate::{Dot, Run};

mod action;
mod event;
mod firing;
mod known_will;
mod leaving;
mod place;
mod settling;
mod will_state;
mod written_number;

pub use action::WillsAction;
pub use event::{OwnWill, WillEnd, WillsEvent};
pub use known_will::{KnownWill, NumberEntry, WillPart, WillValue, known_wills};
pub use will_state::WillState;

use firing::Stage;
use leaving::Leaving;
use place::Place;
use written_number::WrittenNumber;

/// Limits of wills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WillLimits {
    /// Wills that are on their way to all nodes at once; at least 1. Further ones that are due wait for
    /// their turn, the one that was due first is the next. When a node with many clients is lost,
    /// its wills are published this many at a time.
    pub firing_max: usize,
}

/// Wills of the connections of this node, and those that this node publishes.
///
/// A connection with a will takes about 200 bytes and its client id until it is released. So does a
/// will whose connection has ended or was given up, until it is removed. The will of an open
/// connection costs nothing at its primary owner. One that this node has begun to publish takes the
/// numbers that it has, until it is removed. A change costs a look at the wills of one client,
/// and a change of the ring a pass over all wills of the slots that this node decides about.
#[derive(Debug)]
pub struct Wills {
    run: Run,
    limits: WillLimits,
    /// Connections of this node whose will is at the owners.
    connections: BTreeMap<ConnectionId, Leaving>,
    /// Connections by the event of their end, which is not durable yet.
    leaving: BTreeMap<Dot, ConnectionId>,
    /// Wills that are due, or that were published.
    watched: BTreeMap<Place, Stage>,
    /// Wills that wait, by the time at which they are due.
    due: BTreeSet<DueAt>,
    /// Wills on their way, by each number that they have.
    numbers: BTreeMap<Dot, Place>,
    /// Last own number of each will that this run has published or begun to publish.
    written: BTreeMap<Place, WrittenNumber>,
    /// Wills on their way.
    firing: usize,
}

/// Will that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DueAt {
    due: Instant,
    place: Place,
}

impl Wills {
    /// No will, of this run of the node.
    pub fn new(run: Run, limits: WillLimits) -> Wills {
        assert!(limits.firing_max >= 1, "one will is published at a time");
        Wills {
            run,
            limits,
            connections: BTreeMap::new(),
            leaving: BTreeMap::new(),
            watched: BTreeMap::new(),
            due: BTreeSet::new(),
            numbers: BTreeMap::new(),
            written: BTreeMap::new(),
            firing: 0,
        }
    }

    /// Takes what has happened; appends what the node does.
    ///
    /// The node tells changes before it tells [`Publishing`](crate::Publishing) what is stored
    /// behind them. So a number that does not count any more is given up before its route begins.
    pub fn step(
        &mut self,
        now: Instant,
        event: WillsEvent,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        match event {
            WillsEvent::Written { connection, own } => self.will_written(connection, own),
            WillsEvent::Ended { connection, end } => self.end(connection, end, actions),
            WillsEvent::EndWritten { connection, dot } => self.end_written(connection, dot),
            WillsEvent::Durable(dot) => self.durable(dot, actions),
            WillsEvent::Changed { client } => self.look_at_client(now, &client, state, actions),
            WillsEvent::CopyChanged { slot } => self.look_at_slot(now, slot, state, actions),
            WillsEvent::RingChanged => self.look_at_all(now, state, actions),
            WillsEvent::RoutedByPeer { number } => self.routed_by_peer(now, number, state, actions),
            WillsEvent::Numbered { client, will, number } => {
                self.numbered(now, &Place::new(client, will), number, state, actions);
            }
            WillsEvent::Refused { client, will } => {
                self.refused(now, Place::new(client, will), state, actions);
            }
            WillsEvent::Published { number } => self.published(now, number, state, actions),
        }
    }

    /// Publishes wills that are due.
    pub fn tick(&mut self, now: Instant, state: &impl WillState, actions: &mut Vec<WillsAction>) {
        self.fire_due(now, state, actions);
    }

    /// Time at which [`Wills::tick`] has something to do. None while as many wills are on their way as
    /// may: the next one follows when one of these is published.
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.due.first().filter(|_| self.has_room());
        first.map(|first| first.due)
    }

    /// Wills on their way to all nodes; a gauge.
    pub fn firing(&self) -> usize {
        self.firing
    }

    /// Wills that wait for their delay or for their turn; a gauge.
    pub fn waiting(&self) -> usize {
        self.due.len()
    }

    /// Connections of this node whose will is on its way to the owners; a gauge.
    pub fn leaving(&self) -> usize {
        self.connections
            .values()
            .filter(|leaving| leaving.is_leaving())
            .count()
    }

    fn has_room(&self) -> bool {
        self.firing < self.limits.firing_max
    }
}

#[cfg(test)]
mod tests;
