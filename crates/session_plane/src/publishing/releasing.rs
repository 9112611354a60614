//! PUBREL frees a packet id, and the end of a connection gives its numbers up.

use super::Publishing;
use super::action::{PublishViolation, PublishingAction};
use super::connection::Stage;
use super::packet_use::{PacketId, UseEntry};
use crate::connecting::ConnectionId;
use crate::{Dot, MadeEvent};

impl<M: Clone> Publishing<M> {
    /// PUBREL: writes that the packet id is free. PUBCOMP follows when that is durable.
    ///
    /// It is written for an id that this node does not know, too: an older entry may be on another
    /// side of a split, and must not count later.
    pub(super) fn release(
        &mut self,
        connection: ConnectionId,
        packet_id: PacketId,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let is_found = match open.stage(packet_id) {
            Stage::Early(_) | Stage::Publishing(_) => {
                let reason = PublishViolation::EarlyPubrel { packet_id };
                actions.push(PublishingAction::Disconnect { connection, reason });
                return;
            }
            Stage::Freeing { .. } => return,
            Stage::Untouched if open.has_freed(packet_id) => {
                actions.push(PublishingAction::SendPubcomp {
                    connection,
                    packet_id,
                    is_found: false,
                });
                return;
            }
            Stage::Untouched => {
                let counting = open.counting(packet_id);
                counting.is_some_and(|entry| entry.packet_use.message.is_some())
            }
            Stage::Received(_) => true,
        };
        let packet_use = open.use_by_none(packet_id);
        let id = open.id_mut(packet_id);
        id.stage = Stage::Freeing {
            entry: None,
            is_found,
        };
        let removes = id.replace();
        actions.push(PublishingAction::Write {
            connection,
            client: open.client.clone(),
            packet_use,
            body: None,
            removes,
        });
    }

    /// The event that frees a packet id is made.
    pub(super) fn free_written(&mut self, connection: ConnectionId, packet_id: PacketId, made: MadeEvent) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let MadeEvent { dot, clock } = made;
        let packet_use = open.use_by_none(packet_id);
        open.add_use(UseEntry {
            dot,
            clock,
            packet_use,
        });
        if let Stage::Freeing { entry, .. } = &mut open.id_mut(packet_id).stage {
            *entry = Some(dot);
        }
    }

    /// The event that frees a packet id is durable: PUBCOMP.
    pub(super) fn freed(
        &mut self,
        connection: ConnectionId,
        packet_id: PacketId,
        dot: Dot,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        if let Stage::Freeing { entry, is_found } = open.stage(packet_id)
            && entry == Some(dot)
        {
            open.id_mut(packet_id).stage = Stage::Untouched;
            actions.push(PublishingAction::SendPubcomp {
                connection,
                packet_id,
                is_found,
            });
        }
    }

    /// Gives up the messages of a connection that are not on their way (rule `open-connection`): the
    /// client may go on with them at another node.
    pub(super) fn close(&mut self, connection: ConnectionId, actions: &mut Vec<PublishingAction<M>>) {
        let Some(open) = self.connections.remove(&connection) else {
            return;
        };
        for number in open.waiting {
            let message = self.messages.get_mut(&number);
            if let Some(message) = message.filter(|message| message.is_on_the_way()) {
                message.replace_connection(None);
                continue;
            }
            self.give_up(number);
        }
        self.route_ready(actions);
    }

    /// Gives up a message that is not on its way, and the number with it.
    pub(super) fn give_up(&mut self, number: Dot) {
        self.messages.remove(&number);
        self.ready_of_others.remove(&number);
        if number.run == self.run && self.reserved.remove(&number.number) {
            self.given_up.insert(number.number);
        }
    }
}
