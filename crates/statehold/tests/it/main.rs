//! The binary and the client library against a server that runs.

// The examples of the client library call it by its own name.
extern crate client as statehold_client;

mod admin;
mod admin_api;
mod asked_server;
mod audit;
mod authentication;
mod authority;
mod bench;
mod certificates;
mod certs;
mod client_library;
mod cluster;
mod config;
mod config_check;
mod configured;
mod custom_authentication;
mod damaged_backups;
mod disk_full;
mod encryption;
mod enhanced;
mod examples;
mod foreign_files;
mod given_up;
mod harness;
mod import;
mod issuer;
mod keep_alive;
mod listeners;
mod lock;
mod messages;
mod notify;
mod overload;
mod passwords;
mod policies;
mod policy;
mod proxy_protocol;
mod raw;
mod reason_codes;
mod redirect;
mod refusals;
mod reply_limits;
mod robust;
mod self_test;
mod serve;
mod service_accounts;
mod shells;
mod slow;
mod state_store;
mod steady;
mod strangers;
#[path = "../support/support.rs"]
#[expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says why it fails by failing"
)]
mod support;
mod tls;
mod tls_attacks;
mod tokens;
mod traces;
mod unfinished;
mod unix;
mod websocket;
mod x509;
