//! Plane: the parts of one run of one node that are more than one leaf module.
//!
//! [`Copies`] are the copies of all slots of the node. Streams say which numbers they take, transfers
//! merge answers into them, and holes in them keep messages pending. Nothing here does I/O or reads a
//! clock.

mod copies;

pub use copies::{ClaimedMessage, Copies, CopyRef, Effect, TakenNumbers};
