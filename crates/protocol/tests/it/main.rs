//! The codec seen from outside: whole packets to bytes and back, malformed ones, damaged ones, stored inputs.
#![allow(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

mod check;
mod corpus;
mod damage;
mod malformed;
mod mutation;
mod packets;
mod round_trip;
mod state_store;
