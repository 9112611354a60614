//! Actions: what the node does after a call of the membership.

use cluster::NodeId;

use super::{Handshake, Stay};
use crate::{NodeState, PresentNode, Run};

/// Action of a membership, for the node to apply in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends a message of a handshake, over whichever connection there is. It may be lost.
    ///
    /// What follows to this peer in the same stay goes behind it over the same connection.
    SendHandshake {
        /// Receiver; absent, or just met.
        to: NodeId,
        /// Message.
        message: Handshake,
    },
    /// Tells a peer that it is convicted, so that it can refute. It is sent nothing else that it
    /// waits for; see [`Membership::answered_peers`](super::Membership::answered_peers).
    SendConviction {
        /// Receiver.
        to: NodeId,
        /// Stay of the receiver that is convicted.
        convicted: Stay,
    },
    /// A peer is present from here on. A call has at most one.
    ///
    /// The node lets its copies ask the peer, and forgets what the peer was asked and served in
    /// earlier stays. The next ring marker is the Welcome of the peer's stream. Where the stream
    /// refuses the marker, the node gives the peer up again.
    Met {
        /// Peer.
        peer: PresentNode,
    },
    /// A peer is given up.
    ///
    /// The node ends transfers with the peer, and sends flush positions of the run to all others.
    /// It ends the stream to the peer, and forgets what the peer claims. The next ring marker lacks
    /// the peer; unconfirmed events are resent behind it.
    GaveUp {
        /// Run that was present.
        run: Run,
        /// Reason, for the log.
        reason: GiveUpReason,
    },
    /// This node is in another state. The next ring marker tells of it.
    StateChanged {
        /// State from here on.
        state: NodeState,
    },
}

/// Reason for which a peer is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUpReason {
    /// Nothing was heard of it for `silence_max`.
    Silent,
    /// Its machine refuses connections: the process is gone.
    Refused,
    /// Another peer has given it up, and it has not refuted that.
    Convicted {
        /// Peer that has given it up.
        by: NodeId,
    },
    /// A newer run of the same node offers a handshake.
    NewerRun,
    /// The node itself asked for it.
    Asked,
}
