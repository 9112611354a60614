//! Changes of the ring and of peers: claims begin anew, new owners get the entries of connections,
//! and nothing of a node that was given up is waited for.
//!
//! Each of these passes over the claims of the node, or over the connections of one slot.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::claiming::ask_release;
use super::{Connections, Phase};
use crate::Slot;
use crate::connecting::action::{ConnectingAction, ConnectionId};
use crate::connecting::cluster_state::ClusterState;
use crate::connecting::message::{AskSession, ConnectingMessage, Outgoing};
use crate::queue_limits::QueueValue;

impl<V: Ord + QueueValue + Clone> Connections<V> {
    /// Asks the owners of the new ring for sessions whose CONNACK has not been sent (rule
    /// `claim-anew`).
    pub(super) fn begin_anew(
        &mut self,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        for id in self.claiming() {
            self.ask(id, cluster, actions);
        }
    }

    /// Gives the entries of a slot's connections to owners that do not have them (rule
    /// `connection-to-new-owners`).
    pub(super) fn change_owners(
        &mut self,
        slot: Slot,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(of_slot) = self.slots.get_mut(&slot) else {
            return;
        };
        let owners: BTreeSet<NodeId> = cluster.owners(slot).into_iter().collect();
        let new: Vec<NodeId> = owners.difference(&of_slot.told).copied().collect();
        of_slot.told = owners;
        if new.is_empty() {
            return;
        }
        for id in &of_slot.connections {
            let opened = self.connections.get(id).and_then(|connection| connection.opened);
            actions.extend(opened.map(|opened| ConnectingAction::Give {
                connection: *id,
                dot: opened.dot,
                to: new.clone(),
            }));
        }
    }

    /// Waits no longer for a peer, and answers it no more.
    pub(super) fn lose_peer(
        &mut self,
        peer: NodeId,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        for id in &self.awaited {
            let connection = self.connections.get_mut(id);
            if let Some(Phase::Closing(closing)) = connection.map(|connection| &mut connection.phase) {
                closing.claimants.retain(|by| by.run.node != peer);
            }
        }
        for id in self.claiming() {
            if let Some(claim) = self.claim_mut(id) {
                claim.forget_node(peer);
            }
            self.proceed(id, cluster, actions);
        }
    }

    /// Asks a peer once more for what it owes: messages may be lost with the link.
    pub(super) fn renew_link(
        &self,
        peer: NodeId,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        for id in self.claiming() {
            let (Some(connection), Some(claim)) = (self.connections.get(&id), self.claim(id)) else {
                continue;
            };
            let Some(own) = connection.opened else { continue };
            if claim.awaits_owner(peer) {
                let message = ConnectingMessage::Ask(AskSession {
                    client: connection.client.clone(),
                    connection: own.dot,
                    round: claim.round(),
                    known: cluster.known(),
                });
                actions.push(ConnectingAction::Send(Outgoing { to: peer, message }));
            }
            let awaited = claim.awaited_of(peer).into_iter();
            actions.extend(awaited.map(|old| ask_release(old, own)));
        }
    }

    fn claiming(&self) -> Vec<ConnectionId> {
        let claims = self.due.iter().map(|(_, id)| *id);
        claims
            .filter(|id| self.claim(*id).is_some_and(|claim| claim.is_open()))
            .collect()
    }
}
