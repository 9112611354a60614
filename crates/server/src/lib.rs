//! The edge: sockets, clock, disk, configuration, metrics, admin pages.

pub mod admin;
mod admission;
pub mod authentication;
mod bound_socket;
mod client_address;
pub mod clock;
pub mod config;
mod descriptors;
mod disk_thread;
mod driver;
mod encoding;
mod error;
mod handshake;
mod handshake_thread;
mod listener;
pub mod logging;
mod machine_memory;
pub mod metrics;
mod observed;
mod out_buffer;
mod proxy_protocol;
mod reporting;
mod serve;
pub mod shutdown;
mod snapshot_thread;
mod socket;
mod sockets;
mod stamp;
mod startup;
mod stream;
mod tls;
mod websocket;

pub use crate::config::Config;
pub use crate::error::RunError;
pub use crate::serve::{Ready, Scheme, run};
pub use crate::tls::{TlsError, TlsProblem};
