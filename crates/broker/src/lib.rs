//! [`Node`]: one cluster member as a state machine.
//!
//! It routes what happened to connections and sessions (`mqtt`), the state store (`state_service`) and the logs (`cluster`). Of its
//! own are routes to other nodes, copies of sessions, guards of wills, and the replication of what topics retain.
//!
//! No I/O, no clock, no randomness: [`Node::step`] takes what happened, with the time, and says what to do. The order
//! of things is carried by events: what says "done" to a client leaves only after [`Event::Durable`].

mod administration;
mod authenticating;
mod availability;
mod awake;
pub mod backups;
mod clients;
mod closing;
pub mod cluster_records;
mod commits;
mod control_group;
mod copies;
mod counters;
mod delivery;
mod denial;
mod guards;
mod handshake;
pub mod inspection;
mod invoking;
mod membership;
mod node;
mod node_states;
mod overload;
mod pausing;
mod peer_body;
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
mod routes;
mod routing;
mod sessions;
mod sharing;
mod slow;
mod spans;
mod store_plane;
mod subscribing;
mod sys_topics;
mod tunnels;
mod turns;
mod waiting;
mod watch_loss;
mod withdrawal;

pub use crate::administration::{Administration, ImageSource};
pub use crate::availability::GroupAvailability;
pub use crate::closing::PART_BYTES_MIN;
pub use crate::commits::DiskTicket;
pub use crate::control_group::{
    ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus, CopyReport, GroupReport, GroupStatus,
    MemberReport, NodeStatus, RecoveredControl, RemovedNode,
};
pub use crate::copies::CopyFigures;
pub use crate::counters::{Counters, Dropped, Gauges, ReplicaGauges};
pub use crate::delivery::OutgoingPublish;
pub use crate::denial::Denied;
pub use crate::guards::WillFigures;
pub use crate::node::{Action, Event, Node, NodeConfig};
pub use crate::recovery::{RecoveredStore, Recovery};
pub use crate::redirect::Redirect;
pub use crate::relay::RelayFigures;
pub use crate::replication::{ReplicationFigures, TopicSeen};
pub use crate::report::{CopyNews, EndedBy, Report};
pub use crate::routes::{RouteFigures, RoutesConfig};
pub use crate::sharing::ShareStrategy;
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
