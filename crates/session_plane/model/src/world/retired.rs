//! Check of retired runs: what a node covers as a whole has no event that only another member has.
//!
//! An entry that names a QoS 2 number has that number, too: the message may be routed yet. If the number is covered at an owner,
//! its message is taken for one that the owner has decided upon, and nobody gets it.

use super::World;
use crate::copy::Content;
use crate::event::Entry;
use crate::ids::{NodeId, Numbers, Run, Slot};

impl World {
    /// A node covers `run` as a whole, and had these numbers of it.
    pub(super) fn note_retired(&mut self, run: Run, numbers: Numbers) {
        self.retired[run.index()].get_or_insert(numbers);
    }

    /// R1: no member has an event of a retired run that the first node to retire it had not. It would be taken for removed. Nor
    /// has a member an entry that names such a number, unless another one has removed that entry.
    ///
    /// What was closed does not count: nobody has that, though a node covers it.
    pub(super) fn check_retired(&mut self) {
        let found = self.nodes().find_map(|id| self.find_retired(id));
        if let Some(text) = found {
            self.fail(text);
        }
    }

    fn find_retired(&self, id: NodeId) -> Option<String> {
        if self.machines[id.index()].is_lost {
            return None;
        }
        let copies = Slot::all().filter_map(|slot| Some((slot, self.node(id).copy(slot)?)));
        copies
            .into_iter()
            .find_map(|(slot, copy)| self.find_hidden(id, slot, &copy.content))
    }

    fn find_hidden(&self, id: NodeId, slot: Slot, content: &Content) -> Option<String> {
        for index in 0..self.directory.node_of.len() {
            let run = Run(index as u8);
            let Some(retired) = self.retired[index] else {
                continue;
            };
            let covered = content.covered.of(run);
            let own = match covered.is_retired() {
                true => Numbers::EMPTY,
                false => covered,
            };
            let known = own.union(content.taken.of(run));
            let hidden = known.minus(retired).minus(self.closed.of(run));
            if !hidden.is_empty() {
                let (node, slot) = (id.0, slot.0);
                return Some(format!(
                    "R1 hidden: node {node} slot {slot} has {hidden:?} of the retired {run:?}"
                ));
            }
        }
        self.find_hidden_number(id, slot, content)
    }

    fn find_hidden_number(&self, id: NodeId, slot: Slot, content: &Content) -> Option<String> {
        if content.entries.iter().all(|entry| entry.numbered().is_none()) {
            return None;
        }
        let live = content.live(&self.rules);
        let hidden = live.iter().find(|entry| self.is_hidden(slot, entry))?;
        let (node, slot, dot) = (id.0, slot.0, hidden.dot);
        Some(format!(
            "R1 hidden: node {node} slot {slot} names a number of a retired run by {dot:?}"
        ))
    }

    /// The entry of a copy of `slot` names a number of a retired run that the first node to retire it had not.
    fn is_hidden(&self, slot: Slot, entry: &Entry) -> bool {
        let Some(number) = entry.numbered().map(|message| message.number) else {
            return false;
        };
        let is_known = |retired: Numbers| retired.union(self.closed.of(number.run)).has(number.number);
        let is_removed =
            |content: &Content| content.covers(entry.client, entry.dot) && !content.entries.contains(entry);
        let mut copies = self.nodes().filter_map(|other| self.node(other).copy(slot));
        self.retired[number.run.index()].is_some_and(|retired| !is_known(retired))
            && !copies.any(|copy| is_removed(&copy.content))
    }
}
