//! The edge: sockets, clock, disk, configuration, metrics, admin pages.

pub mod admin;
pub mod clock;
pub mod config;
pub mod logging;
pub mod metrics;
pub mod shutdown;
