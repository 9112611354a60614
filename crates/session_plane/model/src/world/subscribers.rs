//! Clients that are sent messages, with QoS 1 or with QoS 2.
//!
//! A client that takes messages with QoS 2 keeps the packet ids of what it has until PUBREL. A PUBLISH under such an id is the
//! same message for it. So a message that comes twice under two ids is twice for it, and one that comes under the id of another
//! is swallowed.

use super::World;
use super::clients::Place;
use crate::ids::{ClientId, Dot, NodeSet};
use crate::node::{Packet, Stage};

impl World {
    /// PUBLISH to a client.
    pub(super) fn delivered(&mut self, id: ClientId, place: Place, message: Dot, packet: Option<Packet>) {
        if self.client(id).at != Some(place) {
            return;
        }
        self.say(|| {
            format!(
                "deliver client {} {message:?} at {} {packet:?}",
                id.0, place.node.0
            )
        });
        let is_new = packet.is_none_or(|packet| self.takes_packet(id, place, message, packet));
        if is_new && self.goes_on() {
            let stage = packet.map(|packet| packet.stage.entry);
            self.take_message(id, place, message, stage);
        }
        if !self.goes_on() {
            return;
        }
        let served = self.machines[place.node.index()]
            .node
            .connection_mut(place.connection);
        match (served, packet) {
            (Some(served), Some(packet)) => served.take_answer_of_client(packet.packet_id),
            (Some(served), None) => served.take_delivery(message),
            (None, _) => {}
        }
    }

    /// Takes a message that is new to the client. `stage`: the entry of its packet id.
    fn take_message(&mut self, id: ClientId, place: Place, message: Dot, stage: Option<Dot>) {
        self.counters.delivered += 1;
        self.check_delivery(id, place, message, stage);
        if self.goes_on() {
            self.client_mut(id).has_received(message);
            self.delivered_once(id, message);
        }
    }

    /// Takes a PUBLISH with a packet id; true if the message is a new one for the client.
    fn takes_packet(&mut self, id: ClientId, place: Place, message: Dot, packet: Packet) -> bool {
        let client = self.client_mut(id);
        let stage = client.stages.insert(message, packet.stage);
        let known = client.receiving.get(&packet.packet_id).copied();
        if let Some(known) = known.filter(|known| *known != message) {
            let stage = client.stages.get(&known).copied();
            let stage = stage.filter(|_| !client.moved.contains(&known));
            client.has_received(message);
            let text = format!("Q2 swallowed: client {} takes {message:?} for {known:?}", id.0);
            self.check_stage(id, place, stage, text);
            self.excuse_once(id, message);
            return false;
        }
        client.receiving.insert(packet.packet_id, message);
        let has_moved = client.moved.contains(&message);
        if known.is_none() && client.received.contains(&message) && !has_moved {
            let text = format!("Q2 twice: client {} gets {message:?} again", id.0);
            self.check_stage(id, place, stage, text);
        }
        known.is_none()
    }

    /// Fails with `text` if this side has the stage that the client was told before.
    fn check_stage(&mut self, id: ClientId, place: Place, stage: Option<Stage>, text: String) {
        let side = self.node(place.node).membership.view.present;
        let is_held = stage.is_some_and(|stage| self.is_held(stage, side));
        if is_held && self.keeps_disks && !self.client(id).is_forked {
            self.fail(text);
        }
    }

    /// A node of `side` runs that must have the stage.
    fn is_held(&self, stage: Stage, side: NodeSet) -> bool {
        !stage.holders.and(side).and(self.alive()).is_empty()
    }

    /// A client has come to a side that lacks stages which it was told: for their messages it has changed sides.
    pub(super) fn note_moved(&mut self, id: ClientId, side: NodeSet) {
        let stages = self.client(id).stages.iter();
        let moved: Vec<Dot> = stages
            .filter(|(_, stage)| !self.is_held(**stage, side))
            .map(|(message, _)| *message)
            .collect();
        self.client_mut(id).moved.extend(moved);
    }

    /// PUBREL to a client: the packet id is free.
    pub(super) fn pubrel(&mut self, id: ClientId, place: Place, message: Dot, packet: Packet) {
        if self.client(id).at != Some(place) {
            return;
        }
        self.say(|| format!("PUBREL to client {} {packet:?} at {}", id.0, place.node.0));
        let client = self.client_mut(id);
        client.receiving.remove(&packet.packet_id);
        client.stages.insert(message, packet.stage);
        let served = self.machines[place.node.index()]
            .node
            .connection_mut(place.connection);
        if let Some(served) = served {
            served.take_answer_of_client(packet.packet_id);
        }
    }
}
