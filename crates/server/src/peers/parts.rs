//! Parts of messages on one connection: signs of life of the other node, while a message is not whole.
//!
//! A message of 256 MiB is on its way for seconds, and everything else waits behind it. What passes of it says that the other
//! node is there: it is told to this one's replicas, which would take it for silent otherwise.

use std::time::{Duration, Instant};

use cluster::NodeId;

use super::{PeerEvent, Shared};
use crate::clock::instant as now;

/// How often it is told at most: more often than leaders say that they are there.
const TOLD_EVERY: Duration = Duration::from_millis(50);

/// When it was told last that a part has passed.
#[derive(Debug, Default)]
pub(super) struct Parts {
    told: Option<Instant>,
}

impl Parts {
    /// A part of a message from or to `node` has passed.
    pub(super) fn passed(&mut self, shared: &Shared, node: NodeId) {
        let now = now();
        if self.told.is_some_and(|told| now < told + TOLD_EVERY) {
            return;
        }
        self.told = Some(now);
        // Where events wait already, the node learns by them that others are there, or with the next part.
        let _ = shared.events.try_send(PeerEvent::Heard(node));
    }
}
