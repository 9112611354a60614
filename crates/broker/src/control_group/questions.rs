//! What an operator asks of a cluster, and what is said.

use std::collections::BTreeSet;

use cluster::control::NodeStage;
use cluster::forming::Founder;
use cluster::peers::PeerAddress;
use cluster::replica::Members;
use cluster::session_plane::lifecycle::NodeState;
use cluster::{ClusterId, GroupId, Index, NodeId, Term};

/// What an operator asks of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterQuestion {
    /// How it stands.
    Status,
    /// Let a node take part that has called: its id, or its address.
    Add {
        /// As the operator wrote it.
        who: String,
    },
    /// Change something else.
    Change(ClusterChange),
}

/// What can be changed in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterChange {
    /// A node is to take part in every group.
    Add(Founder),
    /// A node is to take part in no group.
    Remove {
        /// Which.
        node: NodeId,
        /// Although it cannot be reached.
        is_forced: bool,
    },
    /// Another node is to lead a group.
    Transfer {
        /// Which group.
        group: GroupId,
        /// Which node.
        to: NodeId,
    },
}

/// What an operator is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterAnswer {
    /// How the cluster stands.
    Status(Box<ClusterStatus>),
    /// It is decided; what follows takes its time.
    Taken(String),
    /// Nothing was changed, and the same question will be refused again while the cluster stands as it does.
    Refused(String),
    /// Nobody decides at the moment, or nobody knows what was decided: the question may be asked again.
    Open(String),
    /// This server is no member of a cluster.
    NoCluster,
}

/// How a cluster stands, as one of its nodes sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The cluster.
    pub cluster: ClusterId,
    /// Who tells.
    pub node: NodeId,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
    /// Its groups, the control group last.
    pub groups: Vec<GroupStatus>,
    /// Nodes that called and are not in the cluster.
    pub callers: BTreeSet<Founder>,
    /// Voters that each group is to have, if there are as many nodes.
    pub voters_wanted: usize,
}

/// How a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Which.
    pub node: NodeId,
    /// Where it can be reached.
    pub address: PeerAddress,
    /// How far it is.
    pub stage: NodeStage,
    /// Since when, in milliseconds since the Unix epoch; 0: since the cluster was formed.
    pub since: u64,
    /// Whether it was heard in the last seconds.
    pub is_heard: bool,
    /// State of the node in the session plane, as the one who tells sees it.
    pub sessions: NodeState,
    /// Report of the node about copies, if it is not old.
    pub copies: Option<CopyReport>,
}

/// Report of a node about the copies that it has and those of its sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Slots that the node owns, and of which it has not merged with all present copies.
    pub under_replicated: u64,
    /// Groups of the state store of which the node has no whole copy, and fetches one.
    pub fetching: BTreeSet<GroupId>,
}

/// How a group stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// Which.
    pub group: GroupId,
    /// Who leads, as far as is known.
    pub leader: Option<NodeId>,
    /// The newest term.
    pub term: Term,
    /// Who takes part.
    pub members: Members,
    /// What its leader said last, if that is not long ago.
    pub report: Option<GroupReport>,
}

/// What a leader says of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReport {
    /// Which.
    pub group: GroupId,
    /// Its term.
    pub term: Term,
    /// The last entry of its log.
    pub last: Index,
    /// The other members.
    pub members: Vec<MemberReport>,
}

/// Where another member of a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberReport {
    /// Which.
    pub node: NodeId,
    /// Everything up to here is on its disk.
    pub matched: Index,
    /// Whether it was heard lately.
    pub is_active: bool,
    /// It has said that its disk is an older copy: it takes no part.
    pub is_rolled_back: bool,
}
