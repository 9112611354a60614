//! Interests: the filters of a node's connected sessions, as its peers know them.
//!
//! ```text
//!   node: set                                   peers
//!     |                                           ^ |
//!     v        next_message: changes, in chunks   | |
//!   .------------------- Interests ---------------' |
//!   | own    filters, in the order of their changes |
//!   | peers  how far each was told, and has told <--' receive: changes, confirmations
//!   '-----------------------------------------------
//!     | told: the last change that every present peer knows
//!     v
//!   SUBACK
//! ```
//!
//! A durable session gets messages of QoS 1 and 2 from its slot. Every other message for a connected session
//! goes to the node of its connection: those of QoS 0, and all for a session that ends with its
//! connection. So each node tells each present peer which filters it has, in memory alone. A peer that is
//! given up is forgotten, and told everything anew when it is met.
//!
//! Nodes do not meet at one moment, and a node reads nothing of a peer that it has not met. So each tells again
//! when the other one begins to tell, unless something was confirmed.
//!
//! A change has a position. The log has each filter at its latest change only, so what a peer lacks is never
//! more than the filters that there are. One chunk is on its way to a peer at a time: while it is, further
//! changes gather for the next.
//!
//! *Invariants*: what a peer has been told up to a position is what the log says of it. A filter that is of
//! no interest any more stays in the log until every present peer knows that.

mod error;
mod filter;
mod message;
mod own;
mod peers;

pub use error::{InterestError, InterestsFull};
pub use filter::{FilterTooLong, TopicFilter};
pub use message::{Interest, InterestChange, InterestChanges, InterestMessage};

use cluster::NodeId;

use own::OwnInterests;
use peers::Peers;

/// Limits of interests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterestLimits {
    /// Filters of this node at most, with those that a peer is still to forget. A further one is refused.
    pub own_max: usize,
    /// Filters of a peer at most; not less than any node has. A message with more is refused.
    pub of_peer_max: usize,
    /// Changes in a message at most; at least 1.
    pub changes_max: usize,
    /// Bytes of the filters in a message, which the last one may exceed.
    pub bytes_max: usize,
}

/// Interests of one run of a node, and how far its peers know them.
///
/// A change costs O(log n), and a message to each present peer, shared by the changes that come together.
#[derive(Debug)]
pub struct Interests {
    limits: InterestLimits,
    own: OwnInterests,
    peers: Peers,
}

/// What a peer has told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Everything that was known of the peer is forgotten first.
    pub is_anew: bool,
    /// Changes, in their order.
    pub changes: Vec<InterestChange>,
}

impl Interests {
    /// No filter and no peer.
    pub fn new(limits: InterestLimits) -> Interests {
        assert!(limits.changes_max >= 1, "a message has a change");
        Interests {
            limits,
            own: OwnInterests::default(),
            peers: Peers::default(),
        }
    }

    /// Sets what this node wants of a filter; None: nothing. Gives the position of the change, or of the one
    /// that has said the same before. [`Interests::told`] says when every present peer knows it.
    ///
    /// # Errors
    ///
    /// [`InterestsFull`] where there is no room. The node refuses the SUBSCRIBE with 0x97, Quota exceeded.
    pub fn set(&mut self, filter: &TopicFilter, interest: Option<Interest>) -> Result<u64, InterestsFull> {
        let position = self.own.set(filter, interest, self.limits.own_max)?;
        self.forget_told();
        Ok(position)
    }

    /// A peer is present from here on: it is told everything, and tells everything.
    pub fn meet(&mut self, peer: NodeId) {
        self.peers.meet(peer);
    }

    /// A peer is given up. What it has told is to be forgotten.
    pub fn lose(&mut self, peer: NodeId) {
        self.peers.lose(peer);
        self.forget_told();
    }

    /// The link to a peer is a new one: what it has not confirmed is told again.
    pub fn renew_link(&mut self, peer: NodeId) {
        self.peers.renew_link(peer);
    }

    /// Next message to a peer. None while one is on its way, or where the peer has been told everything.
    pub fn next_message(&mut self, peer: NodeId) -> Option<InterestChanges> {
        let after = self.peers.sendable(peer)?;
        let changes = self.own.changes(after, &self.limits);
        if changes.up_to == after && !self.peers.is_untold(peer) {
            return None;
        }
        self.peers.note_sent(peer, changes.up_to);
        Some(changes)
    }

    /// Takes what a peer tells. The node confirms it with [`InterestChanges::up_to`].
    ///
    /// `known` is the number of the peer's filters that are known.
    ///
    /// # Errors
    ///
    /// [`InterestError`] where the message is refused. Nothing is changed; the node closes the connection.
    pub fn receive(
        &mut self,
        peer: NodeId,
        message: InterestChanges,
        known: usize,
    ) -> Result<Learned, InterestError> {
        let is_anew = message.after == 0;
        let known = if is_anew { 0 } else { known };
        let (count, max) = (message.changes.len(), self.limits.of_peer_max);
        if known.saturating_add(count) > max {
            return Err(InterestError::TooMany { peer, max });
        }
        self.peers.take_told(peer, &message)?;
        Ok(Learned {
            is_anew,
            changes: message.changes,
        })
    }

    /// Takes the confirmation of a peer.
    ///
    /// # Errors
    ///
    /// [`InterestError`] where the peer was told no such position.
    pub fn confirm(&mut self, peer: NodeId, up_to: u64) -> Result<(), InterestError> {
        self.peers.confirm(peer, up_to)?;
        self.forget_told();
        Ok(())
    }

    /// Position up to which every present peer knows this node's changes.
    pub fn told(&self) -> u64 {
        self.peers.told().unwrap_or(self.own.last())
    }

    /// Every present peer has told all that it had when it was met.
    pub fn are_known(&self) -> bool {
        self.peers.have_told()
    }

    /// Filters of this node, with those that a peer is still to forget; a gauge.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// This node has no filter.
    pub fn is_empty(&self) -> bool {
        self.own.len() == 0
    }

    /// Forgets filters of no interest that every present peer has been told of.
    fn forget_told(&mut self) {
        let told = self.told();
        self.own.forget_removed(told);
    }
}

#[cfg(test)]
mod tests;
