//! MQTT at one node: connections, sessions, subscriptions, retained messages, wills, policies and limits.
//!
//! Plain state machines and tables. The node (`broker`) owns them, gives them what came, and executes what follows;
//! the state store's requests (`state_service`) stand on the same connections, policies and account of memory.
//! This crate does not know what a node does, other nodes' messages, or how sessions are copied. Of `cluster` it uses
//! values alone: ids of nodes, logical clocks, and the writes that a record consists of.
//!
//! Invariants: no I/O, no clock, no randomness. Every queue has a limit, and the limit says what gives way ([`limits`]).
//! What a session changes is told with the change, so that the caller can make it durable before it is acknowledged.
//!
//! In the order of a message's way: [`connection`], [`topic_alias`], [`policies`] over [`authorization`], [`pacing`],
//! [`subscriptions`], [`outbox`], [`acks`]; [`records`] is what of it lies on disk.

#![warn(missing_docs)]

pub mod acks;
pub mod authentication;
pub mod authorization;
pub mod client_ids;
pub mod connection;
pub mod filters;
pub mod ids;
pub mod limits;
pub mod memory;
pub mod message;
pub mod now;
pub mod outbox;
pub mod ownership;
pub mod pacing;
pub mod policies;
pub mod principal;
pub mod records;
pub mod response;
pub mod retained;
pub mod subscriptions;
pub mod timers;
pub mod topic_alias;
pub mod traces;
pub mod will;
