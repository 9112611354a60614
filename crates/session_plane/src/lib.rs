//! Session plane: how sessions, routes and retained messages are replicated between nodes.
//!
//! Every change has an identity, a [`Dot`]. Every copy knows exactly which changes it has decided upon, by a
//! [`VersionVector`]. One merge rule serves joins, failover, returns and heals. `docs/internals/session-plane.md` has the
//! rules; the crate `session-plane-model` beside this one plays them. Nothing here knows MQTT packets, sockets or clocks.

pub mod dot;
pub mod version_vector;

pub use dot::{Dot, Run};
pub use version_vector::{Interval, VectorFull, VersionVector};
