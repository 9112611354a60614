//! Image of a plane: what a node has on its disk, and what its next run begins with.
//!
//! Streams are not in it. The next run is met anew, and what came meanwhile is a hole until it is
//! merged. Nothing that was confirmed is lost: it is in the copies.

use cluster::session_plane::Hlc;

use super::{Copies, Matching, Plane};
use crate::transfer::{TransferBytes, TransferValue};

/// State that outlives a run.
#[derive(Debug, Clone)]
pub struct PlaneImage<V, M> {
    /// Latest moment that the node has given or seen: later events have later clocks.
    clock: Hlc,
    copies: Copies<V, M>,
}

impl<V, M> Default for PlaneImage<V, M> {
    /// Nothing: the first start of a node.
    fn default() -> PlaneImage<V, M> {
        PlaneImage {
            clock: Hlc::ZERO,
            copies: Copies::default(),
        }
    }
}

impl<V, M> PlaneImage<V, M> {
    /// Clock and copies.
    pub(super) fn into_parts(self) -> (Hlc, Copies<V, M>) {
        (self.clock, self.copies)
    }
}

impl<V, M, R> Plane<V, M, R>
where
    V: TransferValue + Ord + Clone,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// State that is to be on the disk before a [`PersistPoint`](super::PersistPoint) of this
    /// moment is handed back.
    pub fn image(&self) -> PlaneImage<V, M> {
        PlaneImage {
            clock: self.clock.latest(),
            copies: self.holdings.copies.clone(),
        }
    }
}
