//! The session plane: who is there and responsible, who has copies of a session, and which of two copies is newer.
//!
//! Everything here is algebra: no I/O, no clock, and no MQTT. Client ids, topics, filters and messages are bytes.
//!
//! The broker is built on one part. [`detection`] finds out who can be reached, [`announcement`], [`lifecycle`] and [`nodes`] say how far each node
//! is, and [`ring`] who has copies. [`vector_clock`] says which of two copies of a session is newer, [`encoding`] has such a clock as bytes, and
//! [`hlc`] orders writes of retained messages.
//!
//! The other part is a model that nothing uses but its tests and its benchmark: [`record`] is a copy and how two of them become one, a file for each
//! kind of record says what is in it, [`retirement`] keeps what must be remembered small, and the rest of [`encoding`] has all that as bytes. It is the
//! reference of the rules, with the published ones as counterexamples. Sessions that have parted are not merged so: one leaves to the other what that
//! one lacks (`broker/src/copies/merging.rs`). docs/replication.md says why.

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
