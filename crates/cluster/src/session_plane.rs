//! What the session plane has in common with the rest: clocks of events, and states of nodes.
//!
//! [`hlc`] orders writes across nodes, and [`lifecycle`] says how far a node is. The plane itself is the crate `session_plane`.

pub mod hlc;
pub mod lifecycle;

pub use hlc::Hlc;
