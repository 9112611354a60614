//! The end of a tunnel where the client is.

use bytes::{Bytes, BytesMut};
use cluster::NodeId;
use mqtt::connection::Stage;
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use mqtt::ownership::Owner;
use protocol::packet::{ProtocolVersion, encode};
use protocol::{Packet, ReasonCode, Text};

use super::{FarTunnel, WINDOW};
use crate::clients::{ClientMessage, Opening, Sought, TunnelMessage, TunnelNumber};
use crate::node::{Action, Node, TimerKey};
use crate::report::{EndedBy, Report};

/// A client here, whose session another node holds.
#[derive(Debug)]
pub(super) struct Front {
    connection: ConnectionId,
    pub(super) client_id: Text,
    pub(super) holder: NodeId,
    /// What it connects with, until the holder has answered.
    sought: Option<Sought>,
    version: ProtocolVersion,
    /// What it has sent, and is not on its way yet.
    out: BytesMut,
    /// Bytes that it has sent, and the holder has not taken.
    under_way: u64,
    /// It has said goodbye.
    is_leaving: bool,
}

impl Front {
    pub(super) fn bytes(&self) -> u64 {
        self.out.len() as u64
    }
}

impl Node {
    /// Another node has the session of a client that connects here.
    pub(crate) fn open_tunnel(
        &mut self,
        now: Now,
        id: ConnectionId,
        holder: NodeId,
        sought: Sought,
        actions: &mut Vec<Action>,
    ) {
        let owner = Owner::of(self.principal(id).cloned(), self.policy_name(id));
        let Some(clients) = &mut self.clients else { return };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.stage = Stage::Seeking;
        let tunnel = TunnelNumber(clients.next_number());
        let client_id = sought.connect.client_id.detached();
        let opening = Opening {
            connect: sought.connect.clone(),
            owner,
            proof: sought.proof.clone(),
        };
        let front = Front {
            connection: id,
            client_id: client_id.clone(),
            holder,
            version: sought.connect.version,
            sought: Some(sought),
            out: BytesMut::new(),
            under_way: 0,
            is_leaving: false,
        };
        clients.tunnels.by_client.insert(client_id, id);
        clients.tunnels.by_connection.insert(id, tunnel);
        clients.tunnels.fronts.insert(tunnel, front);
        if !self.tell_clients(holder, &ClientMessage::Open(tunnel, Box::new(opening))) {
            self.not_held(now, (holder, tunnel), actions);
        }
    }

    /// A packet of a client whose session another node holds.
    pub(crate) fn pass_on(&mut self, now: Now, id: ConnectionId, packet: Packet, actions: &mut Vec<Action>) {
        if let Packet::Auth(auth) = packet {
            return self.received_auth(now, id, auth, actions);
        }
        let Some((tunnel, front)) = self.front_of(id) else {
            return;
        };
        front.is_leaving |= matches!(packet, Packet::Disconnect(_));
        let before = front.out.len();
        let is_put = encode(&packet, front.version, u32::MAX, &mut front.out);
        is_put.expect("it has come as a packet");
        front.under_way += (front.out.len() - before) as u64;
        let is_full = front.under_way > WINDOW;
        if let Some(connection) = self.connections.get_mut(id) {
            connection.awaits_nodes |= is_full;
        }
        if let Some(clients) = &mut self.clients {
            clients.tunnels.dirty_fronts.insert(tunnel);
        }
    }

    /// The socket has taken what it was given.
    pub(crate) fn near_drained(&mut self, id: ConnectionId) {
        if let Some((tunnel, front)) = self.front_of(id) {
            let holder = front.holder;
            self.tell_tunnel(holder, tunnel, TunnelMessage::Drained);
        }
    }

    /// The client has authenticated again.
    pub(crate) fn near_known(&mut self, id: ConnectionId) {
        let owner = Owner::of(self.principal(id).cloned(), self.policy_name(id));
        if let Some((tunnel, front)) = self.front_of(id) {
            let holder = front.holder;
            self.tell_tunnel(holder, tunnel, TunnelMessage::Known(owner));
        }
    }

    /// A connection ends here. The holder is told, unless it has said so itself.
    pub(crate) fn leave_tunnel(&mut self, id: ConnectionId) {
        let Some((tunnel, _)) = self.front_of(id) else {
            return;
        };
        self.flush_front(tunnel);
        if let Some(front) = self.remove_front(tunnel) {
            self.tell_tunnel(front.holder, tunnel, TunnelMessage::Gone);
        }
    }

    /// The node that was to have the session has it not: it is looked for again.
    pub(super) fn not_held(&mut self, now: Now, (from, tunnel): FarTunnel, actions: &mut Vec<Action>) {
        if let Some(front) = self.remove_front_at((from, tunnel))
            && let Some(sought) = front.sought
        {
            self.seek_again(now, front.connection, sought, actions);
        }
    }

    /// Bytes for the client; the first ones are its CONNACK.
    pub(super) fn give_near(
        &mut self,
        now: Now,
        (from, tunnel): FarTunnel,
        bytes: Bytes,
        actions: &mut Vec<Action>,
    ) {
        let Some(front) = self.front_at((from, tunnel)) else {
            self.tell_tunnel(from, tunnel, TunnelMessage::Gone);
            return;
        };
        let id = front.connection;
        let is_first = front.sought.take().is_some();
        let connack = is_first.then(|| first_of(&bytes)).flatten();
        actions.push(Action::SendBytes {
            connection: id,
            bytes,
        });
        if is_first {
            self.let_in_far(now, id, connack, actions);
        }
    }

    /// The holder has taken so many bytes.
    pub(super) fn note_taken(
        &mut self,
        now: Now,
        (from, tunnel): FarTunnel,
        bytes: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some(front) = self.front_at((from, tunnel)) else {
            return;
        };
        front.under_way = front.under_way.saturating_sub(bytes.into());
        let (id, has_room) = (front.connection, front.under_way <= WINDOW / 2);
        let connection = self.connections.get_mut(id);
        if let Some(connection) = connection.filter(|connection| connection.awaits_nodes && has_room) {
            connection.awaits_nodes = false;
            connection.last_received = now.instant;
            actions.push(Action::Resume { connection: id });
        }
    }

    /// The holder wants to know when the client has taken everything.
    pub(super) fn ask_near(&mut self, (from, tunnel): FarTunnel, actions: &mut Vec<Action>) {
        if let Some(front) = self.front_at((from, tunnel)) {
            let connection = front.connection;
            actions.push(Action::ReportDrained { connection });
        }
    }

    /// The holder has ended the connection.
    pub(super) fn close_near(&mut self, now: Now, (from, tunnel): FarTunnel, actions: &mut Vec<Action>) {
        let Some(front) = self.remove_front_at((from, tunnel)) else {
            return;
        };
        let id = front.connection;
        actions.push(Action::Close { connection: id });
        if front.sought.is_none() {
            let by = if front.is_leaving {
                EndedBy::Client
            } else {
                EndedBy::Holder(front.holder)
            };
            actions.push(Action::Report(Report::Ended {
                connection: id,
                client_id: front.client_id,
                by,
            }));
        }
        self.connection_ended(now, id, crate::closing::Ending::Normal, actions);
    }

    /// The holders of these clients' sessions are gone.
    pub(super) fn end_fronts_of(&mut self, now: Now, node: NodeId, actions: &mut Vec<Action>) {
        let fronts = self.clients.iter().flat_map(|clients| &clients.tunnels.fronts);
        let of_node = fronts.filter(|(_, front)| front.holder == node);
        let of_node: Vec<_> = of_node
            .map(|(tunnel, front)| (*tunnel, front.connection))
            .collect();
        for (tunnel, id) in of_node {
            let is_waiting = self
                .front_at((node, tunnel))
                .is_some_and(|front| front.sought.is_some());
            if is_waiting {
                // One that has started anew may have taken what opens it.
                self.tell_tunnel(node, tunnel, TunnelMessage::Gone);
                self.not_held(now, (node, tunnel), actions);
            } else {
                let why = "the node with the session is lost; connect again";
                self.disconnect(now, id, ReasonCode::ServerBusy, why, actions);
            }
        }
    }

    pub(super) fn flush_fronts(&mut self) {
        let Some(clients) = &mut self.clients else { return };
        for tunnel in std::mem::take(&mut clients.tunnels.dirty_fronts) {
            self.flush_front(tunnel);
        }
    }

    /// A part of a packet has come: the holder, which minds the Keep Alive, is told with no packet at all.
    pub(crate) fn pass_on_part(&mut self, id: ConnectionId) {
        if let Some((tunnel, front)) = self.front_of(id) {
            let holder = front.holder;
            self.flush_front(tunnel);
            self.tell_tunnel(holder, tunnel, TunnelMessage::Packets(Bytes::new()));
        }
    }

    /// CONNACK has come from the holder.
    fn let_in_far(
        &mut self,
        now: Now,
        id: ConnectionId,
        connack: Option<(bool, bool)>,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.stage = Stage::Tunnelled;
        connection.last_received = now.instant;
        // The holder minds how long it is silent.
        self.timers.cancel(TimerKey::Connection(id));
        if let (Some((true, session_present)), Some(client_id)) = (connack, self.client_of(id)) {
            actions.push(Action::Report(Report::Connected {
                connection: id,
                client_id,
                principal: self.principal(id).cloned(),
                session_present,
            }));
        }
        actions.push(Action::Resume { connection: id });
    }

    fn flush_front(&mut self, tunnel: TunnelNumber) {
        let clients = self.clients.as_mut();
        let front = clients.and_then(|clients| clients.tunnels.fronts.get_mut(&tunnel));
        let Some(front) = front.filter(|front| !front.out.is_empty()) else {
            return;
        };
        let (holder, bytes) = (front.holder, front.out.split().freeze());
        self.tell_tunnel(holder, tunnel, TunnelMessage::Packets(bytes));
    }

    fn front_of(&mut self, id: ConnectionId) -> Option<(TunnelNumber, &mut Front)> {
        let tunnels = &mut self.clients.as_mut()?.tunnels;
        let tunnel = *tunnels.by_connection.get(&id)?;
        Some((tunnel, tunnels.fronts.get_mut(&tunnel)?))
    }

    /// The front of a tunnel to this node.
    fn front_at(&mut self, (holder, tunnel): FarTunnel) -> Option<&mut Front> {
        let front = self.clients.as_mut()?.tunnels.fronts.get_mut(&tunnel)?;
        (front.holder == holder).then_some(front)
    }

    /// The same, when it ends.
    fn remove_front_at(&mut self, (holder, tunnel): FarTunnel) -> Option<Front> {
        self.front_at((holder, tunnel))?;
        self.remove_front(tunnel)
    }

    fn remove_front(&mut self, tunnel: TunnelNumber) -> Option<Front> {
        let tunnels = &mut self.clients.as_mut()?.tunnels;
        let front = tunnels.fronts.remove(&tunnel)?;
        tunnels.dirty_fronts.remove(&tunnel);
        tunnels.by_connection.remove(&front.connection);
        if tunnels.by_client.get(&front.client_id) == Some(&front.connection) {
            tunnels.by_client.remove(&front.client_id);
        }
        Some(front)
    }
}

/// Whether a CONNACK accepts the client, and whether its session was present.
fn first_of(bytes: &Bytes) -> Option<(bool, bool)> {
    let length = bytes.get(1..5)?.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let flags = *bytes.get(1 + length)?;
    let reason = *bytes.get(2 + length)?;
    Some((reason == 0, flags & 1 == 1))
}
