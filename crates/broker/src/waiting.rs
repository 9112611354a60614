//! What goes on when the disk is done.
//!
//! The batches themselves are in `commits.rs`; here is who waits for them.

use cluster::control::CONTROL;
use cluster::replica::record::LogPoint;
use protocol::Packet;

use crate::acks::{AckSequence, Acknowledgement};
use crate::commits::{Committed, DiskTicket};
use crate::ids::{ConnectionId, SessionKey, SessionNumber};
use crate::node::{Action, Node};
use crate::now::Now;
use crate::session::Written;

/// Who waits for the disk.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A received PUBLISH whose effects are in the batch.
    Ack {
        connection: ConnectionId,
        sequence: AckSequence,
        acknowledgement: Acknowledgement,
    },
    /// A CONNECT whose session is in the batch.
    Connack {
        connection: ConnectionId,
        packet: Packet,
    },
    /// A session that may send more when its records are in place.
    Records {
        session: SessionKey,
        number: SessionNumber,
        written: Written,
    },
    /// The record of the control group's state, as of this point of its log.
    ControlRecorded(LogPoint),
    /// The record of a state of the control group that another node sent.
    ControlKept(LogPoint),
    /// Anything else for one connection.
    Act {
        connection: ConnectionId,
        action: Action,
    },
}

impl Node {
    /// Everything up to `ticket` is on disk.
    pub(crate) fn durable(&mut self, now: Now, ticket: DiskTicket, actions: &mut Vec<Action>) {
        while let Some(committed) = self.commits.durable(ticket) {
            match committed {
                Committed::Records(waiters) => {
                    for waiter in waiters {
                        self.release(now, waiter, actions);
                    }
                }
                Committed::Log(CONTROL, ticket) => {
                    self.with_control(now, actions, |control, _, outputs, actions| {
                        control.persisted(now, ticket, outputs, actions);
                    });
                }
                Committed::Log(group, ticket) => {
                    self.with_group(now, group, actions, |service, outputs| {
                        service.persisted(now, ticket, outputs);
                    });
                }
            }
        }
    }

    /// Lets `waiter` go on when what this step has written is durable: at once if it has written nothing.
    pub(crate) fn after_own_writes(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        if let Some(waiter) = self.commits.wait_since(self.step_began, waiter) {
            self.release(now, waiter, actions);
        }
    }

    /// Lets `waiter` go on when everything written so far is durable.
    pub(crate) fn after_commit(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        if let Some(waiter) = self.commits.wait(waiter) {
            self.release(now, waiter, actions);
        }
    }

    fn release(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        match waiter {
            Waiter::Ack {
                connection,
                sequence,
                acknowledgement,
            } => {
                self.acknowledge(connection, sequence, acknowledgement, actions);
            }
            Waiter::Connack { connection, packet } => self.accepted(now, connection, packet, actions),
            Waiter::Records {
                session,
                number,
                written,
            } => {
                let Some(entry) = self.sessions.get_mut(session) else {
                    return;
                };
                if entry.session.number == number {
                    entry.session.persisted(written);
                    self.pump(now, session, actions);
                }
            }
            Waiter::ControlKept(point) => self.control_kept(now, point, actions),
            Waiter::ControlRecorded(point) => self.control_recorded(now, point, actions),
            Waiter::Act { connection, action } => {
                if self.connections.get(connection).is_some() {
                    actions.push(action);
                }
            }
        }
    }
}
