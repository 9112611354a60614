//! Routing: a view with its ring, as one value.

use std::sync::Arc;

use crate::{Ring, View};

/// View of a run, and the ring by which the run routes while the view is in force.
///
/// A ring takes milliseconds to make, and mostly peers have equal ones. So the node makes a ring
/// once, and shares it among the routings.
#[derive(Debug, PartialEq, Eq)]
pub struct Routing {
    view: View,
    ring: Arc<Ring>,
}

impl Routing {
    /// Routing by the ring of `view`.
    pub fn new(view: View) -> Routing {
        let ring = Arc::new(Ring::new(&view));
        Routing { view, ring }
    }

    /// Routing by a ring that was made of a view with the same nodes and states.
    pub(crate) fn with_ring(view: View, ring: Arc<Ring>) -> Routing {
        Routing { view, ring }
    }

    /// Nodes that are present, with their states.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Owners of every slot.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}
