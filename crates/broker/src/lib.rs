//! [`Node`]: one cluster member as a state machine.
//!
//! It routes what happened to connections and sessions (`mqtt`), the state store (`state_service`) and the logs (`cluster`). Sessions,
//! their queues and what topics retain are replicated by the session plane (`session_plane`).
//!
//! No I/O, no clock, no randomness: [`Node::step`] takes what happened, with the time, and says what to do. The order
//! of things is carried by events: what says "done" to a client leaves only after [`Event::Durable`].

mod administration;
mod authenticating;
mod availability;
mod awake;
pub mod backups;
mod carried_sessions;
mod claims;
mod closing;
mod commits;
mod control_group;
mod counters;
mod delivery;
mod denial;
mod handshake;
pub mod inspection;
mod invoking;
mod membership;
mod node;
mod overload;
mod pausing;
mod permissions;
mod publishing;
pub mod recovery;
pub mod redirect;
mod relay;
mod replication;
mod reply_limits;
mod report;
mod responding;
mod retained_delivery;
mod routing;
mod sessions;
mod slow;
mod spans;
mod store_plane;
mod subscribing;
mod subscription_entries;
mod sys_topics;
mod turns;
mod unacknowledged;
mod unknown_recipients;
mod watch_loss;
mod withdrawal;

pub use crate::administration::{Administration, ImageSource};
pub use crate::availability::GroupAvailability;
pub use crate::closing::PART_BYTES_MIN;
pub use crate::commits::DiskTicket;
pub use crate::control_group::{
    ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus, CopyReport, GroupReport, GroupStatus,
    MemberReport, NodeStatus, RecoveredControl,
};
pub use crate::counters::{Counters, Dropped, Gauges, ReplicaGauges};
pub use crate::delivery::OutgoingPublish;
pub use crate::denial::Denied;
pub use crate::node::{Action, Event, Node, NodeConfig};
pub use crate::recovery::{RecoveredStore, Recovery};
pub use crate::redirect::Redirect;
pub use crate::relay::RelayFigures;
pub use crate::replication::{ReplicationFigures, TopicSeen};
pub use crate::report::{CopyNews, EndedBy, Report};
pub use crate::routing::ShareStrategy;
pub use crate::slow::{SlowKind, SlowOperation};
pub use crate::turns::WorkCounters;
pub use crate::watch_loss::WatchLoss;

/// The origin of time in tests: one real instant, to which they add.
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
pub(crate) fn epoch() -> std::time::Instant {
    std::time::Instant::now()
}
