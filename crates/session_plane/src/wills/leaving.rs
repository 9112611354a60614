//! Wills of the connections of this node: what a connection leaves when it ends (rules `will-left` and
//! `will-before-released`).
//!
//! *Invariant*: a connection is released once. Without DISCONNECT 0 the end of its connection is at
//! the owners then, beside the will.

use super::Wills;
use super::action::WillsAction;
use super::event::{OwnWill, WillEnd};
use crate::Dot;
use crate::connecting::ConnectionId;

/// Connection with a will.
#[derive(Debug)]
pub(super) struct Leaving {
    own: OwnWill,
    /// The connection has ended, and its will is on its way to the owners.
    is_leaving: bool,
}

impl Leaving {
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }
}

impl Wills {
    /// The will of a connection is written.
    pub(super) fn will_written(&mut self, connection: ConnectionId, own: OwnWill) {
        let leaving = Leaving {
            own,
            is_leaving: false,
        };
        let before = self.connections.insert(connection, leaving);
        assert!(before.is_none(), "a connection has one will");
    }

    /// A connection has ended: leaves its will, or drops it.
    pub(super) fn end(&mut self, connection: ConnectionId, end: WillEnd, actions: &mut Vec<WillsAction>) {
        let Some(leaving) = self.connections.get_mut(&connection) else {
            let removes = None;
            actions.push(WillsAction::Release { connection, removes });
            return;
        };
        if leaving.is_leaving {
            return;
        }
        match end {
            WillEnd::Dropped => {
                let removes = Some(leaving.own.will);
                self.connections.remove(&connection);
                actions.push(WillsAction::Release { connection, removes });
            }
            WillEnd::Left { delay } => {
                leaving.is_leaving = true;
                actions.push(WillsAction::Leave {
                    connection,
                    client: leaving.own.client.clone(),
                    dot: leaving.own.connection,
                    birth: leaving.own.birth,
                    delay,
                });
            }
        }
    }

    /// The end of a connection is made, and waits to be durable.
    pub(super) fn end_written(&mut self, connection: ConnectionId, dot: Dot) {
        let leaving = self.connections.get(&connection);
        if leaving.is_some_and(Leaving::is_leaving) {
            self.leaving.insert(dot, connection);
        }
    }

    /// An event of this node is durable. The connection whose end it is may be released.
    pub(super) fn durable(&mut self, dot: Dot, actions: &mut Vec<WillsAction>) {
        if let Some(connection) = self.leaving.remove(&dot) {
            self.connections.remove(&connection);
            let removes = None;
            actions.push(WillsAction::Release { connection, removes });
        }
    }
}
