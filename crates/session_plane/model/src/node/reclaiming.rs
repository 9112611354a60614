//! What a change of the ring does to connections: claims begin anew, and new owners get the entries of connections
//! (section 7 of the specification).

use super::{Connection, Node, Phase, Step};
use crate::event::Event;
use crate::ids::{NodeId, Numbers};
use crate::rules::Rule;
use crate::view::View;

impl Node {
    /// Forgets what a dead peer was to answer, and what it waits for.
    pub(super) fn forget_claims_of(&mut self, peer: NodeId) {
        for connection in &mut self.connections {
            connection.forget_peer(peer);
        }
        self.claims.retain(|claim| claim.node() != peer);
    }

    /// Asks the owners of the new ring for sessions whose CONNACK has not been sent.
    pub(super) fn begin_claims_anew(&mut self, step: &mut Step<'_>, view: &View) {
        let begins_anew = |connection: &&mut Connection| match connection.phase {
            Phase::Claiming => true,
            Phase::Releasing | Phase::Starting => step.holds(Rule::ClaimAnew),
            Phase::Live | Phase::Closing => false,
        };
        let mut claiming = Vec::new();
        for connection in self.connections.iter_mut().filter(begins_anew) {
            connection.begin_anew();
            claiming.push((connection.dot, connection.client));
        }
        for (dot, client) in claiming {
            self.ask_session(step, dot, client, view.owners(step.directory.slot(client)));
        }
    }

    /// Sends the entries of this node's connections to owners that do not have them.
    pub(super) fn send_connections(&mut self, step: &mut Step<'_>, view: &View) {
        let connections: Vec<_> = self
            .connections
            .iter()
            .map(|connection| (connection.dot, connection.client, connection.written_will))
            .collect();
        for (dot, client, will) in connections {
            let slot = step.directory.slot(client);
            let owners = view.owners(slot);
            let Some(connection) = self.connection_mut(dot) else {
                continue;
            };
            let new = connection.tell(owners);
            let own = [dot].into_iter().chain(will.map(|will| will.entry));
            let events: Vec<Event> = own.filter_map(|dot| self.sender.find(dot).cloned()).collect();
            self.give(step, slot, new, Numbers::EMPTY, &events);
        }
    }
}
