//! What must hold for any bytes.
//!
//! Each function here reads an input as something that happens to one server: connections and disks and clocks, what a
//! disk holds, requests to the state store, what another node says, what comes back from a backup. No input may make the server panic or pass its limits; what else is checked
//! is said at each. The fuzz targets in `fuzz/` call them with what libFuzzer thinks of, and `tests/corpus.rs` with what
//! is stored in `fuzz/corpus/`. Every input means something: choices are taken modulo what there is to choose from, and
//! what is missing at the end is zero.

mod client;
mod conversation;
mod cursor;
mod peers;
mod records;
mod requests;
mod restored;
mod work;

use std::time::Duration;

use mqtt::limits::{Limits, QueueFull};
use store::Quota;

pub use self::conversation::{conversation, disk_after};
pub use self::peers::peers;
pub use self::records::records;
pub use self::requests::requests;
pub use self::restored::{restored, restored_after};
pub use self::work::work;
use crate::machine::MachineConfig;

/// A server whose limits are within reach of an input of a few hundred bytes; `choices` is a bit for each setting.
fn config(choices: u8) -> MachineConfig {
    let is_chosen = |bit: u8| choices & 1 << bit != 0;
    let limits = Limits {
        packet_size_max: 4_096,
        publish_rate_max: if is_chosen(0) { 5 } else { 0 },
        receive_maximum: 8,
        topic_alias_maximum: 3,
        topic_alias_outbound_max: 2,
        queue_messages_max: 12,
        queue_bytes_max: 8_192,
        queue_full: if is_chosen(1) {
            QueueFull::DropNewest
        } else {
            QueueFull::DropOldest
        },
        inflight_max: 4,
        session_expiry_max: (!is_chosen(2)).then_some(Duration::from_secs(3_600)),
        subscriptions_per_session_max: 5,
        topic_levels_max: 12,
        topic_bytes_max: 300,
        retained_messages_max: 6,
        retained_bytes_max: 4_096,
        connections_max: 4,
        sessions_max: 6,
        keep_alive_max: is_chosen(3).then_some(Duration::from_secs(60)),
        outbound_bytes_max: 4_096,
        memory_max: if is_chosen(6) { 32 * 1_024 } else { u64::MAX },
        ..Limits::default()
    };
    MachineConfig {
        limits,
        sys_interval: is_chosen(4).then_some(Duration::from_secs(7_200)),
        share_strategy: if is_chosen(5) {
            broker::ShareStrategy::HashTopic
        } else {
            broker::ShareStrategy::default()
        },
        snapshot_log_bytes: 2_048,
        quota: Quota {
            keys_max: 16,
            bytes_max: 4_096,
        },
        ..MachineConfig::new(choices.into())
    }
}
