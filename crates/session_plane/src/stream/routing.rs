//! Routing: a view with its ring, as one value.

use crate::{Ring, View};

/// View of a run, and the ring by which the run routes while the view is in force.
///
/// A ring takes milliseconds to make. Peers mostly have equal views, so the node makes a routing
/// once for each view and shares it among the streams.
#[derive(Debug, PartialEq, Eq)]
pub struct Routing {
    view: View,
    ring: Ring,
}

impl Routing {
    /// Routing by the ring of `view`.
    pub fn new(view: View) -> Routing {
        let ring = Ring::new(&view);
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
