//! Connections of the clients of this node, from CONNECT until they have ended.
//!
//! ```text
//!             all owners have answered     older ones have ended    durable at the owners
//!   Writing -> Asking -----------------> Releasing -----------> Starting ---------> Live
//!                ^                           |                     |                  |
//!                '--- read again, or the ring has changed ---------'                  |
//!                                                                                     v
//!   refused, released, or the client has gone, in any of these ------------------> Closing
//! ```
//!
//! *Invariants*: CONNACK says that all present owners of one ring have answered since it began, and
//! have the session's entry. A claim ends within [`ConnectionLimits::claim_max`]: it is accepted or
//! refused. A connection that closes answers claimants only when the node says that it has closed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::action::{ConnectingAction, ConnectionId, DisconnectReason, Write};
use super::cluster_state::ClusterState;
use super::error::{ConnectingError, ConnectionsFull};
use super::message::{Claimant, QuestionRefused, Release, Released, SessionAnswer};
use crate::queue_limits::QueueValue;
use crate::{ClientId, Dot, Run, Slot};

mod claim;
mod claiming;
mod closing;
mod ring_change;

use claim::Claim;

/// Limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at most, in any phase. A further CONNECT is refused.
    pub connections_max: usize,
    /// Connections that claim their session at once. A further CONNECT is refused.
    pub claims_max: usize,
    /// Time from CONNECT to CONNACK at most. Then the CONNECT is refused, with the wait that has not
    /// ended.
    pub claim_max: Duration,
    /// Older connections that a claim asks to end at once; at least 1. Further ones follow when these
    /// have ended.
    pub releases_max: usize,
    /// Entries and single dots of a client that a claim reads. One of a client with more is refused.
    pub entries_max: usize,
    /// Claimants that wait for the end of one connection. A further one is told to give in.
    pub claimants_max: usize,
}

/// CONNECT of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// Client that connects.
    pub client: ClientId,
    /// It asks for a Clean Start.
    pub is_clean: bool,
}

/// Event of a connection, of a peer or of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEvent<V> {
    /// The node has made the event of [`Write::Connection`].
    Written {
        /// Connection.
        connection: ConnectionId,
        /// The event.
        dot: Dot,
        /// Clock of the event.
        clock: Hlc,
    },
    /// The node has made the event of [`Write::SessionStart`].
    SessionWritten {
        /// Connection.
        connection: ConnectionId,
        /// The event.
        dot: Dot,
    },
    /// The wait of [`ConnectingAction::AwaitSession`] has ended.
    SessionDurable {
        /// Connection.
        connection: ConnectionId,
        /// Round that the action named.
        round: u64,
    },
    /// The connection ends otherwise than by an action here: the client has left, or the node parts.
    Ended {
        /// Connection.
        connection: ConnectionId,
    },
    /// The session of a connection does not count any more, by this node's merged routes.
    SessionEnded {
        /// Connection.
        connection: ConnectionId,
    },
    /// All events of the connection are durable at the owners: its last acknowledgements, the will
    /// that it leaves, and entries of a claim that was refused. It says [`Ended`](Self::Ended), too.
    Closed {
        /// Connection.
        connection: ConnectionId,
    },
    /// An owner has answered.
    SessionReceived {
        /// The owner.
        from: NodeId,
        /// Its answer.
        answer: Box<SessionAnswer<V>>,
    },
    /// An owner does not answer.
    QuestionRefused {
        /// The owner.
        from: NodeId,
        /// Its refusal.
        refused: QuestionRefused,
    },
    /// A connection of this node is to end.
    ReleaseAsked {
        /// Node that asks.
        from: NodeId,
        /// Its request.
        release: Release,
    },
    /// The node of an older connection has answered.
    ReleasedReceived {
        /// Node of the older connection.
        from: NodeId,
        /// Its answer.
        released: Released,
    },
    /// This node has made a ring marker: all claims begin anew (rule `claim-anew`).
    RingChanged,
    /// A slot has other owners than before.
    OwnersChanged(Slot),
    /// A peer was given up: nothing of it is waited for.
    PeerLost(NodeId),
    /// The link to a present peer is a new one: what was asked of it is asked again.
    LinkRenewed(NodeId),
}

/// Connections of one run of this node.
///
/// A claim costs a few messages and O(log n). A live connection takes about 200 bytes and its
/// client id.
#[derive(Debug)]
pub struct Connections<V> {
    run: Run,
    limits: ConnectionLimits,
    /// Last connection; 0 before the first.
    last: u64,
    connections: BTreeMap<ConnectionId, Connection<V>>,
    /// Connections by the number of their event.
    numbers: BTreeMap<u64, ConnectionId>,
    slots: BTreeMap<Slot, OfSlot>,
    /// Claims, in the order in which they end at the latest.
    due: BTreeSet<(Instant, ConnectionId)>,
    /// Connections that claimants wait for.
    awaited: BTreeSet<ConnectionId>,
}

/// Connection of a client.
#[derive(Debug)]
struct Connection<V> {
    client: ClientId,
    /// Event that opened it, once that is made.
    opened: Option<Claimant>,
    phase: Phase<V>,
}

/// Phase of a connection.
#[derive(Debug)]
enum Phase<V> {
    /// Until CONNACK.
    Claiming(Box<Claim<V>>),
    /// From CONNACK on.
    Live,
    /// Until its last acknowledgements and its will are at the owners.
    Closing(Closing),
}

/// End of a connection.
#[derive(Debug, Default)]
struct Closing {
    /// Claims that wait for it.
    claimants: BTreeSet<Dot>,
    /// Nothing is awaited but the connection's own event.
    is_closed: bool,
}

/// Connections of a slot.
#[derive(Debug)]
struct OfSlot {
    /// Owners that have the entries.
    told: BTreeSet<NodeId>,
    connections: BTreeSet<ConnectionId>,
}

impl<V: Ord + QueueValue + Clone> Connections<V> {
    /// No connection, of this run of the node.
    pub fn new(run: Run, limits: ConnectionLimits) -> Connections<V> {
        assert!(limits.releases_max >= 1, "a claim releases one connection");
        Connections {
            run,
            limits,
            last: 0,
            connections: BTreeMap::new(),
            numbers: BTreeMap::new(),
            slots: BTreeMap::new(),
            due: BTreeSet::new(),
            awaited: BTreeSet::new(),
        }
    }

    /// Begins to claim the session of a client that connects. The connection's entry is written first.
    ///
    /// # Errors
    ///
    /// [`ConnectionsFull`] where there is no room. The node refuses the CONNECT with 0x97, Quota
    /// exceeded.
    pub fn begin(
        &mut self,
        now: Instant,
        connect: Connect,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) -> Result<ConnectionId, ConnectionsFull> {
        self.check_room()?;
        self.last += 1;
        let id = ConnectionId(self.last);
        let Connect { client, is_clean } = connect;
        let due = now + self.limits.claim_max;
        let slot = Slot::of_client(client.as_bytes());
        let of_slot = self.slots.entry(slot).or_insert_with(|| OfSlot {
            told: cluster.owners(slot).into_iter().collect(),
            connections: BTreeSet::new(),
        });
        of_slot.connections.insert(id);
        self.due.insert((due, id));
        let connection = Connection {
            client: client.clone(),
            opened: None,
            phase: Phase::Claiming(Box::new(Claim::new(is_clean, due))),
        };
        self.connections.insert(id, connection);
        actions.push(ConnectingAction::Write {
            connection: id,
            client,
            write: Write::Connection,
        });
        Ok(id)
    }

    /// Takes what has happened; appends what the node does.
    ///
    /// # Errors
    ///
    /// [`ConnectingError`] where a peer's message is refused.
    pub fn step(
        &mut self,
        event: ConnectionEvent<V>,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) -> Result<(), ConnectingError> {
        match event {
            ConnectionEvent::Written {
                connection,
                dot,
                clock,
            } => self.open(connection, Claimant { clock, dot }, cluster, actions),
            ConnectionEvent::SessionWritten { connection, dot } => {
                self.start_written(connection, dot, actions);
            }
            ConnectionEvent::SessionDurable { connection, round } => {
                self.accept(connection, round, actions);
            }
            ConnectionEvent::Ended { connection } => self.end(connection),
            ConnectionEvent::SessionEnded { connection } => {
                self.part(connection, DisconnectReason::SessionEnded, actions);
            }
            ConnectionEvent::Closed { connection } => self.close(connection, actions),
            ConnectionEvent::SessionReceived { from, answer } => {
                self.take_answer(from, *answer, cluster, actions);
            }
            ConnectionEvent::QuestionRefused { from, refused } => {
                self.take_refusal(from, refused, actions);
            }
            ConnectionEvent::ReleaseAsked { from, release } => {
                self.take_release(from, &release, actions)?;
            }
            ConnectionEvent::ReleasedReceived { from, released } => {
                self.take_released(from, released, cluster, actions)?;
            }
            ConnectionEvent::RingChanged => self.begin_anew(cluster, actions),
            ConnectionEvent::OwnersChanged(slot) => self.change_owners(slot, cluster, actions),
            ConnectionEvent::PeerLost(peer) => self.lose_peer(peer, cluster, actions),
            ConnectionEvent::LinkRenewed(peer) => self.renew_link(peer, cluster, actions),
        }
        Ok(())
    }

    /// Refuses claims that have taken as long as they may.
    pub fn tick(&mut self, now: Instant, actions: &mut Vec<ConnectingAction<V>>) {
        while let Some((_, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            let reason = self.claim(id).map(Claim::overdue);
            if let Some(reason) = reason {
                self.refuse(id, reason, actions);
            }
        }
    }

    /// Time at which [`Connections::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Connections of the clients of a slot, in any phase.
    pub fn of_slot(&self, slot: Slot) -> impl Iterator<Item = ConnectionId> + '_ {
        let of_slot = self.slots.get(&slot).map(|of_slot| &of_slot.connections);
        of_slot.into_iter().flatten().copied()
    }

    /// Slots of the clients that are connected, in any phase.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.keys().copied()
    }

    /// Connections in any phase.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// There is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Connections that claim their session.
    pub fn claims(&self) -> usize {
        self.due.len()
    }

    /// The connection has its CONNACK, and has not ended.
    pub fn is_live(&self, connection: ConnectionId) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|connection| matches!(connection.phase, Phase::Live))
    }

    fn check_room(&self) -> Result<(), ConnectionsFull> {
        let ConnectionLimits {
            connections_max,
            claims_max,
            ..
        } = self.limits;
        if self.due.len() >= claims_max {
            Err(ConnectionsFull::Claims { claims_max })
        } else if self.connections.len() >= connections_max {
            Err(ConnectionsFull::Connections { connections_max })
        } else {
            Ok(())
        }
    }

    fn claim(&self, id: ConnectionId) -> Option<&Claim<V>> {
        match &self.connections.get(&id)?.phase {
            Phase::Claiming(claim) => Some(claim),
            Phase::Live | Phase::Closing(_) => None,
        }
    }

    fn claim_mut(&mut self, id: ConnectionId) -> Option<&mut Claim<V>> {
        match &mut self.connections.get_mut(&id)?.phase {
            Phase::Claiming(claim) => Some(claim),
            Phase::Live | Phase::Closing(_) => None,
        }
    }

    /// Connection of this run by its event.
    fn find(&self, dot: Dot) -> Option<ConnectionId> {
        let of_run = (dot.run == self.run).then_some(dot.number);
        of_run.and_then(|number| self.numbers.get(&number)).copied()
    }

    /// Puts a connection into another phase; gives the one before.
    fn set_phase(&mut self, id: ConnectionId, phase: Phase<V>) -> Option<Phase<V>> {
        let connection = self.connections.get_mut(&id)?;
        let before = std::mem::replace(&mut connection.phase, phase);
        if let Phase::Claiming(claim) = &before {
            self.due.remove(&(claim.due(), id));
        }
        Some(before)
    }
}
