//! The edge: sockets, clock, disk, configuration, metrics, admin pages.

pub mod admin;
pub mod clock;
pub mod config;
mod disk_thread;
mod driver;
mod encoding;
mod error;
mod listener;
pub mod logging;
pub mod metrics;
mod observed;
mod out_buffer;
mod reporting;
mod serve;
pub mod shutdown;
mod snapshot_thread;
mod socket;
mod sockets;
mod startup;

pub use crate::config::Config;
pub use crate::error::RunError;
pub use crate::serve::{Ready, run};
