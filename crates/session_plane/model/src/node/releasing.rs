//! Release of connections: one for each client (section 7 of the specification).
//!
//! The claimant of a session asks for it, and so does an owner that finds two connections after a merge.

use super::{Node, Observation, Phase, Step};
use crate::event::{Change, EntryKind};
use crate::ids::{ClientId, Dot, NodeId, Run, Slot, SlotSet};
use crate::message::{Claimant, Message};
use crate::rules::Rule;

impl Node {
    /// After a merge: ends all connections of a client but the latest, which may have closed.
    pub(super) fn release_losers(&mut self, step: &mut Step<'_>, slot: Slot) {
        if !step.holds(Rule::LoserReleased) || slot == Slot::ROUTES {
            return;
        }
        for client in ClientId::all().filter(|client| step.directory.slot(*client) == slot) {
            let latest = self.latest_connection(slot, client);
            let connections = self.connections_in(slot, client).into_iter();
            for entry in connections.filter(|entry| Some((entry.clock, entry.dot.run)) < latest) {
                let (node, old) = (step.directory.node(entry.dot.run), entry.dot);
                if node == self.id {
                    self.release(step, node, client, old, None);
                } else if self.membership.has(node) {
                    step.send(
                        node,
                        Message::Release {
                            client,
                            old,
                            by: None,
                        },
                    );
                }
            }
        }
    }

    /// Clock and run of the latest connection that a session names, or that is there.
    fn latest_connection(&self, slot: Slot, client: ClientId) -> Option<(u32, Run)> {
        let entries = self.copy(slot)?.content.entries.iter();
        let of_client = entries.filter(|entry| entry.client == client);
        let orders = of_client.filter_map(|entry| match entry.kind {
            EntryKind::Connection => Some((entry.clock, entry.dot.run)),
            EntryKind::Session => Some((entry.connected, entry.dot.run)),
            _ => None,
        });
        orders.max()
    }

    /// Ends the connection `old`, unless it is the later of two that claim the session.
    pub(super) fn release(
        &mut self,
        step: &mut Step<'_>,
        from: NodeId,
        client: ClientId,
        old: Dot,
        by: Option<Claimant>,
    ) {
        let is_peer = from != self.id;
        let Some(connection) = self.connection_mut(old) else {
            if is_peer {
                step.send(
                    from,
                    Message::Released {
                        client,
                        old,
                        agreed: true,
                    },
                );
            }
            return;
        };
        let is_closing = connection.phase == Phase::Closing;
        let gives_in = is_closing || by.is_none_or(|by| connection.claimant() < by);
        if !gives_in {
            step.send(
                from,
                Message::Released {
                    client,
                    old,
                    agreed: false,
                },
            );
            return;
        }
        if !is_closing {
            connection.phase = Phase::Closing;
            step.observe(Observation::Disconnected {
                client,
                connection: old,
            });
        }
        if is_peer && by.is_some() {
            connection.reply_to.push(from);
        }
    }

    /// Ends a connection whose acknowledgements are durable; true if it has ended.
    pub(super) fn try_close(&mut self, step: &mut Step<'_>, dot: Dot) {
        if self.sender.is_acknowledging(dot) || self.is_leaving_will(step, dot) {
            return;
        }
        self.end_presence(step, dot);
        let Some(index) = self
            .connections
            .iter()
            .position(|connection| connection.dot == dot)
        else {
            return;
        };
        let connection = self.connections.remove(index);
        let client = connection.client;
        let removes = [dot].into_iter().chain(connection.dropped_will()).collect();
        for node in connection.reply_to {
            step.send(
                node,
                Message::Released {
                    client,
                    old: dot,
                    agreed: true,
                },
            );
        }
        let change = Change::Remove { client, removes };
        self.emit(step, change, SlotSet::one(step.directory.slot(client)), None);
    }
}
