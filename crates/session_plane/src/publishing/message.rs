//! Message on its way from PUBLISH to PUBREC.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::packet_use::{ContentId, PacketId};
use crate::connecting::ConnectionId;
use crate::{ClientId, Dot};

/// Message with a number, until all nodes have it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) client: ClientId,
    pub(super) packet_id: PacketId,
    pub(super) content: ContentId,
    /// Clock that an earlier entry has given to the message. None until the first entry is made.
    pub(super) clock: Option<Hlc>,
    /// Connection that gets PUBREC. None: it has ended while the message was on its way.
    pub(super) connection: Option<ConnectionId>,
    pub(super) phase: Phase,
}

/// Phase of a message.
#[derive(Debug)]
pub(super) enum Phase {
    /// The event of its packet id is being made.
    Writing {
        /// Connection that has asked for the event.
        by: ConnectionId,
        /// Ring that was in force when the event was asked for.
        marker: u64,
    },
    /// Some owner may lack its packet id.
    Storing {
        /// Event of the packet id's entry.
        entry: Dot,
    },
    /// All owners of the ring in force have its packet id. It waits for lower numbers and for routes.
    Ready {
        /// Event of the packet id's entry.
        entry: Dot,
    },
    /// It is routed.
    OnTheWay {
        /// Nodes of the ring in force that have not confirmed it.
        missing: BTreeSet<NodeId>,
    },
}

impl Message {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    pub(super) fn is_on_the_way(&self) -> bool {
        matches!(self.phase, Phase::OnTheWay { .. })
    }
}
