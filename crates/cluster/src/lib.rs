//! Who is in the cluster, who holds what, how a log is replicated. Payloads are opaque bytes: this crate knows
//! no MQTT and no keys.
//!
//! Everything here is a state machine without I/O: it takes the time, events and bytes, and answers with
//! actions. What must be durable leaves as [`Write`]s in a [`replica::Action::Persist`]; what was persisted comes
//! back as [`replica::Event::Persisted`].

pub mod control;
pub mod fitness;
pub mod forming;
pub mod ids;
pub mod outbound;
pub mod peer_header;
pub mod peers;
pub mod random;
pub mod replica;
pub mod session_plane;
pub mod write;

pub use ids::{ClusterId, GroupId, Incarnation, Index, NodeId, Term};
pub use outbound::Outbound;
pub use replica::{Action, Event, Replica, ReplicaConfig};
pub use write::{Keyspace, Write};
