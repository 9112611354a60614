//! Wills of sessions that end with their connection, and the nodes that publish them when the node of the connection is lost.
//!
//! Such a session is in the memory of its node and nowhere else. Of its will another node is told, its *guard*: the first one on the Primary ring of the
//! client id. The client is told that it is connected when the guard has the will (`telling.rs`). When a node is lost, or has started anew, each guard
//! publishes what it has of it (`guarding.rs`), and says so to all others; so a node that was only away learns of it when it is back.
//! Wills of durable sessions are no business of this: they are in their records, which have copies.
//!
//! ```text
//! untold --guard--> guarded --ask--> asked --let go--> untold, for another guard; or published here, if the connection is gone
//!                      |                `--published--> nobody's
//!                      |--gone--> nobody's: after DISCONNECT, and when it is published here
//!                      `--the guard publishes it--> nobody's
//! ```
//!
//! *Invariant*: at most one node has a will to publish it when the node of the connection is lost.

mod guarding;
mod messages;
mod telling;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use cluster::NodeId;
use mqtt::ids::{SessionKey, SessionNumber};
use mqtt::ownership::Owner;
use mqtt::will;
use protocol::Text;
use protocol::packet::Will;

use self::messages::{WillMessage, encode};
use crate::node::Node;
use crate::routes::{Routes, Subject, WaitId};

/// What was counted of guarded wills, and how many there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WillFigures {
    /// Wills of other nodes that this one guards.
    pub guarded: usize,
    /// Wills of this node that no other one guards.
    pub unguarded: usize,
    /// Wills of other nodes that were not taken, because memory was full.
    pub refused: u64,
    /// Wills that this node has published for others.
    pub published: u64,
    /// Wills of connections of this node that others have published, because it was away.
    pub published_elsewhere: u64,
}

/// What this node has to do with guarded wills.
#[derive(Debug)]
pub(crate) struct Guards {
    own: NodeId,
    incarnation: u32,
    /// The wills of connections of this node.
    told: BTreeMap<SessionNumber, Told>,
    /// Those whose connections are gone, while it is asked whether they were published: and who is asked.
    asked: BTreeMap<SessionNumber, (NodeId, Guarded)>,
    question: u64,
    /// When what was not answered is asked again.
    ask_again_at: Option<Instant>,
    /// The next of `told` to be looked at, because guards have changed or are reached.
    visit: Option<SessionNumber>,
    /// Nodes that hear from the beginning what they guard, and whether that was begun.
    hearing: BTreeMap<NodeId, bool>,
    /// When there is more to do.
    go_on_at: Option<Instant>,
    /// The wills of other nodes.
    guarded: BTreeMap<NodeId, BTreeMap<SessionNumber, Guarded>>,
    /// What they count for.
    bytes: u64,
    /// Nodes that are lost, and up to where their wills are to be published.
    lost: BTreeMap<NodeId, SessionNumber>,
    /// Wills of the latest run of each node that were published while it was away, by whomever.
    published: BTreeMap<NodeId, BTreeSet<SessionNumber>>,
    figures: WillFigures,
}

/// A will of a connection of this node.
#[derive(Debug)]
struct Told {
    key: SessionKey,
    stage: Stage,
    /// Some node was told of it, and may have published it.
    was_told: bool,
}

/// Who may publish a will when this node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Untold,
    Guarded(NodeId),
    /// This node was asked to let it go, since another one is to guard it.
    Asked(NodeId),
}

/// A will that is published apart from its session.
#[derive(Debug)]
struct Guarded {
    client_id: Text,
    owner: Option<Owner>,
    will: Will,
    /// Its node has said so since it was reached last.
    is_confirmed: bool,
}

/// What a guarded will counts for besides its message: estimated as in `overload.rs`.
const GUARDED: u64 = 256;

impl Guards {
    fn new(own: NodeId, incarnation: u32) -> Self {
        Self {
            own,
            incarnation,
            told: BTreeMap::new(),
            asked: BTreeMap::new(),
            question: 0,
            ask_again_at: None,
            visit: None,
            hearing: BTreeMap::new(),
            go_on_at: None,
            guarded: BTreeMap::new(),
            bytes: 0,
            lost: BTreeMap::new(),
            published: BTreeMap::new(),
            figures: WillFigures::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.go_on_at, self.ask_again_at].into_iter().flatten().min()
    }

    pub(crate) fn figures(&self) -> WillFigures {
        let unguarded = self.told.values().filter(|told| told.stage == Stage::Untold);
        WillFigures {
            guarded: self.guarded.values().map(BTreeMap::len).sum(),
            unguarded: unguarded.count(),
            ..self.figures
        }
    }

    /// What is held for other nodes, and of connections that are gone.
    pub(crate) fn bytes(&self) -> u64 {
        let asked = self.asked.values().map(|(_, guarded)| guarded.size());
        let published = self.published.values().map(BTreeSet::len).sum::<usize>();
        self.bytes + asked.sum::<u64>() + (published * size_of::<SessionNumber>()) as u64
    }

    /// Tells a node something. False if it is not reached.
    fn tell(&self, peers: &mut Routes, to: NodeId, message: &WillMessage, wait: Option<WaitId>) -> bool {
        peers.tell(to, (Subject::Wills, encode(self.incarnation, message)), wait)
    }
}

impl Stage {
    /// The node that has it, or may have it still.
    fn node(self) -> Option<NodeId> {
        match self {
            Self::Untold => None,
            Self::Guarded(node) | Self::Asked(node) => Some(node),
        }
    }

    fn is_with(self, node: NodeId) -> bool {
        self.node() == Some(node)
    }
}

impl Guarded {
    fn size(&self) -> u64 {
        GUARDED + self.client_id.len() as u64 + will::size(&self.will)
    }
}

impl Node {
    /// From here on wills are guarded, in a cluster.
    pub(crate) fn begin_guards(&mut self, (node, incarnation): (NodeId, u32)) {
        if self.control.is_some() {
            self.guards = Some(Box::new(Guards::new(node, incarnation)));
        }
    }

    /// The wills of other nodes that this one guards, with the nodes, for a simulator to look at.
    pub fn guarded_wills(&self) -> impl Iterator<Item = (NodeId, &Will)> {
        let guards = self.guards.iter();
        guards.flat_map(|guards| {
            guards
                .guarded
                .iter()
                .flat_map(|(node, wills)| wills.values().map(move |guarded| (*node, &guarded.will)))
        })
    }

    /// Tells a node something about wills. False if it is not reached.
    fn tell_wills(&mut self, to: NodeId, message: &WillMessage) -> bool {
        match (&self.guards, &mut self.peers) {
            (Some(guards), Some(peers)) => guards.tell(peers, to, message, None),
            _ => false,
        }
    }
}

/// In which run of its node a session began.
fn run_of(number: SessionNumber) -> u32 {
    u32::try_from(number.0 >> 32).expect("32 bits are left")
}
