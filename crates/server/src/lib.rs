//! The edge: sockets, clock, disk, configuration, metrics, admin pages.

pub mod admin;
mod admission;
mod audit;
pub mod authentication;
pub mod authorization;
mod bound_socket;
mod client_address;
pub mod clock;
pub mod config;
mod descriptors;
mod disk_thread;
mod driver;
mod encoding;
mod ends;
mod error;
mod handshake;
mod handshake_thread;
mod https_client;
mod listener;
mod log_limit;
pub mod logging;
mod machine_memory;
pub mod metrics;
mod observed;
mod out_buffer;
mod proxy_protocol;
mod reporting;
mod revocation;
mod serve;
pub mod shutdown;
mod snapshot_thread;
mod socket;
mod sockets;
mod stamp;
mod startup;
mod stream;
mod tls;
mod watched_file;
mod websocket;

pub use crate::audit::AuditError;
pub use crate::config::Config;
pub use crate::error::RunError;
pub use crate::serve::{Ready, Scheme, run};
pub use crate::tls::{TlsError, TlsProblem};
/// Adds a key to the key file of a data directory.
pub use storage::encryption::add_key as add_encryption_key;
