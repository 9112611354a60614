//! Reports to the operator. The driver writes each to the log, with the listener and the address of the client.

use std::time::Duration;

use cluster::replica::Missing;
use cluster::session_plane::lifecycle::StateChange;
use cluster::{GroupId, Index, NodeId, Term};
use mqtt::ids::ConnectionId;
use mqtt::memory::MemoryLevel;
use mqtt::principal::Principal;
use protocol::{ReasonCode, Text};

use crate::denial::Denied;
use crate::slow::SlowOperation;

/// Something that an operator may want to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A client was accepted.
    Connected {
        /// On which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// As whom, if that was asked.
        principal: Option<Principal>,
        /// With the state of an earlier connection.
        session_present: bool,
    },
    /// A CONNECT was refused.
    Refused {
        /// On which connection.
        connection: ConnectionId,
        /// Who, as far as the CONNECT could be read. Empty if the client wanted to be given a name.
        client_id: Option<Text>,
        /// What the client was told.
        reason: ReasonCode,
        /// Why.
        why: String,
    },
    /// The server ended a connection.
    Disconnected {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// As whom, if that was asked.
        principal: Option<Principal>,
        /// What the client was told.
        reason: ReasonCode,
        /// Why.
        why: String,
        /// The topic that was the reason, if one was.
        topic: Option<Text>,
    },
    /// A connection ended, and this node has not decided that.
    Ended {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// Why.
        by: EndedBy,
    },
    /// Lines of a SUBSCRIBE or an UNSUBSCRIBE were not carried out: one report for each reason in a packet.
    FiltersRefused {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// The packet, as the specification calls it.
        packet: &'static str,
        /// The topic filter, of several the first.
        filter: Text,
        /// How many more of the packet were refused for the same reason.
        further: usize,
        /// What the client was told.
        reason: ReasonCode,
        /// Why.
        why: &'static str,
    },
    /// A PUBLISH was not carried out.
    PublishRefused {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// The topic.
        topic: Text,
        /// What the client was told, where it can be told.
        reason: ReasonCode,
        /// Why.
        why: &'static str,
    },
    /// An acknowledgement named a packet id that is not known, and its answer said so.
    PacketIdUnknown {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// The packet, as the specification calls it.
        packet: &'static str,
        /// The packet id.
        packet_id: u16,
    },
    /// Memory has become more or less scarce.
    MemoryLevel {
        /// How scarce it was.
        before: MemoryLevel,
        /// How scarce it is.
        level: MemoryLevel,
        /// Bytes that the node accounts for.
        used: u64,
        /// [`mqtt::limits::Limits::memory_max`]
        memory_max: u64,
    },
    /// A client may not do something. Every time: it is for the driver to say no more than somebody can read. What is told of a PUBLISH or a
    /// SUBSCRIBE is in a report of its own as well.
    Denied(Box<Denied>),
    /// A group of the state store has another leader. Only in a cluster.
    Leader {
        /// Which group.
        group: GroupId,
        /// This node, or another one; `None`: nobody has led for longer than an election takes.
        leader: Option<NodeId>,
        /// The newest term that this node knows of.
        term: Term,
    },
    /// The cluster has removed this node, which begins to leave.
    Leaving,
    /// The log of a node, this one's or a follower's, ends before what the node has acknowledged.
    LogTooShort {
        /// Which group.
        group: GroupId,
        /// Whose log; `None`: this node's.
        node: Option<NodeId>,
        /// What it lacks, and what follows.
        missing: Missing,
    },
    /// What another node sent is not understood.
    PeerMessageDropped {
        /// Which node.
        from: NodeId,
        /// Why.
        why: String,
    },
    /// The run of the session plane cannot go on: the node stops, and is to be started anew.
    ReplicationEnded {
        /// Why.
        why: String,
    },
    /// What this node sends to another one goes by a third node, since their link is broken, or does not any more.
    Relay {
        /// Which node it is for.
        node: NodeId,
        /// Which node passes it on; `None`: none does any more.
        by: Option<NodeId>,
    },
    /// This node's copy of a group is not as it should be, or is again.
    Copy {
        /// Which group.
        group: GroupId,
        /// What happened.
        news: CopyNews,
    },
    /// This node's disk takes too long for what other nodes have on theirs, and lets another one lead.
    DiskHeldUp {
        /// Which group.
        group: GroupId,
        /// Who is to lead it.
        to: NodeId,
    },
    /// A group stood still, and its time was advanced by the wall clocks of a majority of its replicas.
    TimeReckoned {
        /// Which group.
        group: GroupId,
        /// By how much, since its last log entry; `None`: the clocks do not agree, and it goes on from that entry.
        by: Option<Duration>,
    },
    /// A node of the cluster is in another state, as this one sees it.
    NodeState(StateChange),
    /// Something took long.
    Slow(Box<SlowOperation>),
    /// A state store request had a timestamp too far ahead.
    ClockAhead {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// By how many milliseconds.
        ahead_ms: u64,
    },
}

/// Cause of a connection's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The client sent DISCONNECT.
    Client,
    /// The network connection was lost.
    Loss,
}

/// What happened to a node's copy of a group of the state store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyNews {
    /// It is another than that of the majority behind this entry. It serves nothing any more, and is fetched anew.
    Differs {
        /// The entry.
        index: Index,
    },
    /// It is not whole, and another one is fetched.
    Fetched,
    /// Copies differ behind this entry, of a group that this node leads, and no majority agrees.
    Undecided {
        /// The entry.
        index: Index,
    },
    /// What another node sent as a snapshot cannot be read. It is fetched again.
    SnapshotUnreadable,
    /// The store of another node has taken its place.
    Replaced,
}
