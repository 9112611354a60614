//! A session that has gone on at two nodes, on both sides of a split or because one of them was away, is one again: the node that gives way leaves to the other what that one
//! has not got.
//!
//! ```text
//! gives way                                  keeps it
//!   leave: subscriptions ─────────────────►  joins those that it lacks
//!   ◄───────────────────── joined, from ...  durable, and all nodes know them
//!   fence ─► all nodes, fenced ─► ...        each says what of its messages both have got
//!   leavings: deliveries from there on ───►  takes those that it lacks
//!   ◄───────────────────────────── merged    durable
//!   ends its own
//! ```
//!
//! Until then the session that gives way takes what is for it, without a client. If either node is lost, all begins anew when they meet. Where they have parted both know
//! by *marks* (`marks.rs`): whoever goes on with a copy, and whoever loses a node with a copy, notes the next sequence. Who asks whom is in `giving.rs` and `fences.rs`, what is made of it in
//! `taking_in.rs`.
//!
//! Two sessions may begin to give way to each other. Then the node with the higher id answers `crossed` instead of `joined`, and its own session is the
//! one that gives way.
//!
//! A session takes in one other at a time; further ones are deferred (`deferred.rs`).
//!
//! *Invariant*: a session ends at the node that gives way when the other one has everything of it durably.

mod deferred;
mod deliveries;
mod fences;
mod giving;
mod holding;
mod leaving;
mod marks;
mod messages;
mod subscriptions;
mod taking_in;
mod waiting;

pub(super) use self::deferred::Deferred;
pub(super) use self::fences::Fences;
pub(super) use self::giving::Giving;
pub(super) use self::holding::Holding;
pub(super) use self::marks::Origins;
pub(crate) use self::messages::MergeMessage;
pub(super) use self::taking_in::TakingIn;
pub(super) use self::waiting::Question;
