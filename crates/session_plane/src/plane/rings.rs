//! Rings of views: each is made once, as long as it is in use.
//!
//! A ring takes milliseconds to make, and follows from the nodes and their states alone. Peers have
//! equal ones, and most views differ in incarnations only.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::stream::Routing;
use crate::{Ring, View};

/// Rings that are remembered: those of a few changes of the view at all peers.
const RINGS_MAX: usize = 32;

/// Rings that were made last.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// The last one that was asked for is the first.
    made: VecDeque<Made>,
}

#[derive(Debug)]
struct Made {
    of: View,
    ring: Arc<Ring>,
}

impl Rings {
    /// Routing by the ring of `view`.
    pub(super) fn routing(&mut self, view: View) -> Arc<Routing> {
        let found = self.made.iter().position(|made| made.of.has_ring_of(&view));
        let found = found.and_then(|index| self.made.remove(index));
        let made = found.unwrap_or_else(|| Made {
            ring: Arc::new(Ring::new(&view)),
            of: view.clone(),
        });
        let ring = Arc::clone(&made.ring);
        self.made.push_front(made);
        self.made.truncate(RINGS_MAX);
        Arc::new(Routing::with_ring(view, ring))
    }
}
