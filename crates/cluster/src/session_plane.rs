//! The session plane: who is responsible for a session, a queue or a retained message, and what becomes of two copies of it that went their own ways.
//!
//! Everything here is algebra: no I/O, no clock, no randomness, and no MQTT. Client ids, topics, filters and messages are bytes. No part of
//! the broker uses it yet; docs/replication.md says what is to come.
//!
//! From the bottom: [`vector_clock`] says which of two copies is newer, [`record`] is a copy and how two of them become one, a file for each kind of
//! record says what is in it, [`retirement`] keeps what must be remembered small, [`ring`] and [`lifecycle`] say
//! which nodes hold copies. Records and clocks as bytes are in [`encoding`].

pub mod announcement;
pub mod detection;
pub mod encoding;
pub mod hlc;
pub mod lifecycle;
pub mod nodes;
pub mod queue;
pub mod received;
pub mod record;
pub mod retained;
pub mod retirement;
pub mod ring;
pub mod session;
pub mod subscriptions;
pub mod vector_clock;
pub mod will;

#[cfg(test)]
mod tests;

pub use hlc::Hlc;
pub use nodes::Nodes;
pub use record::{Delta, Entry, Kind, Record, RecordKey, Writer};
pub use retained::Retained;
pub use ring::Ring;
pub use vector_clock::{Actor, Causality, Dot, VectorClock};
