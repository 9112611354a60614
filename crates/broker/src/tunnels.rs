//! A client whose session another node holds: what it sends goes there, and what it gets comes from there.
//!
//! The node with the client's connection is the *front* (`front.rs`): it has let the client in, and passes packets on. The node with the session is the *holder*
//! (`holder.rs`): there the client has a *far* connection, which is one like any other, with its own keep-alive, aliases, windows and rights. The holder's
//! actions for it become bytes that the front writes as they are.
//!
//! ```text
//! front   open -> ... packets -> taken <- ... drained -> ... gone ->
//! holder       <- bytes ...             <- ask      <- close
//! ```
//!
//! Nothing is kept for long on the way: the front does not read on while [`WINDOW`] of what the client has sent was not taken, and the holder sends no more than to
//! a socket of its own that has not taken it ([`mqtt::limits::Limits::outbound_bytes_max`]).

mod front;
mod holder;

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use protocol::Text;

use self::front::Front;
use self::holder::Far;
use crate::clients::{ClientMessage, TunnelMessage, TunnelNumber};
use crate::node::{Action, Node};

/// Bytes from a client that are on their way to the holder of its session, unless one packet has more.
const WINDOW: u64 = 256 << 10;

/// A tunnel, by the node that has opened it.
type FarTunnel = (NodeId, TunnelNumber);

/// All tunnels of a node.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    /// Of clients here, whose sessions others hold.
    fronts: BTreeMap<TunnelNumber, Front>,
    by_connection: BTreeMap<ConnectionId, TunnelNumber>,
    by_client: BTreeMap<Text, ConnectionId>,
    /// Of clients elsewhere, whose sessions are here.
    far: BTreeMap<FarTunnel, Far>,
    by_far_connection: BTreeMap<ConnectionId, FarTunnel>,
    /// Where something is to be sent.
    dirty_fronts: BTreeSet<TunnelNumber>,
    dirty_far: BTreeSet<FarTunnel>,
    /// Far connections that read on.
    resumed: Vec<ConnectionId>,
}

impl Tunnels {
    /// The client of a connection whose session another node holds.
    pub(crate) fn client_of(&self, id: ConnectionId) -> Option<Text> {
        let front = self.fronts.get(self.by_connection.get(&id)?)?;
        Some(front.client_id.clone())
    }

    /// The connection here of a client whose session another node holds.
    pub(crate) fn near_connection_of(&self, client_id: &str) -> Option<ConnectionId> {
        self.by_client.get(client_id).copied()
    }

    /// The node with the session of a client that is connected here.
    pub(crate) fn holder_of(&self, id: ConnectionId) -> Option<NodeId> {
        let front = self.fronts.get(self.by_connection.get(&id)?)?;
        Some(front.holder)
    }

    /// The node with the connection of a client whose session is here.
    pub(crate) fn front_of(&self, id: ConnectionId) -> Option<NodeId> {
        self.by_far_connection.get(&id).map(|(node, _)| *node)
    }

    /// How many clients are here whose sessions others hold.
    pub(crate) fn fronts(&self) -> usize {
        self.fronts.len()
    }

    /// What waits here for the nodes at the other ends, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let fronts = self.fronts.values().map(Front::bytes);
        let far = self.far.values().map(Far::bytes);
        fronts.chain(far).sum()
    }
}

impl Node {
    /// What was done for far connections becomes what their fronts are told; `before`: what was to be done before this step.
    pub(crate) fn divert(&mut self, now: Now, before: usize, actions: &mut Vec<Action>) {
        if self
            .clients
            .as_ref()
            .is_none_or(|clients| clients.tunnels.far.is_empty())
        {
            return;
        }
        let is_far = |action: &Action| action.connection().is_some_and(ConnectionId::is_far);
        if !actions[before..].iter().any(is_far) {
            return;
        }
        let mut from = before;
        loop {
            let since: Vec<Action> = actions.drain(from..).collect();
            for action in since {
                match action.connection().filter(|id| id.is_far()) {
                    Some(id) => self.give_far(id, action, actions),
                    None => actions.push(action),
                }
            }
            let resumed = self
                .clients
                .as_mut()
                .and_then(|clients| clients.tunnels.resumed.pop());
            let Some(id) = resumed else { return };
            from = actions.len();
            self.read_far(now, id, actions);
        }
    }

    /// Something came out of a tunnel, at either end.
    pub(crate) fn take_from_tunnel(
        &mut self,
        now: Now,
        (from, tunnel): FarTunnel,
        said: TunnelMessage,
        actions: &mut Vec<Action>,
    ) {
        match said {
            TunnelMessage::Elsewhere => self.not_held(now, (from, tunnel), actions),
            TunnelMessage::Bytes(bytes) => self.give_near(now, (from, tunnel), bytes, actions),
            TunnelMessage::Taken(bytes) => self.note_taken(now, (from, tunnel), bytes, actions),
            TunnelMessage::Ask => self.ask_near((from, tunnel), actions),
            TunnelMessage::Close => self.close_near(now, (from, tunnel), actions),
            TunnelMessage::Packets(bytes) => self.take_far(now, (from, tunnel), &bytes, actions),
            TunnelMessage::Drained => self.far_drained(now, (from, tunnel), actions),
            TunnelMessage::Gone => self.far_gone(now, (from, tunnel), actions),
            TunnelMessage::Known(owner) => self.far_known(now, (from, tunnel), owner, actions),
        }
    }

    /// A node is lost, or has started anew: its ends of tunnels are gone.
    pub(crate) fn end_tunnels_of(&mut self, now: Now, node: NodeId, actions: &mut Vec<Action>) {
        self.end_fronts_of(now, node, actions);
        self.end_far_of(now, node, actions);
    }

    /// Sends what was collected for the other ends.
    pub(crate) fn flush_tunnels(&mut self) {
        self.flush_fronts();
        self.flush_far();
    }

    fn tell_tunnel(&mut self, to: NodeId, tunnel: TunnelNumber, said: TunnelMessage) -> bool {
        self.tell_clients(to, &ClientMessage::OfTunnel(tunnel, said))
    }
}
