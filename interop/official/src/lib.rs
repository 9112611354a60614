//! What the tests with the official clients share: a server of their own, a client with its session
//! running, and a relay that can cut the connection between the two.
#![forbid(unsafe_code)]

mod actor;
mod relay;
mod server;

pub use actor::{Actor, TIMEOUT};
pub use relay::Relay;
pub use server::Server;
