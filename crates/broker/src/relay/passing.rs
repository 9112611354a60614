//! How messages go round broken links: those of this node, those for it, and those that it passes on.

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::NodeId;
use mqtt::now::Now;
use state_service::StateStoreService;

use super::RelayFigures;
use super::messages::{RelayMessage, Relayed};
use crate::invoking::drop_message;
use crate::node::{Action, Node};

impl Node {
    /// The node by which messages go to a member that is not reached directly.
    pub fn relay_to(&self, node: NodeId) -> Option<NodeId> {
        self.relay.way_to(node)
    }

    /// What was counted of messages that go round broken links.
    pub fn relay_figures(&self) -> RelayFigures {
        self.relay.figures()
    }

    /// The edge has other connections than before.
    pub(crate) fn links_changed(&mut self, now: Now, reached: BTreeSet<NodeId>, actions: &mut Vec<Action>) {
        let members = self.members();
        self.relay.set_reached(now, reached, &members, actions);
    }

    /// Another node has said something about links, or something is to go by this node.
    pub(crate) fn relay_message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let members = self.members();
        match RelayMessage::decode(message) {
            Ok(RelayMessage::LinkState(state)) if members.contains(&from) => {
                self.relay.hear(now, (from, state), &members, actions);
            }
            Ok(RelayMessage::LinkState(_)) => {}
            Ok(RelayMessage::Relayed(relayed)) if relayed.target == self.relay.own => {
                let Relayed { origin, message, .. } = relayed;
                if members.contains(&origin) && origin != self.relay.own {
                    self.peer_message(now, origin, &message, actions);
                }
            }
            Ok(RelayMessage::Relayed(relayed)) => {
                if self.relay.passes_on(from, &relayed, &members) {
                    let (to, message) = (relayed.target, message.clone().into());
                    actions.push(Action::ToPeer { to, message });
                }
            }
            Err(error) => drop_message(from, error, actions),
        }
    }

    /// Does what is due.
    pub(crate) fn relay_timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.relay.deadline().is_some_and(|due| due <= now.instant) {
            let members = self.members();
            self.relay.timeout(now, &members, actions);
        }
    }

    /// Wraps those of the step's messages that go by another node.
    pub(crate) fn go_round(&self, actions: &mut [Action]) {
        if self.relay.ways.is_empty() {
            return;
        }
        for action in actions {
            if let Action::ToPeer { to, message } = action
                && let Some(by) = self.relay.way_to(*to)
            {
                let relayed = Relayed {
                    origin: self.relay.own,
                    target: *to,
                    message: std::mem::take(message).into_bytes(),
                };
                (*to, *message) = (by, relayed.encode().into());
            }
        }
    }

    /// All nodes of the cluster, also this one: those that the control group knows, else those of the state store.
    fn members(&self) -> BTreeSet<NodeId> {
        if let Some(control) = &self.control {
            return control.control().nodes().keys().copied().collect();
        }
        let replicas = self.groups.iter().map(StateStoreService::replica);
        replicas.flat_map(|replica| replica.members().all()).collect()
    }
}
