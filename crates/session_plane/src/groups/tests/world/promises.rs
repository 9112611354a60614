//! Promise G1: what the world has seen of each message, and what must hold of it.
//!
//! A message reaches a second connection only if that of the first has ended, its node is not present
//! to the node that gives, or both were first assigned the message apart: by a node to which the node of
//! the other was not present. Nobody is given a message whose acknowledgement every node has that was
//! present to the node of the connection, if the node that gives is one of them. The same holds if a node
//! of its side knows the acknowledgement, while all of the side have exactly each other.

use super::naive::NaivePart;
use super::{NODES, World, places};
use crate::MadeEvent;
use crate::groups::tests::*;

/// Message of the group, as the world knows it.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Sessions that were members on the publisher's side, and still are.
    promised: BTreeSet<Dot>,
    /// Nodes that were present when the message was first assigned to each presence.
    assigned_on: BTreeMap<Dot, BTreeMap<usize, Run>>,
    /// Presences that were given the message.
    given: BTreeSet<Dot>,
    deliveries: usize,
    completions: usize,
    acknowledged: Option<Acknowledged>,
}

/// Acknowledgement that all present nodes of the connection's node have.
#[derive(Debug)]
struct Acknowledged {
    by: Dot,
    side: BTreeMap<usize, Run>,
}

/// The node of a presence is in a view.
fn has_run(view: &BTreeMap<usize, Run>, presence: Dot) -> bool {
    view.get(&World::node_of(presence.run)) == Some(&presence.run)
}

impl World {
    pub(super) fn note_published(&mut self, node: usize, made: MadeEvent) {
        let members = self.machines[node].state.copy.members();
        let is_before =
            |birth: &Dot, since: Hlc| since < made.clock && self.members.get(birth) == Some(&since);
        let before = members
            .iter()
            .filter(|(birth, member)| is_before(birth, member.since));
        let promised = before.map(|(birth, _)| *birth).collect();
        let record = self.records.entry(made.dot).or_default();
        record.promised = promised;
    }

    /// A session is a member no more. What only it was promised may go.
    pub(super) fn note_left(&mut self, birth: Dot) {
        self.members.remove(&birth);
        for record in self.records.values_mut() {
            record.promised.remove(&birth);
        }
    }

    /// A primary owner assigns a message.
    pub(super) fn note_assigned(
        &mut self,
        node: usize,
        place: &GroupPlace,
        assigned: AssignedMessage,
        removes: &[Dot],
    ) {
        let part = NaivePart::of(&self.machines[node].state.copy.entries(place.slot));
        let is_new = part.assignments_of(assigned.message).next().is_none();
        // A part that is about to be lost may have room for a last one.
        if is_new && self.machines[node].ready.contains(&place.slot) {
            part.assert_next(assigned, &self.machines[node].state.runs());
        }
        // What another run has assigned to a presence that may have the message stays.
        for of in part
            .assignments_of(assigned.message)
            .filter(|of| removes.contains(&of.dot))
        {
            let machine = &self.machines[node];
            let has_ended = machine.state.has_ended(of.presence.run);
            let is_there = part.presences.contains_key(&of.presence) && !has_ended;
            assert!(of.dot.run == machine.run || !is_there, "{of:?} is removed");
        }
        let view = self.machines[node].state.view.clone();
        let record = self.records.entry(assigned.message).or_default();
        record.assigned_on.entry(assigned.presence).or_insert(view);
    }

    /// A primary owner gives a message to a connection.
    pub(super) fn note_given(&mut self, node: usize, give: &Give<u64>) {
        let Give {
            presence,
            message,
            assignment,
            ..
        } = *give;
        let view = &self.machines[node].state.view;
        for peer in view.keys().filter(|peer| self.has_present(node, **peer)) {
            let knows = self.machines[*peer].state.copy.covered.covers(assignment);
            assert!(knows, "node {peer} does not know {assignment:?}");
        }
        // A connection that has ended gets nothing, nor one of a node that was just given up.
        if !self.open.contains_key(&presence) || !has_run(view, presence) {
            return;
        }
        let record = &self.records[&message];
        let on = &record.assigned_on[&presence];
        for other in record.given.iter().filter(|other| **other != presence) {
            let is_new = !record.given.contains(&presence);
            let is_open = self.open.contains_key(other) && has_run(view, *other);
            let are_apart = !has_run(on, *other) || !has_run(&record.assigned_on[other], presence);
            assert!(
                !is_new || !is_open || are_apart,
                "G1 two members: node {node} gives {message:?} to {presence:?} and {other:?} has it: {record:?}"
            );
        }
        if let Some(Acknowledged { by, side }) = &record.acknowledged {
            let own = self.machines[node].run;
            assert_ne!(side.get(&node), Some(&own), "G1 acknowledged: {record:?}");
            if self.closed_side(node).is_some() {
                let knows = |peer: &usize| self.machines[*peer].state.copy.covered.covers(*by);
                let mut here = view.iter().filter(|(peer, run)| on.get(peer) == Some(run));
                assert!(!here.any(|(peer, _)| knows(peer)), "G1 acknowledged: {record:?}");
            }
        }
        let record = self.records.get_mut(&message).expect("looked at above");
        record.given.insert(presence);
    }

    pub(super) fn note_delivered(&mut self, message: Dot) {
        let record = self.records.get_mut(&message).expect("a message of the group");
        record.deliveries += 1;
    }

    /// All present nodes know an acknowledgement.
    pub(super) fn note_acknowledged(&mut self, node: usize, message: Dot, by: Dot) {
        let side = self.machines[node].state.view.clone();
        let record = self.records.get_mut(&message).expect("a message of the group");
        record.acknowledged.get_or_insert(Acknowledged { by, side });
    }

    pub(super) fn note_completed(&mut self, message: Dot) {
        let record = self.records.get_mut(&message).expect("a message of the group");
        record.completions += 1;
        assert!(record.acknowledged.is_some() && record.completions <= record.deliveries);
    }

    /// On each side whose nodes all have each other the primary owner has given what it can.
    #[track_caller]
    pub(super) fn assert_sides_at_rest(&self) {
        for node in (0..NODES).filter(|node| self.closed_side(*node).is_some()) {
            let state = &self.machines[node].state;
            for place in places().filter(|place| state.decides(place.slot)) {
                let part = NaivePart::of(&state.copy.entries(place.slot));
                let left = part.left(&state.runs(), |dot| state.covers(&place, dot));
                assert_eq!(left, None, "node {node} has not given a message: {part:?}");
            }
        }
    }

    #[track_caller]
    pub(in crate::groups::tests) fn assert_at_rest(&self) {
        assert!(self.is_settled());
        let has_member = !self.machines[0].state.copy.members().is_empty();
        for record in self.records.values().filter(|record| !record.promised.is_empty()) {
            assert!(record.deliveries > 0, "G1 lost: {record:?}");
        }
        for node in 0..NODES {
            let machine = &self.machines[node];
            assert_eq!(
                (machine.source.given(), machine.source.waiting()),
                (0, 0),
                "{node}"
            );
            assert_eq!(machine.sink.given(), 0);
            for place in places() {
                let entries = machine.state.copy.entries(place.slot);
                assert_eq!(entries, self.machines[0].state.copy.entries(place.slot));
                for read in entries {
                    let is_of_message = matches!(
                        read.entry,
                        GroupEntry::Message { .. } | GroupEntry::Assignment { .. }
                    );
                    assert!(!is_of_message, "node {node} has {read:?} (members: {has_member})");
                    if matches!(read.entry, GroupEntry::Presence { .. }) {
                        assert!(self.open.contains_key(&read.dot), "{read:?} is not open");
                    }
                }
            }
        }
    }
}
