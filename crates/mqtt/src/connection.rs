//! One network connection, as the node sees it.

use std::time::{Duration, Instant};

use protocol::Packet;
use protocol::packet::ProtocolVersion;

use crate::acks::AckQueue;
use crate::authentication::Authentication;
use crate::ids::{ConnectionId, SessionKey};
use crate::pacing::Pace;
use crate::policies::{ConnectionAccess, PolicyId};
use crate::topic_alias;

/// How far a connection has come.
///
/// ```text
/// AwaitingConnect --CONNECT--> Authenticating --known--> Claiming --at its owners--> Accepting --> Connected
///        |      \                    |                   |   ^                        |             |
///        |       \--CONNECT, nobody asks who it is--------+---'                        |             |
///        +---------------------------+-------------------+----------------------------+-------------+--> removed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Opened; the first packet must be a CONNECT.
    AwaitingConnect,
    /// CONNECT came, and it is not known yet whether it says who it should. Nothing is read while the edge has a question.
    Authenticating,
    /// Its session is claimed from the owners. Nothing is read meanwhile.
    Claiming,
    /// It has its session, and CONNACK waits. Nothing is read meanwhile.
    Accepting(SessionKey),
    /// CONNACK was sent.
    Connected(SessionKey),
}

/// A network connection.
#[derive(Debug)]
pub struct Connection {
    /// Its id.
    pub id: ConnectionId,
    /// How far it has come.
    pub stage: Stage,
    /// Version of MQTT that its client speaks.
    pub version: ProtocolVersion,
    /// Its subscriptions have No Local and Retain As Published.
    pub is_bridge: bool,
    /// Reason Strings and user properties are welcome: Request Problem Information.
    pub wants_problem_information: bool,
    /// The client has to say who it is.
    pub is_asked: bool,
    /// It counts towards [`crate::limits::Limits::connections_max`]: whose it is was found out, if anybody asked.
    is_known: bool,
    /// Its listener's policy.
    pub policy: Option<PolicyId>,
    /// What the client may do, if the listener has a policy, from CONNECT on.
    pub access: Option<Box<ConnectionAccess>>,
    /// A state store registration was made: its end must be written into the log.
    pub has_watches: bool,
    /// Nothing is sent until the socket has taken what it was given.
    pub is_congested: bool,
    /// Bytes that may be handed over before the socket is asked whether it keeps up; at most
    /// [`crate::limits::Limits::outbound_bytes_max`].
    pub send_budget: usize,
    /// The client's Maximum Packet Size in bytes.
    pub packet_size_max: u32,
    /// When its last packet came.
    pub last_received: Instant,
    /// When its CONNECT was accepted, Unix milliseconds.
    pub connected_at: u64,
    /// The CONNACK of a client that the server has disconnected too often lately.
    pub held_connack: Option<Box<Packet>>,
    /// Its Keep Alive in seconds; 0: none.
    pub keep_alive: u16,
    /// It published while memory is critical: nothing is read for a moment.
    pub is_held_back: bool,
    /// It published while too much is not durable, or while it is not known who is to get it: nothing is read until that has passed.
    pub awaits_nodes: bool,
    /// A packet of it is worked through in turns: nothing is read until that is done.
    pub is_working: bool,
    /// How fast the client publishes, if that is limited.
    pub pace: Option<Box<Pace>>,
    /// Who the client is, if that was asked.
    pub authentication: Option<Box<Authentication>>,
    /// Acknowledgements of received PUBLISHes that wait for their turn.
    pub acks: AckQueue,
    /// Topic aliases that the client has set.
    pub inbound_aliases: Option<Box<topic_alias::Inbound>>,
    /// Topic aliases that the client was sent.
    pub outbound_aliases: Option<Box<topic_alias::Outbound>>,
}

impl Connection {
    /// A connection that was opened now and has sent nothing. `is_asked`: its client has to say who it is.
    pub fn new(id: ConnectionId, now: Instant, is_asked: bool, send_budget: usize) -> Self {
        Self {
            id,
            stage: Stage::AwaitingConnect,
            version: ProtocolVersion::V5,
            is_bridge: false,
            wants_problem_information: true,
            is_asked,
            is_known: false,
            policy: None,
            access: None,
            has_watches: false,
            is_congested: false,
            send_budget,
            packet_size_max: u32::MAX,
            last_received: now,
            connected_at: 0,
            held_connack: None,
            keep_alive: 0,
            is_held_back: false,
            awaits_nodes: false,
            is_working: false,
            pace: None,
            authentication: None,
            acks: AckQueue::default(),
            inbound_aliases: None,
            outbound_aliases: None,
        }
    }

    /// One and a half times the Keep Alive, if there is one.
    pub fn silence_max(&self) -> Option<Duration> {
        let keep_alive = u64::from(self.keep_alive);
        (keep_alive > 0).then(|| Duration::from_millis(keep_alive * 1_500))
    }

    /// The session, once there is one.
    pub fn session(&self) -> Option<SessionKey> {
        match self.stage {
            Stage::AwaitingConnect | Stage::Authenticating | Stage::Claiming => None,
            Stage::Accepting(session) | Stage::Connected(session) => Some(session),
        }
    }

    /// False while its next packets must wait.
    pub fn is_reading(&self) -> bool {
        match self.stage {
            Stage::AwaitingConnect => true,
            Stage::Authenticating => !self
                .authentication
                .as_ref()
                .is_some_and(|authentication| authentication.is_asked()),
            Stage::Accepting(_) | Stage::Claiming => false,
            Stage::Connected(_) => {
                let is_paused = self.pace.as_ref().is_some_and(|pace| pace.is_paused());
                !is_paused && !self.is_held_back && !self.awaits_nodes && !self.is_working
            }
        }
    }

    /// True from the CONNACK on.
    pub fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Connected(_))
    }
}

/// All connections by their id.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    count: usize,
    /// Those whose clients are known.
    known: usize,
}

impl Connections {
    /// Adds a connection, whose slot must be free.
    pub fn insert(&mut self, connection: Connection) {
        let slot = connection.id.slot();
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        assert!(
            self.slots[slot].is_none(),
            "a slot is given to one connection at a time"
        );
        self.slots[slot] = Some(Box::new(connection));
        self.count += 1;
    }

    /// Finds a connection; none if another one has its slot.
    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let connection = self.slots.get(id.slot())?.as_deref();
        connection.filter(|connection| connection.id == id)
    }

    /// Finds a connection that is to be changed.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(id.slot())?.as_deref_mut();
        connection.filter(|connection| connection.id == id)
    }

    /// Takes a connection out.
    pub fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.get(id)?;
        self.count -= 1;
        let removed = self.slots[id.slot()].take()?;
        self.known -= usize::from(removed.is_known);
        Some(*removed)
    }

    /// Connections whose clients are known.
    pub fn known_len(&self) -> usize {
        self.known
    }

    /// From here on it counts as one of a client that is known.
    pub fn know(&mut self, id: ConnectionId) {
        let connection = self.get_mut(id).filter(|connection| !connection.is_known);
        if let Some(connection) = connection {
            connection.is_known = true;
            self.known += 1;
        }
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.count
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ids of all.
    pub fn ids(&self) -> Vec<ConnectionId> {
        let all = self.slots.iter().flatten();
        all.map(|connection| connection.id).collect()
    }
}
