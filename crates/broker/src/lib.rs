//! Connections, sessions, subscriptions, retained messages, routing, and [`Node`]: one cluster member as a state
//! machine.
//!
//! No I/O, no clock, no randomness: [`Node::step`] takes what happened, with the time, and says what to do. The order
//! of things is carried by events: what says "done" to a client leaves only after [`Event::Durable`].

mod acks;
mod administration;
pub mod authentication;
pub mod authorization;
mod availability;
pub mod backups;
mod client_ids;
mod clients;
mod closing;
mod commits;
mod connection;
mod control_group;
mod copies;
mod counters;
mod delivery;
mod denial;
mod fitness;
mod groups;
mod guards;
mod handshake;
pub mod ids;
pub mod inspection;
mod invoking;
pub mod limits;
mod membership;
pub mod memory;
pub mod message;
mod node;
mod node_states;
pub mod now;
pub mod origin;
mod overload;
pub mod ownership;
mod pacing;
mod peer_body;
mod peer_header;
mod policies;
pub mod principal;
mod publishing;
pub mod records;
pub mod recovery;
pub mod redirect;
mod reply_limits;
mod report;
mod responding;
pub mod retained;
mod retained_copies;
mod retained_delivery;
mod routes;
mod routing;
mod scan_seal;
pub mod session;
mod sessions;
mod sharing;
mod slow;
mod state_store_service;
mod subscribing;
pub mod subscriptions;
mod sys_topics;
pub mod timers;
pub mod topic_alias;
mod traces;
mod tunnels;
mod turns;
mod waiting;
mod watch_loss;
pub mod will;
mod withdrawal;

pub use crate::administration::{Administration, ImageSource};
pub use crate::authentication::{Answer, Credentials, Question};
pub use crate::authorization::{Access, Decision, Policy, Subject};
pub use crate::availability::GroupAvailability;
pub use crate::closing::PART_BYTES_MIN;
pub use crate::commits::DiskTicket;
pub use crate::control_group::{
    ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus, GroupReport, GroupStatus, MemberReport,
    NodeStatus, RecoveredControl,
};
pub use crate::copies::CopyFigures;
pub use crate::counters::{Counters, Dropped, Gauges, ReplicaGauges};
pub use crate::delivery::OutgoingPublish;
pub use crate::denial::{Denied, Right};
pub use crate::groups::{GROUPS_MAX, group_of_key};
pub use crate::guards::WillFigures;
pub use crate::ids::ConnectionId;
pub use crate::memory::{MemoryLevel, MemoryUse};
pub use crate::node::{Action, Event, Node, NodeConfig};
pub use crate::now::Now;
pub use crate::policies::{NamedPolicy, Policies, PolicyId, is_servers_own};
pub use crate::principal::{Attributes, Principal};
pub use crate::recovery::{RecoveredGroup, RecoveredStore, Recovery};
pub use crate::redirect::Redirect;
pub use crate::report::{CopyNews, EndedBy, Report};
pub use crate::retained_copies::RetainedFigures;
pub use crate::routes::{RouteFigures, RoutesConfig};
pub use crate::scan_seal::{SCAN_KEY_BYTES, ScanBinding, ScanSeal};
pub use crate::sharing::ShareStrategy;
pub use crate::slow::{SlowKind, SlowOperation};
pub use crate::state_store_service::{DialectChoice, StateStoreConfig, Verb};
pub use crate::traces::{SAMPLED_ALL, Span, SpanOf, TracesConfig};
pub use crate::turns::WorkCounters;
pub use crate::watch_loss::WatchLoss;
