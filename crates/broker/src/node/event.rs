//! What a node is told, and what it asks for.
//!
//! There is one event for each thing that can happen to a node, and one action for each that it can want. What follows from an
//! event is said where the node takes it, what becomes of an action by the driver.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cluster::forming::Founder;
use cluster::{GroupId, Index, NodeId, Outbound, Term, Write};
use mqtt::authentication::{Answer, Question};
use mqtt::ids::ConnectionId;
use mqtt::policies::{Policies, PolicyId};
use mqtt::traces::Span;
use protocol::Packet;
use protocol::packet::{DecodeError, ProtocolVersion};
use protocol::state_store::Verb;
use store::Image;

use crate::administration::Administration;
use crate::backups::Tally;
use crate::commits::DiskTicket;
use crate::control_group::{ClusterAnswer, ClusterQuestion};
use crate::delivery::OutgoingPublish;
use crate::report::Report;

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A client opened a network connection.
    Opened {
        /// Chosen by the driver; its slot is free.
        connection: ConnectionId,
        /// What of the time for its CONNECT went by before, in a TLS handshake for example.
        waited: Duration,
        /// The client has to say who it is: its CONNECT becomes an [`Action::Authenticate`]. Otherwise everybody is let in, and
        /// an Authentication Method is not supported.
        is_asked: bool,
        /// By which policy it is judged; `None`: everything is allowed.
        policy: Option<PolicyId>,
    },
    /// The policies are others now. Their places and names stay the same.
    Policies(Policies),
    /// The answer to [`Action::Authenticate`].
    Authenticated {
        /// Which connection; it may be gone.
        connection: ConnectionId,
        /// What was found out.
        answer: Answer,
    },
    /// A packet came.
    Received {
        /// On which connection.
        connection: ConnectionId,
        /// Which.
        packet: Packet,
    },
    /// Bytes of a packet that is not complete came, as many as count as a sign of life ([`PART_BYTES_MIN`](crate::PART_BYTES_MIN)).
    PartReceived {
        /// On which connection.
        connection: ConnectionId,
    },
    /// Bytes came that are no packet; nothing more is read from the connection.
    Violated {
        /// On which connection.
        connection: ConnectionId,
        /// What is wrong with them.
        error: DecodeError,
    },
    /// A client may not stay: what the edge knew of it does not hold any more.
    Dismissed {
        /// Which connection; it may be gone.
        connection: ConnectionId,
        /// For the operator and the client.
        why: String,
    },
    /// The network connection is gone.
    Lost {
        /// Which.
        connection: ConnectionId,
    },
    /// The answer to [`Action::ReportDrained`]: the socket took what it had been given.
    Drained {
        /// Which.
        connection: ConnectionId,
    },
    /// The writes of `ticket` and of all tickets before it are durable.
    Durable {
        /// The latest.
        ticket: DiskTicket,
    },
    /// A snapshot could not be written; the log still has everything.
    SnapshotFailed {
        /// Of which group.
        group: GroupId,
    },
    /// A snapshot of the state store is durable.
    SnapshotWritten {
        /// Of which group.
        group: GroupId,
        /// Of which log position.
        index: Index,
        /// And its term.
        term: Term,
    },
    /// An operator asks about the cluster, or wants it changed. The answer comes as an [`Action::ClusterAnswer`].
    Cluster {
        /// For the answer.
        question: u64,
        /// What.
        asks: ClusterQuestion,
    },
    /// An operator wants something done. The answer comes as an [`Action::Administered`].
    Administer {
        /// For the answer.
        question: u64,
        /// What.
        wanted: Administration,
    },
    /// A node called: one of the cluster that says where it is, or one that belongs to none, and was refused.
    Called {
        /// Which, and where it can be reached.
        caller: Founder,
    },
    /// Bytes of a message from or to another node have passed, and it is not whole yet: that node is there.
    Heard {
        /// Which.
        from: NodeId,
    },
    /// The edge can send to these nodes now, and to no others. Told whenever it changes; before it is told, to all of them.
    Links {
        /// Nodes with a connection from this one.
        reached: BTreeSet<NodeId>,
    },
    /// Another node sent these bytes.
    Peer {
        /// Which.
        from: NodeId,
        /// As it left in [`Action::ToPeer`].
        message: Bytes,
    },
    /// Memory that the edge holds for all connections together. Told when it has changed noticeably.
    Buffered {
        /// Bytes that wait to be written.
        outbound: u64,
        /// Packets that are not complete, the buffers of TLS and WebSocket, sockets and their tasks.
        inbound: u64,
        /// Records that are durable, and that the disk engine holds until they are in its tables.
        engine: u64,
    },
    /// There is no memory for the rest of the packet that a connection has begun.
    Overrun {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Everything that had arrived was given to the node: time to send out what was collected.
    Flush,
    /// The server stops: say goodbye to all clients.
    Stop,
    /// The time of [`Node::deadline`](super::Node::deadline) has come.
    Timeout,
}

/// What to do. Actions for one connection, and [`Action::Persist`]s, are carried out in their order.
#[derive(Debug)]
pub enum Action {
    /// From here on the connection speaks this version and accepts packets of at most so many bytes.
    Speak {
        /// Which connection.
        connection: ConnectionId,
        /// Its protocol.
        version: ProtocolVersion,
        /// Bytes.
        packet_size_max: u32,
    },
    /// Find out who the client is, then answer with [`Event::Authenticated`]. A connection has one question at a time.
    Authenticate {
        /// Which connection.
        connection: ConnectionId,
        /// What the client says of itself.
        question: Question,
    },
    /// Send a packet.
    Send {
        /// To which connection.
        connection: ConnectionId,
        /// What.
        packet: Packet,
    },
    /// Send a message.
    Publish {
        /// To which connection.
        connection: ConnectionId,
        /// What.
        publish: OutgoingPublish,
    },
    /// Read on: [`Node::is_reading`](super::Node::is_reading) turned true.
    Resume {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Answer with [`Event::Drained`] when the socket has taken everything.
    ReportDrained {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Close after everything was sent.
    Close {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Make these writes durable, in the order of tickets, then answer with [`Event::Durable`].
    Persist {
        /// For the answer.
        ticket: DiskTicket,
        /// One atomic batch.
        writes: Vec<Write>,
        /// Somebody asked for the disk, whatever the server's durability is.
        needs_disk: bool,
    },
    /// Write a snapshot of a group of the state store, then answer with [`Event::SnapshotWritten`].
    Snapshot {
        /// Which group of it. A group wants one at a time.
        group: GroupId,
        /// Log position of the image.
        index: Index,
        /// Its term.
        term: Term,
        /// The frozen store.
        image: Image,
    },
    /// Give these bytes to another node. May be lost and doubled; what is sent to one node later arrives later.
    ToPeer {
        /// Which.
        to: NodeId,
        /// What.
        message: Outbound,
    },
    /// These nodes are in the cluster: call them, and answer them. Those that were removed are hung up on. Told at the start and
    /// whenever it changes.
    Peers {
        /// All nodes, also this one.
        members: BTreeSet<Founder>,
        /// Those that were removed, as far as they are remembered.
        removed: Vec<NodeId>,
    },
    /// The answer to [`Event::Cluster`].
    ClusterAnswer {
        /// As asked.
        question: u64,
        /// The answer.
        answer: ClusterAnswer,
    },
    /// The answer to [`Event::Administer`].
    Administered {
        /// As asked.
        question: u64,
        /// False: there is nothing that it could be done to.
        is_done: bool,
    },
    /// The answer to [`Administration::Freeze`].
    Frozen {
        /// As asked.
        question: u64,
        /// The image; `None`: this node does not lead the group, or nobody does.
        image: Option<Box<Image>>,
    },
    /// The answer to [`Administration::Restore`].
    Restored {
        /// As asked.
        question: u64,
        /// What became of everything.
        tally: Tally,
    },
    /// A state store request was answered, for figures.
    Decided {
        /// What it asked for.
        verb: Verb,
        /// From receiving it to its answer.
        took: Duration,
    },
    /// These spans are over: of one request or message, those that belong to others first.
    Traced(Vec<Span>),
    /// Tell the operator.
    Report(Report),
}
