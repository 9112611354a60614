//! What a client can see on the wire.
//!
//! MQTT 3.1.1 and 5 control packets, topic names and filters, hybrid logical clock timestamps, and the
//! requests, replies and notifications of the state store protocol. No I/O, no clock, no state beyond one
//! packet: whoever holds a value of a type from here holds a valid one, because parsing is the only way in.
#![warn(missing_docs, clippy::indexing_slicing)]

mod byte_search;
pub mod escaped;
pub mod hlc;
pub mod packet;
pub mod properties;
pub mod reason_code;
pub mod state_store;
pub mod text;
pub mod topic;
pub mod trace_context;

pub use escaped::Escaped;
pub use hlc::Hlc;
pub use packet::Packet;
pub use reason_code::ReasonCode;
pub use text::Text;
pub use topic::{TopicFilter, TopicName};
