//! The end of a tunnel where the session is.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use cluster::NodeId;
use mqtt::authentication::Authentication;
use mqtt::connection::Connection;
use mqtt::ids::ConnectionId;
use mqtt::memory::Held;
use mqtt::now::Now;
use mqtt::ownership::Owner;
use protocol::Packet;
use protocol::packet::{Decoder, ProtocolVersion, encode, encoded_len};

use super::FarTunnel;
use crate::clients::{Opening, Sought, TunnelMessage};
use crate::node::{Action, Node, TimerKey};
use crate::report::Report;

/// A client elsewhere, whose session is here.
#[derive(Debug)]
pub(super) struct Far {
    connection: ConnectionId,
    version: ProtocolVersion,
    packet_size_max: u32,
    decoder: Decoder,
    /// What it has sent, and the connection does not read yet.
    unread: VecDeque<Packet>,
    unread_bytes: u64,
    /// Bytes that were taken, and the front does not know it yet.
    taken: u64,
    /// What is for it.
    out: BytesMut,
    asks_for_drained: bool,
    is_closing: bool,
}

impl Far {
    pub(super) fn bytes(&self) -> u64 {
        self.unread_bytes + self.out.len() as u64
    }
}

impl Node {
    /// A client is at another node, and its session here.
    pub(crate) fn open_far(
        &mut self,
        now: Now,
        (from, tunnel): FarTunnel,
        opening: Opening,
        actions: &mut Vec<Action>,
    ) {
        let client_id = opening.connect.client_id.detached();
        // The session may have begun to give way since this node said that it has it. The front asks anew, and is answered when the merge is over.
        let is_here = !self.is_giving_way(&client_id)
            && (self.sessions.find(&client_id).is_some() || self.stand_up_orphan(now, &client_id, actions));
        let is_known = |clients: &crate::clients::Clients| clients.tunnels.far.contains_key(&(from, tunnel));
        if !is_here || self.clients.as_deref().is_none_or(is_known) {
            self.tell_tunnel(from, tunnel, TunnelMessage::Elsewhere);
            return;
        }
        let id = self.connections.next_far();
        let budget = self.config.limits.outbound_bytes_max as usize;
        let is_asked = false;
        let Opening {
            connect,
            owner,
            proof,
        } = opening;
        let (principal, policy) = owner.map_or((None, None), |owner| (owner.principal, owner.policy));
        let mut connection = Connection::new(id, now.instant, is_asked, budget);
        connection.policy = policy.map(|policy| self.policies.id_of(&policy));
        connection.authentication = Authentication::of(principal).map(Box::new);
        self.connections.insert(connection);
        let mut decoder = Decoder::for_server(u32::MAX);
        decoder.set_version(connect.version);
        let far = Far {
            connection: id,
            version: connect.version,
            packet_size_max: connect.properties.packet_size_max.unwrap_or(u32::MAX),
            decoder,
            unread: VecDeque::new(),
            unread_bytes: 0,
            taken: 0,
            out: BytesMut::new(),
            asks_for_drained: false,
            is_closing: false,
        };
        if let Some(clients) = &mut self.clients {
            clients.tunnels.by_far_connection.insert(id, (from, tunnel));
            clients.tunnels.far.insert((from, tunnel), far);
        }
        self.timers.schedule(
            TimerKey::Connection(id),
            now.instant + self.config.limits.connect_timeout,
        );
        self.speak(now, id, &connect, actions);
        let sought = Sought {
            connect,
            proof,
            tries: 0,
            held: Held::default(),
        };
        self.let_in(now, id, sought, actions);
    }

    /// Packets from a client elsewhere.
    pub(super) fn take_far(&mut self, now: Now, tunnel: FarTunnel, bytes: &Bytes, actions: &mut Vec<Action>) {
        let Some(far) = self.far_at(tunnel) else {
            self.tell_tunnel(tunnel.0, tunnel.1, TunnelMessage::Close);
            return;
        };
        let id = far.connection;
        if bytes.is_empty() {
            return self.part_received(now, id);
        }
        let mut buffer = BytesMut::from(&bytes[..]);
        let error = loop {
            match far.decoder.decode(&mut buffer) {
                Ok(Some(packet)) => {
                    far.unread_bytes += encoded_len(&packet, far.version) as u64;
                    far.unread.push_back(packet);
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        self.read_far(now, id, actions);
        if let Some(error) = error {
            self.violated(now, id, &error, actions);
        }
    }

    /// Reads what a client elsewhere has sent, as long as its connection does.
    pub(super) fn read_far(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        while self.is_reading(id) {
            let Some((tunnel, far)) = self.far_of(id) else {
                return;
            };
            let Some(packet) = far.unread.pop_front() else {
                return;
            };
            let bytes = encoded_len(&packet, far.version) as u64;
            far.unread_bytes -= bytes;
            far.taken += bytes;
            self.mark_far(tunnel);
            self.received(now, id, packet, actions);
        }
    }

    /// The front's socket has taken everything.
    pub(super) fn far_drained(&mut self, now: Now, tunnel: FarTunnel, actions: &mut Vec<Action>) {
        if let Some(id) = self.far_at(tunnel).map(|far| far.connection) {
            self.drained(now, id, actions);
        }
    }

    /// The client is gone.
    pub(super) fn far_gone(&mut self, now: Now, tunnel: FarTunnel, actions: &mut Vec<Action>) {
        if let Some(far) = self.remove_far(tunnel) {
            self.lost(now, far.connection, actions);
        }
    }

    /// The client has authenticated again.
    pub(super) fn far_known(
        &mut self,
        now: Now,
        tunnel: FarTunnel,
        owner: Option<Owner>,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.far_at(tunnel).map(|far| far.connection) else {
            return;
        };
        let principal = owner.and_then(|owner| owner.principal);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.authentication = Authentication::of(principal).map(Box::new);
        }
        self.grant_again(now, id, actions);
    }

    /// The fronts of these clients are gone.
    pub(super) fn end_far_of(&mut self, now: Now, node: NodeId, actions: &mut Vec<Action>) {
        let all = self.clients.iter().flat_map(|clients| clients.tunnels.far.keys());
        let of_node: Vec<FarTunnel> = all.filter(|(front, _)| *front == node).copied().collect();
        for tunnel in of_node {
            self.far_gone(now, tunnel, actions);
        }
    }

    /// Something is to be done for a far connection.
    pub(super) fn give_far(&mut self, id: ConnectionId, action: Action, actions: &mut Vec<Action>) {
        let Some((tunnel, far)) = self.far_of(id) else {
            return;
        };
        match action {
            Action::Send { packet, .. } => far.put(&packet),
            Action::Publish { publish, .. } => far.put(&Packet::Publish(Box::new(publish.to_packet()))),
            Action::ReportDrained { .. } => far.asks_for_drained = true,
            Action::Close { .. } => far.is_closing = true,
            Action::Resume { .. } => {
                if let Some(clients) = &mut self.clients {
                    clients.tunnels.resumed.push(id);
                }
                return;
            }
            // The front says when a client comes and goes: it knows from where.
            Action::Report(Report::Connected { .. } | Report::Ended { .. }) | Action::Speak { .. } => return,
            other => return actions.push(other),
        }
        self.mark_far(tunnel);
    }

    pub(super) fn flush_far(&mut self) {
        let Some(clients) = &mut self.clients else { return };
        for tunnel in std::mem::take(&mut clients.tunnels.dirty_far) {
            let Some(far) = self.far_at(tunnel) else { continue };
            let bytes = far.out.split().freeze();
            let taken = u32::try_from(std::mem::take(&mut far.taken)).unwrap_or(u32::MAX);
            let (asks, is_closing) = (std::mem::take(&mut far.asks_for_drained), far.is_closing);
            let (to, number) = tunnel;
            if !bytes.is_empty() {
                self.tell_tunnel(to, number, TunnelMessage::Bytes(bytes));
            }
            if is_closing {
                self.tell_tunnel(to, number, TunnelMessage::Close);
                self.remove_far(tunnel);
                continue;
            }
            if taken > 0 {
                self.tell_tunnel(to, number, TunnelMessage::Taken(taken));
            }
            if asks {
                self.tell_tunnel(to, number, TunnelMessage::Ask);
            }
        }
    }

    fn mark_far(&mut self, tunnel: FarTunnel) {
        if let Some(clients) = &mut self.clients {
            clients.tunnels.dirty_far.insert(tunnel);
        }
    }

    fn far_at(&mut self, tunnel: FarTunnel) -> Option<&mut Far> {
        self.clients.as_mut()?.tunnels.far.get_mut(&tunnel)
    }

    fn far_of(&mut self, id: ConnectionId) -> Option<(FarTunnel, &mut Far)> {
        let tunnels = &mut self.clients.as_mut()?.tunnels;
        let tunnel = *tunnels.by_far_connection.get(&id)?;
        Some((tunnel, tunnels.far.get_mut(&tunnel)?))
    }

    fn remove_far(&mut self, tunnel: FarTunnel) -> Option<Far> {
        let tunnels = &mut self.clients.as_mut()?.tunnels;
        let far = tunnels.far.remove(&tunnel)?;
        tunnels.by_far_connection.remove(&far.connection);
        Some(far)
    }
}

impl Far {
    fn put(&mut self, packet: &Packet) {
        if let Err(error) = encode(packet, self.version, self.packet_size_max, &mut self.out) {
            // The node has checked the size before.
            debug_assert!(false, "a packet cannot be encoded: {error}");
        }
    }
}
