//! What other parts of the session plane tell each other between nodes.
//!
//! It travels with the messages: once, in its order, confirmed when what it did is durable. What is on its way to a node that is lost is gone; whoever has told it
//! hears of that as a [`LinkChange`]. A node that has started anew gets what it has not confirmed, and knows only what was on its disk.

use bytes::Bytes;
use cluster::NodeId;
use mqtt::now::Now;

use super::messages::ASK;
use super::{LinkChange, Routes, Subject, WaitId};
use crate::node::{Action, Node};

impl Routes {
    /// Tells a node something, if it is reached. `wait` is then over when it has it durably, too.
    pub(crate) fn tell(
        &mut self,
        to: NodeId,
        (subject, body): (Subject, Bytes),
        wait: Option<WaitId>,
    ) -> bool {
        let Some(slot) = self.slots.get(&to) else {
            return false;
        };
        let link = &mut self.links[*slot];
        if !link.is_reached {
            return false;
        }
        link.outbox.push_other(subject.kind(), body);
        match wait {
            // A copy makes nobody else wait: see `Inbox::on_disk`.
            Some(wait) if subject == Subject::Copies => link.outbox.wait_for_disk(wait, &mut self.waits),
            // A guard needs no disk.
            Some(wait) if subject == Subject::Wills => link.outbox.wait_until_taken(wait, &mut self.waits),
            Some(wait) => link.outbox.wait_for_message(wait, &mut self.waits),
            None => {}
        }
        true
    }

    /// A node says anew what it has told this one, which has not understood it.
    pub(crate) fn ask_anew(&mut self, node: NodeId) {
        let slot = self.slots.get(&node).copied();
        if let Some(slot) = slot.filter(|slot| self.links[*slot].is_reached) {
            self.links[slot].outbox.push_other(ASK, Bytes::new());
        }
    }

    /// Something that several nodes are to confirm; whoever tells them passes it on.
    pub(crate) fn open_wait(&mut self) -> WaitId {
        self.waits.open()
    }

    /// One more has to confirm.
    pub(crate) fn add_to_wait(&mut self, wait: WaitId) {
        self.waits.add(wait);
    }

    /// All who have to confirm were told. `None`: there is nobody.
    pub(crate) fn keep_open(&mut self, wait: WaitId) -> Option<WaitId> {
        self.waits.keep_open(wait)
    }

    /// It is waited for as long as for routes, and no longer.
    pub(crate) fn limit_wait(&mut self, now: Now, wait: WaitId) {
        self.waits
            .limit(wait, now.instant + self.config.subscribe_wait_max);
    }

    /// Whether so much is on its way to a node that nothing more should be given to it that can wait.
    pub(crate) fn is_behind(&self, node: NodeId) -> bool {
        let slot = self.slots.get(&node);
        slot.is_some_and(|slot| self.config.is_exceeded(&self.links[*slot], 2))
    }

    /// Whether nothing is on its way to any node that is reached.
    pub(crate) fn is_all_confirmed(&self) -> bool {
        let mut reached = self.links.iter().filter(|(_, link)| link.is_reached);
        reached.all(|(_, link)| link.outbox.is_empty())
    }

    /// Whether so little is on its way to a node that what can wait may be given to it, and nobody else has to wait for that.
    pub(crate) fn has_room(&self, node: NodeId) -> bool {
        let slot = self.slots.get(&node);
        slot.is_some_and(|slot| !self.config.is_exceeded(&self.links[*slot], 1))
    }

    /// Whether a node is in the cluster.
    pub(crate) fn has_node(&self, node: NodeId) -> bool {
        self.slots.contains_key(&node)
    }

    /// Whether a node has answered all the time, and lately: then it has not given this one up.
    pub(crate) fn is_in_touch(&self, now: Now, node: NodeId) -> bool {
        let slot = self.slots.get(&node);
        slot.is_some_and(|slot| self.links[*slot].is_in_touch(now, self.config.silence_max / 2))
    }

    /// A node has said that it counts on this one, although it was not in touch.
    pub(crate) fn trust_again(&mut self, node: NodeId) {
        if let Some(slot) = self.slots.get(&node) {
            self.links[*slot].trust_again();
        }
    }

    /// Whether a node is reached.
    pub(crate) fn is_reached(&self, node: NodeId) -> bool {
        let slot = self.slots.get(&node);
        slot.is_some_and(|slot| self.links[*slot].is_reached)
    }

    /// In which run a node is, as far as it was heard of.
    pub(crate) fn run_of(&self, node: NodeId) -> Option<u32> {
        let slot = self.slots.get(&node)?;
        self.links[*slot].incarnation
    }

    /// Whether a node is reached, and in this run.
    pub(crate) fn is_reached_in(&self, node: NodeId, run: u32) -> bool {
        self.is_reached(node) && self.run_of(node) == Some(run)
    }

    /// Whether every node of the cluster is reached.
    pub(crate) fn reaches_all(&self) -> bool {
        self.links.iter().all(|(_, link)| link.is_reached)
    }

    /// The other nodes that answer, also those that are lost for the cluster.
    pub(crate) fn answering(&self) -> impl Iterator<Item = NodeId> + '_ {
        let links = self.links.iter().map(|(_, link)| link);
        links.filter(|link| link.is_answering).map(|link| link.node)
    }

    /// The other nodes of the cluster that are not reached.
    pub(crate) fn away(&self) -> impl Iterator<Item = NodeId> + '_ {
        let links = self.links.iter().map(|(_, link)| link);
        links.filter(|link| !link.is_reached).map(|link| link.node)
    }

    /// The other nodes of the cluster that are reached.
    pub(crate) fn reached(&self) -> impl Iterator<Item = NodeId> + '_ {
        let links = self.links.iter().map(|(_, link)| link);
        links.filter(|link| link.is_reached).map(|link| link.node)
    }

    fn take_changes(&mut self) -> Vec<(NodeId, LinkChange)> {
        let links = self.links.iter_mut().map(|(_, link)| link);
        links
            .flat_map(|link| {
                let node = link.node;
                link.take_changes().into_iter().map(move |change| (node, change))
            })
            .collect()
    }
}

impl Node {
    /// A node has told something.
    pub(super) fn take_about(
        &mut self,
        now: Now,
        from: NodeId,
        (subject, body): (Subject, Bytes),
        actions: &mut Vec<Action>,
    ) {
        match subject {
            Subject::Copies => self.take_copies(now, from, &body, actions),
            Subject::Merging => self.take_about_merging(now, from, &body, actions),
            Subject::Wills => self.take_about_wills(now, from, &body, actions),
            Subject::Clients => self.take_about_clients(now, from, &body, actions),
        }
    }

    /// Tells all parts of the session plane which nodes are reached, which have started anew, and which are lost.
    pub(super) fn note_links(&mut self, now: Now, actions: &mut Vec<Action>) {
        loop {
            let changes = self.peers.as_mut().map(|peers| peers.take_changes());
            let changes = changes.unwrap_or_default();
            if changes.is_empty() {
                return;
            }
            for change in &changes {
                self.note_link(now, *change, actions);
            }
            // Of several nodes that are lost at one moment all are: whoever connects finds what this node goes on with.
            for change in changes {
                self.note_link_of_clients(now, change, actions);
            }
        }
    }

    fn note_link(&mut self, now: Now, (node, change): (NodeId, LinkChange), actions: &mut Vec<Action>) {
        match change {
            LinkChange::Answers => self.note_answering(now, (node, true), actions),
            LinkChange::Silent => {
                self.note_answering(now, (node, false), actions);
                self.note_link_of_wills(now, (node, change), actions);
                // One that has just started holds what it held before, although nobody counts on it.
                self.lose_silent(now, node, actions);
                if let Some(peers) = &mut self.peers {
                    peers.give_up_silent(node);
                }
            }
            LinkChange::Reached | LinkChange::Started | LinkChange::Asked | LinkChange::Lost => {
                self.note_link_of_losses(now, (node, change), actions);
                self.note_link_of_copies(node, change);
                if change != LinkChange::Lost {
                    self.tell_of_ended(now, node, actions);
                }
                self.note_link_of_wills(now, (node, change), actions);
            }
        }
    }
}
