//! The edge: sockets, clock, disk, configuration, metrics, admin pages.

pub mod admin;
mod admin_client;
mod admission;
mod audit;
pub mod authentication;
pub mod authorization;
pub mod backup;
mod bound_socket;
mod bucket;
mod client_address;
pub mod clock;
mod condition;
pub mod config;
mod container;
mod descriptors;
mod disk_thread;
mod driver;
mod encoding;
mod ends;
mod error;
mod exposure;
mod goodbye;
mod handshake;
mod handshake_thread;
mod https_client;
mod line_rates;
mod listener;
mod log_limit;
pub mod logging;
mod machine_memory;
pub mod metrics;
mod named_files;
mod notify_socket;
mod observed;
mod out_buffer;
mod peers;
mod proxy_protocol;
mod questions;
mod read_blocks;
mod read_budget;
mod reporting;
mod revocation;
pub mod self_test;
mod serve;
pub mod shutdown;
mod side_thread;
mod slow;
mod snapshot_thread;
mod socket;
mod sockets;
mod spoken;
mod stamp;
mod standing;
mod startup;
mod strangers;
mod stream;
mod text_file;
mod tls;
#[cfg_attr(not(feature = "otlp"), path = "traces/left_out.rs")]
mod traces;
mod watched_file;
mod websocket;

pub use crate::admin_client::{AdminClient, AdminClientError, AdminStream, percent_encoded};
pub use crate::audit::AuditError;
pub use crate::config::Config;
pub use crate::error::RunError;
pub use crate::exposure::Exposure;
pub use crate::https_client::{
    ClientTlsError, ConnectTlsError, HeadersError, HttpError, HttpsClient, RequestLimits, Response, TlsFault,
    TlsFiles, Url, UrlError, connect_tls,
};
pub use crate::named_files::check;
pub use crate::serve::{Ready, Scheme, run};
pub use crate::tls::{TlsError, TlsProblem};
pub use crate::traces::TracesError;
/// Names and values of headers, as requests of [`HttpsClient`] have them.
pub use hyper::header;
/// Adds a key to the key file of a data directory.
pub use storage::encryption::add_key as add_encryption_key;
