//! States of nodes, rings, and clocks as bytes.

mod encodings;
mod nodes;
mod rings;

use std::time::Instant;

use super::*;
use crate::{Incarnation, NodeId};

fn actor(node: u64, incarnation: u32) -> Actor {
    Actor {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "any moment will do: only differences matter"
)]
fn origin() -> Instant {
    Instant::now()
}
