//! Waiting until an event is durable where it has to be: acknowledgements of every kind (section 3 of the specification).

use super::sending::Sender;
use super::{GroupObservation, Node, Observation, Step};
use crate::ids::{ClientId, Dot, NodeId, NodeSet, Slot, SlotSet};
use crate::rules::Rule;

/// Something that happens when an event is durable where it has to be.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    number: u8,
    slots: SlotSet,
    peers: NodeSet,
    awaited: Awaited,
}

/// What is said when an event is durable.
#[derive(Clone, Debug)]
pub enum Awaited {
    Published,
    Subscribed {
        client: ClientId,
        connection: Dot,
    },
    Unsubscribed {
        client: ClientId,
        connection: Dot,
        removed: Vec<Dot>,
    },
    Acknowledged {
        client: ClientId,
        message: Dot,
        connection: Dot,
        removed: Vec<Dot>,
    },
    /// A packet id to the client, or its next stage, is at the owners.
    DeliveryStored {
        connection: Dot,
        packet_id: u8,
    },
    /// The packet id of a QoS 2 message, or the number of a will, is at the owners.
    Stored,
    /// The will that a connection leaves is at the owners.
    WillLeft {
        connection: Dot,
    },
    /// A packet id is free.
    Freed {
        client: ClientId,
        connection: Dot,
        packet_id: u8,
        removed: Vec<Dot>,
    },
    /// A session has ended; by the client's wish, or because a new one begins clean.
    Ended {
        client: ClientId,
        connection: Dot,
        removed: Vec<Dot>,
        by_client: bool,
    },
    Started {
        client: ClientId,
        connection: Dot,
        present: bool,
    },
    /// A client is a member of the shared group.
    Joined {
        client: ClientId,
        connection: Dot,
    },
    /// A client is a member no more.
    Left {
        removed: Vec<Dot>,
    },
    /// An assignment is at all present nodes.
    Given {
        message: Dot,
    },
    SharedAcknowledged {
        connection: Dot,
        message: Dot,
        removed: Vec<Dot>,
    },
}

impl Awaited {
    /// What the event `by` has removed.
    fn removal(&self, by: Dot) -> Option<Observation> {
        let (client, removed) = match self {
            Awaited::Unsubscribed { client, removed, .. }
            | Awaited::Freed { client, removed, .. }
            | Awaited::Acknowledged { client, removed, .. }
            | Awaited::Ended { client, removed, .. } => (*client, removed.clone()),
            Awaited::Left { removed } | Awaited::SharedAcknowledged { removed, .. } => {
                (ClientId::GROUP, removed.clone())
            }
            Awaited::Published
            | Awaited::Subscribed { .. }
            | Awaited::Stored
            | Awaited::WillLeft { .. }
            | Awaited::DeliveryStored { .. }
            | Awaited::Joined { .. }
            | Awaited::Given { .. }
            | Awaited::Started { .. } => return None,
        };
        Some(Observation::Removed { client, removed, by })
    }
}

impl Sender {
    pub fn is_acknowledging(&self, of: Dot) -> bool {
        let is_of = |wait: &Wait| match wait.awaited {
            Awaited::Acknowledged { connection, .. } | Awaited::SharedAcknowledged { connection, .. } => {
                connection == of
            }
            _ => false,
        };
        self.waits.iter().any(is_of)
    }

    /// Drops the waits for CONNACK: a change of the ring begins claims anew.
    pub fn drop_starts(&mut self) {
        self.waits
            .retain(|wait| !matches!(wait.awaited, Awaited::Started { .. }));
    }

    /// Waits for an event of this node that is known already.
    pub fn wait_for(&mut self, number: u8, slots: SlotSet, peers: NodeSet, awaited: Awaited) {
        self.waits.push(Wait {
            number,
            slots,
            peers,
            awaited,
        });
    }
}

impl Node {
    /// Says what is durable now.
    pub(super) fn complete_waits(&mut self, step: &mut Step<'_>) {
        let peers = self.membership.peers();
        for wait in std::mem::take(&mut self.sender.waits) {
            if self.is_durable(step, &wait, peers) {
                self.complete(step, &wait);
            } else {
                self.sender.waits.push(wait);
            }
        }
    }

    /// Each peer that was sent the event has confirmed it or was declared dead, and enough owners of each slot have it.
    fn is_durable(&self, step: &Step<'_>, wait: &Wait, peers: NodeSet) -> bool {
        let has_confirmed = |peer: NodeId| self.sender.has_reached(peer, wait.number);
        let has_copies = |slot: Slot| self.sender.has_copies(slot, wait.number, step.copies_min());
        let mut slots = Slot::of_sessions().filter(|slot| wait.slots.has(*slot));
        wait.peers.and(peers).iter().all(has_confirmed)
            && (!step.holds(Rule::ResendToNewOwners) || slots.all(has_copies))
    }

    fn complete(&mut self, step: &mut Step<'_>, wait: &Wait) {
        let dot = Dot {
            run: self.sender.run,
            number: wait.number,
        };
        if let Some(removal) = wait.awaited.removal(dot) {
            step.observe(removal);
        }
        match wait.awaited.clone() {
            Awaited::Published => step.observe(Observation::Published(dot)),
            Awaited::Subscribed { client, connection } => self.suback(step, client, connection, dot),
            Awaited::Unsubscribed {
                client, connection, ..
            } => {
                step.observe(Observation::Unsubscribed { client, connection });
            }
            Awaited::Acknowledged {
                client,
                message,
                connection,
                ..
            } => step.observe(Observation::Acknowledged {
                client,
                message,
                connection,
                by: dot,
            }),
            Awaited::Stored => self.publishing.set_durable(dot),
            Awaited::WillLeft { connection } => self.will_left(connection),
            Awaited::DeliveryStored {
                connection,
                packet_id,
            } => {
                self.delivery_stored(step, connection, packet_id, dot);
            }
            Awaited::Freed {
                client,
                connection,
                packet_id,
                ..
            } => step.observe(Observation::PubComp {
                client,
                connection,
                packet_id,
            }),
            Awaited::Ended {
                client,
                connection,
                by_client,
                ..
            } => {
                if by_client {
                    step.observe(Observation::Ended { client, connection });
                }
            }
            Awaited::Started {
                client,
                connection,
                present,
            } => self.connack(step, client, connection, present),
            Awaited::Joined { client, connection } => self.joined(step, client, connection, dot),
            Awaited::Left { .. } => {}
            Awaited::Given { message } => self.given(message, dot),
            Awaited::SharedAcknowledged { message, .. } => {
                step.observe(Observation::Group(GroupObservation::Acknowledged {
                    message,
                    by: dot,
                }));
            }
        }
    }

    fn joined(&self, step: &mut Step<'_>, client: ClientId, connection: Dot, dot: Dot) {
        if self.is_live(connection) {
            step.observe(Observation::Group(GroupObservation::Joined {
                client,
                connection,
                dot,
            }));
        }
    }

    fn suback(&self, step: &mut Step<'_>, client: ClientId, connection: Dot, dot: Dot) {
        if self.is_live(connection) {
            step.observe(Observation::Subscribed {
                client,
                connection,
                dot,
            });
        }
    }
}
