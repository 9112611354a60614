//! Copies of durable sessions at other nodes.

use cluster::NodeId;

use crate::node::{Action, Node};
use crate::now::Now;
use crate::records::forwarded::Position;

impl Node {
    /// A node is lost: this one goes on with the sessions of which it is the home.
    #[expect(clippy::unused_self, reason = "there are no copies yet")]
    pub(crate) fn take_over_from(&mut self, _now: Now, _lost: NodeId, _actions: &mut Vec<Action>) {}

    /// Up to where a holder had taken what another node sent it, as far as the copies of its sessions here know.
    #[expect(clippy::unused_self, reason = "there are no copies yet")]
    pub(crate) fn taken_by(&self, _holder: NodeId, _origin: NodeId) -> Option<Position> {
        None
    }
}
