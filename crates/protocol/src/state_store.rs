//! Requests, replies and notifications of the state store protocol.
//!
//! The payload is RESP: an array of bulk strings for requests and notifications, one RESP value for replies.
//! Parsing is strict, cuts keys and values out of the received payload without copying them, and allocates
//! nothing by an announced length. The rest travels in the properties of the PUBLISH ([`properties`]) and in
//! its topic ([`topics`]). What a command *does* is the business of the store.
//!
//! The published text of the protocol and the official clients differ in a few bytes; [`Dialect`] says which
//! of the two an answer is for.

pub mod glob;
pub mod properties;
pub mod topics;

mod error_text;
mod notification;
mod reply;
mod request;
mod resp;
mod verb;

pub use error_text::{ErrorText, REPLY_TOO_LARGE_BYTES_MAX, reply_too_large};
pub use glob::{Glob, GlobError};
pub use notification::Notification;
pub use reply::{Reply, ReplyError};
pub use request::{Condition, Request, RequestError, RequestKind};
pub use resp::Malformed;
pub use topics::{
    INVOKE_TOPIC, NOTIFY_PREFIX, is_own_response_topic, is_refused_response_topic, is_reserved,
    is_response_topic_of_namesake, notification_topic,
};
pub use verb::Verb;

/// Whose form an answer has, where the published text and the official clients differ.
///
/// | | [`Sdk`](Self::Sdk) | [`Published`](Self::Published) |
/// |---|---|---|
/// | condition not met, other value | `:-1\r\n` | `-1\r\n` |
/// | operation of a delete notification | `DELETE` | `DEL` |
/// | older fencing token | `... a lower version than the ...` | `... a lower version that the ...` |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// What the official clients understand.
    Sdk,
    /// What the published text of the protocol says.
    Published,
}
