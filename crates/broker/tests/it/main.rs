//! What the broker's data structures promise across restarts: the formats on disk.
mod records;
