//! Queues of messages that are routed to peers, behind the events that were made before them.
//!
//! *Invariant*: a message is in the queue of a peer once at most. So a queue has no more than
//! [`Publishing`](crate::Publishing) has under way.

use std::collections::{BTreeMap, VecDeque};

use cluster::NodeId;

use crate::publishing::Route;

/// Message for one peer.
#[derive(Debug)]
pub(super) struct QueuedRoute<M> {
    /// Own event that was made last before it. Those of them that are for the peer go first.
    pub(super) after: u64,
    pub(super) route: Route<M>,
}

/// Messages that wait for connections.
#[derive(Debug)]
pub(super) struct RouteQueues<M> {
    peers: BTreeMap<NodeId, VecDeque<QueuedRoute<M>>>,
}

impl<M> Default for RouteQueues<M> {
    /// Nothing waits.
    fn default() -> RouteQueues<M> {
        let peers = BTreeMap::new();
        RouteQueues { peers }
    }
}

impl<M> RouteQueues<M> {
    /// Adds a message.
    pub(super) fn push(&mut self, to: NodeId, route: QueuedRoute<M>) {
        self.peers.entry(to).or_default().push_back(route);
    }

    /// Next message to a peer. `has_sent` says whether an own event, and those before it, were sent.
    pub(super) fn next(&mut self, to: NodeId, has_sent: impl FnOnce(u64) -> bool) -> Option<Route<M>> {
        let queue = self.peers.get_mut(&to)?;
        let next = queue.front().filter(|next| has_sent(next.after));
        next?;
        queue.pop_front().map(|next| next.route)
    }

    /// Forgets what waits for a peer: its connection is a new one, or it was given up. What it has not
    /// confirmed is routed again.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Forgets everything: all that is under way is routed again by another ring.
    pub(super) fn clear(&mut self) {
        self.peers.clear();
    }

    /// Messages that wait; a gauge.
    pub(super) fn len(&self) -> usize {
        self.peers.values().map(VecDeque::len).sum()
    }
}
