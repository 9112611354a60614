//! Values of the session plane: what entries and messages mean in MQTT.
//!
//! The plane is generic over two types. [`Content`] is its message: an application message as nodes
//! replicate and store it. [`Value`] is the value of its entries: a form for each kind of entry
//! that says more than its fact. Both have one encoding, on the wire and on the disk.
//!
//! ```text
//!  PUBLISH, will ----> Content ----> event ----> Value::Message ----> queue ----> PUBLISH
//!  CONNECT, SUBSCRIBE, packet ids -------------> Value::...
//! ```
//!
//! [`Filters`] find the sessions, the shared groups and the nodes that a message is for.
//!
//! *Invariants*: bytes that were accepted are the bytes of the value. Decoding never panics, and
//! allocates nothing by a number that it reads. Equal values have equal encodings and digests on
//! every node. Nothing here does I/O or reads a clock.

#![warn(missing_docs)]

mod content;
mod deliveries;
mod encoding;
mod error;
mod fields;
mod filters;
mod memory;
mod plane_traits;
mod queued_message;
mod session_terms;
mod subscription_terms;
mod topic_bytes;
mod used_packet_id;
mod value;
mod wills;

pub use content::{CONTENT_VERSION, Content, ContentParts};
pub use encoding::VALUE_VERSION;
pub use error::ValueError;
pub use filters::{Filters, KeptTogether, PARTITION};
pub use queued_message::{QueuedMessage, SUBSCRIPTION_IDS_MAX};
pub use session_terms::SessionTerms;
pub use subscription_terms::{SubscriptionParts, SubscriptionTerms};
pub use topic_bytes::TopicBytes;
pub use used_packet_id::{UsedMessage, UsedPacketId};
pub use value::Value;
pub use wills::WillMessage;
