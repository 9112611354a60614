//! Timeouts and limits of the plane, from the settings of the node.

use std::collections::BTreeSet;

use cluster::NodeId;
use session_plane::membership::{GONE_AFTER, MembershipConfig};
use session_plane::plane::{Limits, PlaneConfig, Timing};
use session_plane::stream::{IncomingLimits, OutgoingLimits};
use session_plane::transfer::{AskerLimits, HolderLimits};
use session_plane::{Run, Slot, SlotSet};

use crate::awake::LOOK_EVERY;
use crate::node::NodeConfig;

/// Writes of this node that are not durable at all nodes, at most. Beyond half of them publishers are not read from.
pub(super) const OPEN_EVENTS_MAX: usize = 65_536;
const OPEN_BYTES_MAX: usize = 64 << 20;
/// Rings that wait for confirmations, at most: twice the nodes of a cluster and more.
const RINGS_MAX: usize = 256;
/// Writes of each peer that are kept for the others, should it be lost.
const KEPT_EVENTS_MAX: usize = 65_536;
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Memory of an entry beside its value, for the limit of what waits to be merged.
const ENTRY_BYTES: u64 = 256;
/// Bytes of a question, and of a part of an answer.
const PART_BYTES_MAX: usize = 256 << 10;

/// Configuration of the plane of a run.
///
/// An answer has the whole map, so as much may wait to be merged as topics may retain.
pub(super) fn plane_config(run: Run, members: BTreeSet<NodeId>, config: &NodeConfig) -> PlaneConfig {
    let silence_max = config.routes.silence_max;
    let limits = &config.limits;
    let entries = limits.retained_messages_max.saturating_mul(ENTRY_BYTES);
    let staged = limits
        .retained_bytes_max
        .saturating_add(entries)
        .saturating_mul(2);
    PlaneConfig {
        membership: MembershipConfig {
            run,
            members,
            silence_max,
            gone_after: GONE_AFTER.min(silence_max),
            found_after: 2 * silence_max,
            offer_every: (silence_max / 4).min(LOOK_EVERY),
        },
        slots: Some(SlotSet::from_iter([Slot::RETAINED])),
        timing: Timing {
            heartbeat_every: (silence_max / 4).min(LOOK_EVERY),
            ask_again_after: silence_max * 2 / 3,
            close_after: silence_max * 2,
            offer_every: silence_max / 2,
        },
        limits: Limits {
            outgoing: OutgoingLimits {
                events_max: OPEN_EVENTS_MAX,
                bytes_max: OPEN_BYTES_MAX,
                rings_max: RINGS_MAX,
                copies_min: 1,
            },
            incoming: IncomingLimits {
                events_max: KEPT_EVENTS_MAX,
                bytes_max: KEPT_BYTES_MAX,
            },
            asker: AskerLimits {
                questions_per_peer_max: 1,
                questions_max: 8,
                staged_bytes_max: usize::try_from(staged).unwrap_or(usize::MAX),
                question_bytes_max: PART_BYTES_MAX,
            },
            holder: HolderLimits {
                questions_per_peer_max: 1,
                answers_max: 8,
                part_bytes_max: PART_BYTES_MAX,
            },
        },
    }
}
