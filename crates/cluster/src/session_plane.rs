//! The session plane: who is there and responsible, who has copies of a session, and which of two copies is newer.
//!
//! Everything here is algebra: no I/O, no clock, and no MQTT. Client ids, topics, filters and messages are bytes.
//!
//! The broker is built on it. [`detection`] finds out who can be reached, [`announcement`], [`lifecycle`] and [`nodes`] say how far each node is, and
//! [`ring`] who has copies. [`vector_clock`] says which of two copies of a session is newer, [`encoding`] has such a clock as bytes, and [`hlc`] orders
//! writes of retained messages.

pub mod announcement;
pub mod detection;
pub mod encoding;
pub mod hlc;
pub mod lifecycle;
pub mod nodes;
pub mod ring;
pub mod vector_clock;

#[cfg(test)]
mod tests;

pub use hlc::Hlc;
pub use nodes::Nodes;
pub use ring::Ring;
pub use vector_clock::{Actor, Causality, Dot, VectorClock};
