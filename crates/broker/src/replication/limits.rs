//! Timeouts and limits of sessions and their plane, from the settings of the node.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::time::Duration;

use cluster::NodeId;
use session_plane::Run;
use session_plane::connecting::{ConnectionLimits, QuestionLimits};
use session_plane::delivering::DeliveringLimits;
use session_plane::feed::{self, Window};
use session_plane::groups;
use session_plane::interests::InterestLimits;
use session_plane::membership::{GONE_AFTER, MembershipConfig};
use session_plane::plane::{Limits, PlaneConfig, Timing};
use session_plane::publishing::PublishingLimits;
use session_plane::queue_limits::{QueueFull, QueueLimits};
use session_plane::sessions::{FeedConfig, GroupConfig, SessionsConfig};
use session_plane::stream::{IncomingLimits, OutgoingLimits};
use session_plane::transfer::{AskerLimits, HolderLimits};
use session_plane::wills::WillLimits;

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
/// Slots that a peer is asked for at once. A slot with equal entries on both sides takes 16 bytes of an answer.
const SLOTS_PER_PEER_MAX: usize = 1_024;
/// Slots of one question: equal ones are merged in one step.
const SLOTS_PER_QUESTION_MAX: usize = 256;
/// Slots of which entries are compared, or given, at once.
const COMPARING_MAX: usize = 8;
/// Bytes of a question, and of a part of an answer.
const PART_BYTES_MAX: usize = 256 << 10;
const HOLDER: HolderLimits = HolderLimits {
    slots_per_peer_max: SLOTS_PER_PEER_MAX,
    answers_max: COMPARING_MAX,
    part_bytes_max: PART_BYTES_MAX,
};

/// Time from CONNECT to CONNACK at most. Peers are lost before.
const CLAIM_SILENCES: u32 = 3;
/// Older connections that a claim ends at once.
const RELEASES_MAX: usize = 8;
/// Entries of one client that a claim reads: its subscriptions and packet ids on both sides of a split.
const CLAIM_ENTRIES_MAX: usize = 1 << 18;
/// Claimants that wait for the end of one connection.
const CLAIMANTS_MAX: usize = 64;
/// Packet ids that one session may have, on both sides of a split.
const DELIVERIES_MAX: usize = 2 * 65_535;
/// Messages that members of shared groups at this node are given, until all nodes know their acknowledgements.
const GIVEN_MAX: usize = 65_536;
/// Messages of one part of a group that a member is given before it acknowledges one.
const GROUP_WINDOW: usize = 64;
/// Wills that are on their way to all nodes at once.
const FIRING_MAX: usize = 256;
/// Sessions that end in one tick.
const ENDING_MAX: usize = 256;
/// Queues of which a tick drops messages.
const DROPPING_MAX: usize = 64;
/// Filters that connected sessions of a node want something of, at most.
const INTERESTS_MAX: usize = 4 << 20;
/// Filters in one message to a peer.
const INTERESTS_PER_MESSAGE: usize = 4_096;

/// Configuration of the sessions of a run.
pub(super) fn sessions_config(run: Run, members: BTreeSet<NodeId>, config: &NodeConfig) -> SessionsConfig {
    let limits = &config.limits;
    let silence_max = config.silence_max;
    let connections_max = limits.connections_max as usize;
    let claim_max = silence_max * CLAIM_SILENCES;
    let in_flight_max = NonZeroU16::new(limits.inflight_max).unwrap_or(NonZeroU16::MIN);
    let window = Window {
        items: 2 * u64::from(in_flight_max.get()),
        bytes: 2 * u64::from(limits.outbound_bytes_max).max(1),
    };
    let held_max = usize::try_from(window.items).expect("it is below 2^17");
    SessionsConfig {
        plane: plane_config(run, members, config),
        connections: ConnectionLimits {
            // One that ends is there until the last of what it leaves is durable.
            connections_max: 2 * connections_max,
            claims_max: connections_max,
            claim_max,
            releases_max: RELEASES_MAX,
            entries_max: CLAIM_ENTRIES_MAX,
            claimants_max: CLAIMANTS_MAX,
        },
        questions: QuestionLimits {
            waiting_per_peer_max: connections_max,
            wait_max: claim_max * 2 / 3,
        },
        publishing: PublishingLimits {
            waiting_max: OPEN_EVENTS_MAX,
            waiting_per_connection_max: usize::from(u16::MAX),
            given_up_max: OPEN_EVENTS_MAX,
        },
        feeds: FeedConfig {
            sink: feed::SinkLimits {
                feeds_max: 2 * connections_max,
                window,
                deliveries_max: DELIVERIES_MAX,
            },
            source: feed::SourceLimits {
                feeds_per_peer_max: 2 * connections_max,
                held_max,
                deliveries_max: DELIVERIES_MAX,
            },
            retry_after: (silence_max / 4).max(Duration::from_millis(1)),
        },
        wills: WillLimits {
            firing_max: FIRING_MAX,
        },
        ending_max: ENDING_MAX,
        queues: queue_limits(limits),
        groups: GroupConfig {
            sink: groups::SinkLimits {
                presences_max: connections_max
                    .saturating_mul(limits.shared_subscriptions_per_session_max as usize),
                given_max: GIVEN_MAX,
            },
            source: groups::SourceLimits {
                given_max: GIVEN_MAX,
                window: GROUP_WINDOW,
            },
        },
        delivering: DeliveringLimits {
            in_flight_max,
            waiting_max: held_max + GIVEN_MAX,
        },
        interests: InterestLimits {
            own_max: INTERESTS_MAX,
            of_peer_max: INTERESTS_MAX,
            changes_max: INTERESTS_PER_MESSAGE,
            bytes_max: PART_BYTES_MAX,
        },
    }
}

/// Limits of queues. A part of a shared group is a queue, too.
fn queue_limits(limits: &mqtt::limits::Limits) -> QueueLimits {
    QueueLimits {
        messages_max: limits.queue_messages_max.into(),
        bytes_max: limits.queue_bytes_max,
        full: match limits.queue_full {
            mqtt::limits::QueueFull::DropOldest => QueueFull::DropOldest,
            mqtt::limits::QueueFull::DropNewest => QueueFull::DropNewest,
        },
        dropping_max: DROPPING_MAX,
    }
}

/// Configuration of the plane of a run.
///
/// An answer has the whole map, so as much may wait to be merged as topics may retain.
fn plane_config(run: Run, members: BTreeSet<NodeId>, config: &NodeConfig) -> PlaneConfig {
    let silence_max = config.silence_max;
    let is_alone = members.len() == 1;
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
            found_after: if is_alone { Duration::ZERO } else { 2 * silence_max },
            offer_every: (silence_max / 4).min(LOOK_EVERY),
        },
        slots: config.slots.clone(),
        timing: Timing {
            heartbeat_every: (silence_max / 4).min(LOOK_EVERY),
            ask_after: silence_max / 10,
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
            asker: asker_limits(usize::try_from(staged).unwrap_or(usize::MAX)),
            holder: HOLDER,
        },
    }
}

fn asker_limits(staged_bytes_max: usize) -> AskerLimits {
    AskerLimits {
        slots_per_peer_max: SLOTS_PER_PEER_MAX,
        slots_max: 8 * SLOTS_PER_PEER_MAX,
        slots_per_question_max: SLOTS_PER_QUESTION_MAX,
        comparing_max: COMPARING_MAX,
        staged_bytes_max,
        question_bytes_max: PART_BYTES_MAX,
    }
}
