//! What the broker's data structures promise across restarts: the formats on disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../alone/mod.rs"]
mod alone;
mod backups;
mod inspection;
mod older_retained;
mod records;
mod slow;
