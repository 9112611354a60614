//! Storage and replicas together: what is written, lost and read back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damaged;
mod encryption;
mod engine;
mod group;
mod killed;
mod membership;
mod older;
mod older_disks;
mod replication;
mod same_as_simulated;
mod transfer;
