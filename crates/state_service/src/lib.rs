//! State store over MQTT: requests in, replies and notifications out.
//!
//! A PUBLISH to the invoke topic becomes a command in the log of its key's group, or a read behind a barrier, and is
//! answered when it has been decided ([`StateStoreService`], one for each of the [`Groups`]). The node (`broker`) gives
//! it calls of its clients and messages of other nodes, and executes the [`Output`]s. Below it are `cluster`, which
//! replicates a group's log, and `store`, which applies it; connections, policies and the account of memory are of `mqtt`.
//! It knows neither the node nor how sessions are replicated.
//!
//! Invariants: no I/O, no clock, no randomness. A request is answered after it has been decided, and once. What does not
//! fit a limit is refused with an answer that says so.

#![warn(missing_docs)]

mod groups;
pub mod reply_room;
mod scan_seal;
mod service;

pub use crate::groups::{GROUPS_MAX, GroupSet, Groups, group_of_key};
pub use crate::scan_seal::{SCAN_KEY_BYTES, ScanBinding, ScanSeal};
pub use crate::service::{
    Answer, Asker, Call, Checked, DialectChoice, Output, Pending, RecoveredGroup, Refused, Remark,
    RequestTrace, StateStoreConfig, StateStoreService, check, check_envelope, properties,
};

/// The origin of time in tests: one real instant, to which they add.
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
pub(crate) fn epoch() -> std::time::Instant {
    std::time::Instant::now()
}
