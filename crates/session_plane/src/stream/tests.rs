use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cluster::{Incarnation, NodeId};

use crate::stream::Routing;
use crate::view::tests::present;
use crate::{NodeState, Run, Slot, View};

/// Node whose run the outgoing stream is of.
pub(crate) const OWN: NodeId = NodeId(1);

pub(crate) fn node(number: u64) -> NodeId {
    NodeId(number)
}

pub(crate) fn run(node: NodeId) -> Run {
    Run {
        node,
        incarnation: Incarnation(1),
    }
}

pub(crate) fn slot(number: u16) -> Slot {
    Slot::new(number).expect("a sample is in range")
}

/// Routing of these nodes; made once, as a ring takes long in a test.
pub(crate) fn routing(states: &BTreeMap<NodeId, NodeState>) -> Arc<Routing> {
    static MADE: Mutex<Vec<Arc<Routing>>> = Mutex::new(Vec::new());
    let nodes = states.iter().map(|(node, state)| present(node.0, *state));
    let view = View::new(nodes.collect()).expect("samples are views");
    let mut made = MADE.lock().expect("nothing in here panics");
    if let Some(routing) = made.iter().find(|routing| *routing.view() == view) {
        return Arc::clone(routing);
    }
    let new = Arc::new(Routing::new(view));
    made.push(Arc::clone(&new));
    new
}
